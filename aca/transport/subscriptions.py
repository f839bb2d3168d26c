"""The gRPC server through which controllers name the topics that this host is to read (SubscribeInfoProvisioner).

What is wrong with a request is said by INVALID_ARG in the reply and, as the contract has no field for it, in words in
the trailing metadata `aca-reason-bin` (UTF-8). Only bytes that are no request make a gRPC error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import grpc
import structlog
from google.protobuf.message import DecodeError

from aca.kafkasettings import check_topic
from aca.transport.exchange import Context
from aca.transport.listen import Bound, bind
from goalstate_proto import common_pb2
from goalstate_proto.subscribeinfoprovisioner_pb2 import (
    NodeSubscribeInfo,
    Subscribe,
    SubscribeOperationReply,
    Unsubscribe,
)

SERVICE = "alcor.schema.SubscribeInfoProvisioner"
METHOD = f"/{SERVICE}/PushNodeSubscribeInfo"
REASON = "aca-reason-bin"
MAX_KEY_BYTES = 1024

_MAX_REQUEST_BYTES = 64 * 1024
_log = structlog.get_logger(__name__)


class Subscriber(Protocol):
    """Who reads the topics. Both are idempotent and do not block; ValueError says why a subscription is refused."""

    def subscribe(self, topic: str, key: str) -> None: ...

    def unsubscribe(self, topic: str, key: str) -> None: ...


class SubscriptionServer:
    """Serves SubscribeInfoProvisioner. Every method but the constructor runs on one event loop."""

    def __init__(self, subscriber: Subscriber, listen: Sequence[str]) -> None:
        """`listen`: `HOST:PORT`, `[IPv6]:PORT` or `unix:/PATH`."""
        self._subscriber = subscriber
        self._listen = listen
        self._server: grpc.aio.Server | None = None
        self._bound: list[Bound] = []

    async def start(self) -> Sequence[str]:
        """Listen and serve; returns the addresses with their real ports. Raises ListenError."""
        server = grpc.aio.server(
            options=[("grpc.max_receive_message_length", _MAX_REQUEST_BYTES), ("grpc.so_reuseport", 0)]
        )
        # Of raw bytes: what is no request is answered with a reason.
        methods = {"PushNodeSubscribeInfo": grpc.unary_unary_rpc_method_handler(self._push)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
        self._server = server
        for address in self._listen:
            self._bound.append(bind(server, address))
        await server.start()
        addresses = [bound.address for bound in self._bound]
        _log.info("listening for subscriptions", addresses=addresses)
        return addresses

    async def stop(self, grace: float) -> None:
        """Take no more, end every call: within `grace` seconds. Idempotent."""
        server, self._server = self._server, None
        if server is None:
            return
        await server.stop(grace)
        for bound in self._bound:
            bound.release()

    async def _push(self, data: bytes, context: Context) -> bytes:
        try:
            request = NodeSubscribeInfo.FromString(data)
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the bytes are no NodeSubscribeInfo")
        status = common_pb2.SUCCESS
        try:
            self._change(request)
        except ValueError as refusal:
            status = common_pb2.INVALID_ARG
            context.set_trailing_metadata(((REASON, str(refusal).encode()),))
            _log.warning("subscription refused", topic=request.topic[:256], reason=str(refusal))
        return SubscribeOperationReply(operationStatus=status).SerializeToString()

    def _change(self, request: NodeSubscribeInfo) -> None:
        """Raises ValueError naming field and value."""
        topic, key = request.topic, request.key
        try:
            check_topic(topic)
        except ValueError as refusal:
            raise ValueError(f"topic {topic[:256]!r}: {refusal}") from None
        if (length := len(key.encode())) > MAX_KEY_BYTES:
            raise ValueError(f"key: must be at most {MAX_KEY_BYTES} bytes, not {length}")
        if request.subscribe_operation == Subscribe:
            self._subscriber.subscribe(topic, key)
        elif request.subscribe_operation == Unsubscribe:
            self._subscriber.unsubscribe(topic, key)
        else:
            operation = request.subscribe_operation
            raise ValueError(f"subscribe_operation {operation}: must be Subscribe (0) or Unsubscribe (1)")
