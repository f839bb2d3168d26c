"""The gRPC server as a controller meets it, on a fake engine."""

from __future__ import annotations

import json
import os
import queue
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from aca.transport.admin import AdminServer
from aca.transport.listen import ListenError
from aca.transport.thread import ServerThread
from goalstate_proto import aca_pb2, aca_pb2_grpc, common_pb2, goalstate_pb2, goalstateprovisioner_pb2
from tests.integration.fake_engine import FakeAgent, FakeEngine, Host

WAIT_S = 20.0
STREAM = "/alcor.schema.GoalStateProvisioner/PushGoalStatesStream"
UNARY = "/alcor.schema.GoalStateProvisioner/PushNetworkResourceStates"


@pytest.fixture
def start() -> Iterator[Callable[..., Host]]:
    hosts: list[Host] = []

    def make(engine: FakeEngine | None = None, **settings: Any) -> Host:
        hosts.append(Host(engine or FakeEngine(), **settings))
        return hosts[-1]

    yield make
    for host in hosts:
        host.close()


class Stream:
    """The client's end of an open stream: sends when told to, half-closes when told to."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.call: Any = channel.stream_stream(STREAM, None, None)(iter(self._out.get, None), timeout=WAIT_S)

    def send(self, message: bytes) -> None:
        self._out.put(message)

    def receive(self) -> goalstateprovisioner_pb2.GoalStateOperationReply:
        return goalstateprovisioner_pb2.GoalStateOperationReply.FromString(next(self.call))

    def half_close(self) -> None:
        self._out.put(None)


def v2(*ids: str, name: str = "") -> goalstate_pb2.GoalStateV2:
    message = goalstate_pb2.GoalStateV2(format_version=102)
    for id_ in ids:
        message.port_states[id_].operation_type = common_pb2.CREATE
        message.port_states[id_].configuration.id = id_
        message.port_states[id_].configuration.name = name
    return message


def v1(*ids: str) -> goalstate_pb2.GoalState:
    message = goalstate_pb2.GoalState(format_version=101)
    for id_ in ids:
        message.port_states.add().configuration.id = id_
    return message


def ids_of(reply: goalstateprovisioner_pb2.GoalStateOperationReply) -> list[str]:
    return [status.resource_id for status in reply.operation_statuses]


def test_v1_is_pushed_by_a_unary_call(start: Callable[..., Host]) -> None:
    host = start()
    reply = host.stub.PushNetworkResourceStates(v1("p1", "p2"), timeout=WAIT_S)
    assert ids_of(reply) == ["p1", "p2"]
    assert reply.format_version == 101


def test_neighbour_rules_are_pushed_by_a_unary_call(start: Callable[..., Host]) -> None:
    host = start()
    request = goalstateprovisioner_pb2.NeighborRulesRequest(format_version=7, request_id="r")
    assert host.stub.PushGoalstates(request, timeout=WAIT_S).format_version == 7
    assert host.engine.received == [request]


def test_request_goal_states_is_not_for_agents(start: Callable[..., Host]) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        start().stub.RequestGoalStates(goalstateprovisioner_pb2.HostRequest(), timeout=WAIT_S)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_ten_messages_on_a_stream_get_ten_replies_in_order(start: Callable[..., Host]) -> None:
    messages = [v2(f"p{number}") for number in range(10)]
    replies = list(start().stub.PushGoalStatesStream(iter(messages), timeout=WAIT_S))
    assert [ids_of(reply) for reply in replies] == [[f"p{number}"] for number in range(10)]


def test_replies_keep_the_order_of_the_messages_when_the_engine_does_not(start: Callable[..., Host]) -> None:
    host = start(FakeEngine(hold=True))
    stream = Stream(host.channel)
    for number in range(5):
        stream.send(v2(f"p{number}").SerializeToString())
    for _ in range(5):  # all five are in hand although none is answered
        assert host.engine.arrived.acquire(timeout=WAIT_S)
    host.engine.release()
    assert [ids_of(stream.receive()) for _ in range(5)] == [[f"p{number}"] for number in range(5)]
    stream.half_close()


def test_a_stream_stays_until_the_client_half_closes_and_then_ends_ok(start: Callable[..., Host]) -> None:
    host = start()
    stream = Stream(host.channel)
    for id_ in ("p1", "p2"):
        stream.send(v2(id_).SerializeToString())
        assert ids_of(stream.receive()) == [id_]
    assert stream.call.is_active()
    stream.half_close()
    with pytest.raises(StopIteration):
        next(stream.call)
    assert stream.call.code() == grpc.StatusCode.OK


def test_an_empty_message_is_answered_while_the_engine_is_stuck(start: Callable[..., Host]) -> None:
    host = start(FakeEngine(ready=False, hold=True))
    warm_up = Stream(host.channel)
    warm_up.send(b"")
    assert not warm_up.receive().operation_statuses
    assert warm_up.call.is_active()
    reply = host.channel.unary_unary(UNARY, None, None)(b"", timeout=WAIT_S)
    assert not goalstateprovisioner_pb2.GoalStateOperationReply.FromString(reply).operation_statuses
    assert host.engine.received == []


@pytest.mark.parametrize("garbage", [b"\xff\xff\xff", b"\x12\x05ab", bytes(range(256)) * 1024], ids=len)
def test_garbage_is_an_invalid_argument_and_the_server_lives_on(start: Callable[..., Host], garbage: bytes) -> None:
    host = start()
    with pytest.raises(grpc.RpcError) as unary:
        host.channel.unary_unary(UNARY, None, None)(garbage, timeout=WAIT_S)
    assert unary.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "not a message" in str(unary.value.details())
    stream = Stream(host.channel)
    stream.send(v2("before").SerializeToString())
    stream.send(garbage)
    assert ids_of(stream.receive()) == ["before"]
    with pytest.raises(grpc.RpcError) as streamed:
        stream.receive()
    assert streamed.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    stream.half_close()
    assert ids_of(host.stub.PushNetworkResourceStates(v1("p"), timeout=WAIT_S)) == ["p"]


def test_a_100_mb_message_passes(start: Callable[..., Host]) -> None:
    host = start()
    message = v2("p", name="x" * 100_000_000)
    (reply,) = host.stub.PushGoalStatesStream(iter([message]), timeout=WAIT_S)
    assert ids_of(reply) == ["p"]
    assert host.engine.received == [message]


def test_a_message_above_the_limit_is_refused(start: Callable[..., Host]) -> None:
    host = start(max_message_bytes=1 << 20)
    with pytest.raises(grpc.RpcError) as caught:
        host.channel.unary_unary(UNARY, None, None)(bytes((1 << 20) + 1), timeout=WAIT_S)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_no_more_messages_are_handed_over_than_allowed(start: Callable[..., Host]) -> None:
    host = start(FakeEngine(hold=True), max_concurrent_messages=2)
    calls = [host.stub.PushNetworkResourceStates.future(v1(f"p{number}"), timeout=WAIT_S) for number in range(5)]
    for _ in range(2):
        assert host.engine.arrived.acquire(timeout=WAIT_S)
    assert not host.engine.arrived.acquire(timeout=0.2)
    host.engine.release()
    assert sorted(ids_of(call.result()) for call in calls) == [[f"p{number}"] for number in range(5)]


def test_a_client_that_gives_up_does_not_use_up_room(start: Callable[..., Host]) -> None:
    host = start(FakeEngine(hold=True), max_concurrent_messages=1)
    call = host.stub.PushNetworkResourceStates.future(v1("given-up"), timeout=WAIT_S)
    assert host.engine.arrived.acquire(timeout=WAIT_S)
    call.cancel()
    host.engine.release()
    assert ids_of(host.stub.PushNetworkResourceStates(v1("next"), timeout=WAIT_S)) == ["next"]


def test_health_follows_the_engine(start: Callable[..., Host]) -> None:
    host = start(FakeEngine(ready=False))
    health: Any = health_pb2_grpc.HealthStub(host.channel)
    for service in ("", "alcor.schema.GoalStateProvisioner"):
        host.engine.set_ready(False)
        watch = health.Watch(health_pb2.HealthCheckRequest(service=service), timeout=WAIT_S)
        seen = [next(watch).status]
        host.engine.set_ready(True)
        while seen[-1] != health_pb2.HealthCheckResponse.SERVING:
            seen.append(next(watch).status)
        host.engine.set_ready(False)
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()


def test_reflection_names_the_services(start: Callable[..., Host]) -> None:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(start().channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    (reply,) = stub.ServerReflectionInfo(iter([request]), timeout=WAIT_S)
    names = {service.name for service in reply.list_services_response.service}
    assert {"alcor.schema.GoalStateProvisioner", "grpc.health.v1.Health"} <= names


def test_200_idle_streams_use_no_threads(start: Callable[..., Host]) -> None:
    host = start()
    host.stub.PushNetworkResourceStates(v1("p"), timeout=WAIT_S)
    before = _threads_of_the_server()
    streams = []
    for _ in range(200):
        stream = Stream(host.channel)
        stream.send(b"")
        stream.receive()
        streams.append(stream)
    assert _threads_of_the_server() == before
    assert ids_of(host.stub.PushNetworkResourceStates(v1("p"), timeout=WAIT_S)) == ["p"]
    for stream in streams:
        stream.half_close()


def _threads_of_the_server() -> list[str]:
    # The synchronous client of this test has a thread for each of its streams; ours carry our name.
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("aca-"))


def test_stop_answers_what_is_in_hand(start: Callable[..., Host]) -> None:
    host = start(FakeEngine(hold=True))
    call = host.stub.PushNetworkResourceStates.future(v1("p"), timeout=WAIT_S)
    stream = Stream(host.channel)
    stream.send(v2("q").SerializeToString())
    for _ in range(2):
        assert host.engine.arrived.acquire(timeout=WAIT_S)
    host.thread.run(host.server.drain(), WAIT_S)
    with pytest.raises(grpc.RpcError) as refused:
        host.stub.PushNetworkResourceStates(v1("late"), timeout=WAIT_S)
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    host.engine.release()
    assert ids_of(call.result()) == ["p"]
    assert ids_of(stream.receive()) == ["q"]
    with pytest.raises(grpc.RpcError) as ended:
        stream.receive()
    assert ended.value.code() == grpc.StatusCode.UNAVAILABLE
    host.stop()


def test_stop_does_not_wait_for_a_hung_engine(start: Callable[..., Host]) -> None:
    host = start(FakeEngine(hold=True))
    call = host.stub.PushNetworkResourceStates.future(v1("p"), timeout=WAIT_S)
    streams = [Stream(host.channel) for _ in range(20)]
    for stream in streams:
        stream.send(b"")
        stream.receive()
    watch = health_pb2_grpc.HealthStub(host.channel).Watch(health_pb2.HealthCheckRequest(), timeout=WAIT_S)
    next(watch)
    assert host.engine.arrived.acquire(timeout=WAIT_S)
    host.thread.run(host.server.stop(1.0), 5.0)  # raises TimeoutError when it takes longer
    with pytest.raises(grpc.RpcError) as caught:
        call.result()
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    for stream in streams:
        with pytest.raises(grpc.RpcError):
            stream.receive()


def test_two_agents_on_one_port_are_an_error_with_a_reason(start: Callable[..., Host]) -> None:
    address = start().address
    with pytest.raises(ListenError, match=f"cannot listen on {address}: Address already in use"):
        start(listen=(address,))


@pytest.fixture
def thread() -> Iterator[ServerThread]:
    made = ServerThread()
    made.start()
    yield made
    made.close()


def _status(path: Path) -> dict[str, Any]:
    with grpc.insecure_channel(f"unix:{path}") as channel:
        stub: Any = aca_pb2_grpc.AdminStub(channel)
        return dict(json.loads(stub.GetStatus(aca_pb2.StatusRequest(), timeout=WAIT_S).json))


def test_admin_socket_is_for_the_owner_only_and_goes_away(thread: ServerThread, tmp_path: Path) -> None:
    path = tmp_path / "made" / "admin.sock"
    admin = AdminServer(path, FakeAgent({"answer": 42}))
    thread.run(admin.start(), WAIT_S)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert _status(path) == {"answer": 42}
    thread.run(admin.stop(0.1), WAIT_S)
    assert not path.exists()


def test_a_stale_admin_socket_is_replaced_and_a_live_one_is_not(thread: ServerThread, tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    admin = AdminServer(path, FakeAgent({"which": "first"}))
    thread.run(admin.start(), WAIT_S)
    with pytest.raises(ListenError, match="another agent answers there"):
        thread.run(AdminServer(path, FakeAgent({"which": "second"})).start(), WAIT_S)
    assert _status(path) == {"which": "first"}
    thread.run(admin.stop(0.1), WAIT_S)


def test_an_agent_that_was_refused_leaves_the_others_admin_socket_alone(thread: ServerThread, tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    admin, refused = AdminServer(path, FakeAgent({"which": "first"})), AdminServer(path, FakeAgent({"which": "second"}))
    thread.run(admin.start(), WAIT_S)
    with pytest.raises(ListenError):
        thread.run(refused.start(), WAIT_S)
    thread.run(refused.stop(0.1), WAIT_S)
    assert _status(path) == {"which": "first"}
    thread.run(admin.stop(0.1), WAIT_S)
    assert list(tmp_path.iterdir()) == []


def test_an_agent_that_stops_leaves_the_socket_alone_that_took_its_name(thread: ServerThread, tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    old, new = AdminServer(path, FakeAgent({"which": "old"})), AdminServer(path, FakeAgent({"which": "new"}))
    thread.run(old.start(), WAIT_S)
    path.unlink()
    thread.run(new.start(), WAIT_S)
    thread.run(old.stop(0.1), WAIT_S)
    assert _status(path) == {"which": "new"}
    thread.run(new.stop(0.1), WAIT_S)


def test_the_socket_for_controllers_stays_with_the_agent_that_bound_it(
    start: Callable[..., Host], tmp_path: Path
) -> None:
    path = tmp_path / "grpc.sock"
    first = start(listen=(f"unix:{path}",))
    with pytest.raises(ListenError, match="another agent answers there"):
        start(listen=(f"unix:{tmp_path}/other.sock", f"unix:{path}"))
    assert ids_of(first.stub.PushNetworkResourceStates(v1("p"), timeout=WAIT_S)) == ["p"]
    path.unlink()
    second = start(listen=(f"unix:{path}",))
    first.stop()
    assert ids_of(second.stub.PushNetworkResourceStates(v1("q"), timeout=WAIT_S)) == ["q"]
    second.stop()
    assert not path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_agent_that_may_not_make_its_admin_socket_says_what_helps(thread: ServerThread) -> None:
    # Not below pytest's directories, which no other user may enter.
    directory = Path(tempfile.mkdtemp(prefix="aca-test-"))
    directory.chmod(0o755)
    admin = AdminServer(directory / "admin.sock", FakeAgent({}))
    os.seteuid(65534)
    try:
        with pytest.raises(ListenError) as caught:
            thread.run(admin.start(), WAIT_S)
    finally:
        os.seteuid(0)
    shutil.rmtree(directory)
    assert str(caught.value) == (
        f"cannot listen on unix:{directory}/admin.sock: Permission denied (run as root, or set admin.socket)"
    )


def test_a_path_too_long_for_a_socket_is_told(thread: ServerThread, tmp_path: Path) -> None:
    directory = tmp_path / ("x" * 100)
    with pytest.raises(ListenError, match=r"cannot listen on unix:/.*: AF_UNIX path too long"):
        thread.run(AdminServer(directory / "admin.sock", FakeAgent({})).start(), WAIT_S)


def test_a_file_in_the_place_of_the_admin_socket_is_not_removed(thread: ServerThread, tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    path.write_text("precious")
    with pytest.raises(ListenError, match="not a socket"):
        thread.run(AdminServer(path, FakeAgent({})).start(), WAIT_S)
    assert path.read_text() == "precious"
