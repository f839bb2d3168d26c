"""The server that controllers tell topics, as they meet it, on a subscriber that remembers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from aca.transport.listen import ListenError
from aca.transport.subscriptions import MAX_KEY_BYTES, METHOD, REASON, SubscriptionServer
from aca.transport.thread import ServerThread
from goalstate_proto import common_pb2
from goalstate_proto.subscribeinfoprovisioner_pb2 import NodeSubscribeInfo, Subscribe, Unsubscribe
from goalstate_proto.subscribeinfoprovisioner_pb2_grpc import SubscribeInfoProvisionerStub

WAIT_S = 20.0


class Remembers:
    """A subscriber that keeps what stands."""

    def __init__(self) -> None:
        self.standing: set[tuple[str, str]] = set()

    def subscribe(self, topic: str, key: str) -> None:
        if topic == "full":
            raise ValueError("too many topics are read already")
        self.standing.add((topic, key))

    def unsubscribe(self, topic: str, key: str) -> None:
        self.standing.discard((topic, key))


class Served:
    def __init__(self) -> None:
        self.subscriber = Remembers()
        self.thread = ServerThread()
        self.thread.start()
        self.server = SubscriptionServer(self.subscriber, ("127.0.0.1:0",))
        self.address = self.thread.run(self.server.start(), WAIT_S)[0]
        self.channel = grpc.insecure_channel(self.address)

    def push(self, operation: int, topic: str, key: str = "") -> tuple[int, str]:
        """Status, and the reason if one is given."""
        stub: Any = SubscribeInfoProvisionerStub(self.channel)
        request = NodeSubscribeInfo(subscribe_operation=operation, topic=topic, key=key)  # type: ignore[arg-type]
        reply, call = stub.PushNodeSubscribeInfo.with_call(request, timeout=WAIT_S)
        reasons = [value.decode() for name, value in call.trailing_metadata() if name == REASON]
        return reply.operationStatus, "".join(reasons)

    def close(self) -> None:
        self.channel.close()
        self.thread.run(self.server.stop(1.0), WAIT_S)
        self.thread.close()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.close()


def test_a_topic_is_subscribed_and_unsubscribed_again_and_again(served: Served) -> None:
    for _ in range(2):
        assert served.push(Subscribe, "vpc-1", "10.0.0.1") == (common_pb2.SUCCESS, "")
        assert served.push(Subscribe, "vpc-1", "10.0.0.1") == (common_pb2.SUCCESS, "")
        assert served.subscriber.standing == {("vpc-1", "10.0.0.1")}
        assert served.push(Unsubscribe, "vpc-1", "10.0.0.1") == (common_pb2.SUCCESS, "")
        assert served.push(Unsubscribe, "vpc-1", "10.0.0.1") == (common_pb2.SUCCESS, "")
        assert not served.subscriber.standing


def test_subscriptions_stay_when_the_controller_comes_back_by_another_connection(served: Served) -> None:
    served.push(Subscribe, "vpc-1")
    served.channel.close()
    served.channel = grpc.insecure_channel(served.address)
    served.push(Subscribe, "vpc-2", "49775")
    assert served.subscriber.standing == {("vpc-1", ""), ("vpc-2", "49775")}


@pytest.mark.parametrize(
    ("operation", "topic", "key", "words"),
    [
        (Subscribe, "", "", "topic ''"),
        (Subscribe, "..", "", "topic '..'"),
        (Subscribe, "a b", "", "topic 'a b'"),
        (Subscribe, "vpc-ü", "", "topic 'vpc-ü'"),
        (Subscribe, "t" * 250, "", "1 to 249"),
        (Unsubscribe, "", "", "topic ''"),
        (Subscribe, "t", "k" * (MAX_KEY_BYTES + 1), "key: must be at most 1024 bytes, not 1025"),
        (7, "t", "", "subscribe_operation 7"),
        (Subscribe, "full", "", "too many topics"),
    ],
)
def test_bad_input_is_refused_with_a_reason(
    served: Served, operation: int, topic: str, key: str, words: str
) -> None:
    served.push(Subscribe, "good")
    status, reason = served.push(operation, topic, key)
    assert status == common_pb2.INVALID_ARG
    assert words in reason
    assert served.subscriber.standing == {("good", "")}


def test_bytes_that_are_no_request_are_a_grpc_error_and_the_next_request_is_served(served: Served) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        served.channel.unary_unary(METHOD, None, None)(b"\xff\xff", timeout=WAIT_S)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert served.push(Subscribe, "t")[0] == common_pb2.SUCCESS


def test_an_address_in_use_is_named(served: Served) -> None:
    other = SubscriptionServer(Remembers(), (served.address,))
    with pytest.raises(ListenError, match=served.address):
        served.thread.run(other.start(), WAIT_S)
    served.thread.run(other.stop(0.1), WAIT_S)
