"""The client to the controllers: asks them for the states that packets of this host need (RequestGoalStates).

Several addresses serve one purpose: the one that answered last is asked first, and when it cannot be reached the next
one is, within the same call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import structlog

from aca.ondemand.values import Answers, Inquiry, Verdict
from dataplane.addresses import format_address
from goalstate_proto.common_pb2 import FAILURE, IPV4, SUCCESS, EtherType, OperationStatus, Protocol
from goalstate_proto.common_pb2 import RequestType as WireRequestType
from goalstate_proto.goalstateprovisioner_pb2 import HostRequest, HostRequestReply

FORMAT_VERSION = 1
_METHOD = "/alcor.schema.GoalStateProvisioner/RequestGoalStates"
_MAX_REPLY_BYTES = 16 << 20
_VERDICTS: Mapping[OperationStatus, Verdict] = {SUCCESS: Verdict.ROUTABLE, FAILURE: Verdict.UNROUTABLE}
_RECONNECT_MS = (100, 100, 5_000)
"""First, least and longest pause between attempts to connect."""

log = structlog.get_logger(__name__)


class TlsError(Exception):
    """A certificate or key cannot be used; the message names the file."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: who is trusted; and what this agent shows of itself, if it shows anything."""

    ca: Path
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """`addresses` are HOST:PORT, [IPv6]:PORT or unix:/PATH; times in seconds. `request_timeout_s` is for one address.

    `tls` None: in the clear.
    """

    addresses: tuple[str, ...]
    request_timeout_s: float = 1.0
    keepalive_s: float = 20.0
    tls: TlsFiles | None = None


class ControllerClient:
    """Every method but the constructor runs on one event loop; calls may run side by side."""

    def __init__(self, settings: ControllerSettings) -> None:
        """Connects to nobody yet. Raises TlsError."""
        self._settings = settings
        self._credentials = _credentials(settings.tls) if settings.tls is not None else None
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._order = list(settings.addresses)

    async def request_goal_states(self, inquiries: Mapping[str, Inquiry]) -> Answers:
        """Ask about packets, by request id. Never raises for what a controller does or fails to do."""
        request = HostRequest(format_version=FORMAT_VERSION)
        for request_id, inquiry in inquiries.items():
            request.state_requests.add(
                request_type=WireRequestType.ON_DEMAND,
                request_id=request_id,
                tunnel_id=inquiry.tunnel_id,
                source_ip=format_address(inquiry.source),
                source_port=inquiry.source_port,
                destination_ip=format_address(inquiry.destination),
                destination_port=inquiry.destination_port,
                ethertype=IPV4 if len(inquiry.destination) == 4 else EtherType.IPV6,
                protocol=Protocol.Name(inquiry.protocol),
            )
        return await self._ask(request)

    async def agent_restarted(self, request_id: str, source: bytes) -> Answers:
        """Tell that the agent of the host with this data path address (packed) has started and knows nothing, so that
        everything is pushed again. The answer is about the request's id; ROUTABLE: the controller will.
        """
        request = HostRequest(format_version=FORMAT_VERSION)
        request.state_requests.add(
            request_type=WireRequestType.AGENT_RESTARTED,
            request_id=request_id,
            source_ip=format_address(source),
        )
        return await self._ask(request)

    async def close(self) -> None:
        """End what is under way, close the connections."""
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close(None)

    async def _ask(self, request: HostRequest) -> Answers:
        troubles = []
        for address in list(self._order):
            try:
                reply = await self._call(address, request)
            except grpc.aio.AioRpcError as error:
                troubles.append(f"{address}: {error.code().name}: {error.details() or 'no details'}")
                continue
            if address != self._order[0] and address in self._order:
                self._order.remove(address)
                self._order.insert(0, address)
                log.info("another controller answers", address=address)
            return Answers(_verdicts(reply))
        return Answers(trouble="; ".join(troubles))

    async def _call(self, address: str, request: HostRequest) -> HostRequestReply:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._open(address)
        method = channel.unary_unary(
            _METHOD, request_serializer=HostRequest.SerializeToString, response_deserializer=HostRequestReply.FromString
        )
        reply: HostRequestReply = await method(request, timeout=self._settings.request_timeout_s)
        return reply

    def _open(self, address: str) -> grpc.aio.Channel:
        options = _options(self._settings.keepalive_s)
        if self._credentials is None:
            return grpc.aio.insecure_channel(address, options=options)
        return grpc.aio.secure_channel(address, self._credentials, options=options)


def _verdicts(reply: HostRequestReply) -> dict[str, Verdict]:
    """Of several statuses for one request the last counts; those that say neither yes nor no are left out."""
    found: dict[str, Verdict] = {}
    for status in reply.operation_statuses:
        verdict = _VERDICTS.get(status.operation_status)
        if verdict is not None:
            found[status.request_id] = verdict
    return found


def _options(keepalive_s: float) -> Sequence[tuple[str, int]]:
    first, least, longest = _RECONNECT_MS
    return [
        ("grpc.keepalive_time_ms", int(keepalive_s * 1000)),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", first),
        ("grpc.min_reconnect_backoff_ms", least),
        ("grpc.max_reconnect_backoff_ms", longest),
        ("grpc.max_receive_message_length", _MAX_REPLY_BYTES),
        # Back-off after failures belongs to this client, not to others in the process.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
    ]


def _credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    def read(path: Path | None) -> bytes | None:
        try:
            return path.read_bytes() if path is not None else None
        except OSError as problem:
            raise TlsError(f"{path}: cannot be read: {problem.strerror}") from None

    return grpc.ssl_channel_credentials(read(files.ca), read(files.key), read(files.certificate))
