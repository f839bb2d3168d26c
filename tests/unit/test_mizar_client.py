"""The client against the test daemon: order, matching, losses, repeats, restarts, ends."""

import struct
import threading
from collections.abc import Iterator

import pytest

from dataplane.mizar import procedures as p
from dataplane.mizar import values as v
from dataplane.mizar.client import Client, Settings, Transport
from dataplane.mizar.errors import Closed, CodeError, Lost, ReplyError, Unanswered, ValueRefused
from tests.lab.commands import wait_until
from tests.lab.transitd import TransitDaemon

MAC = bytes.fromhex("020000000001")
TRANSPORTS = pytest.mark.parametrize("transport", list(Transport))


@pytest.fixture
def daemon() -> Iterator[TransitDaemon]:
    with TransitDaemon() as running:
        yield running


def client_of(daemon: TransitDaemon, transport: Transport = Transport.TCP, **settings: float) -> Client:
    made = {"patience_s": 10.0, "resend_s": 0.2} | settings
    return Client(Settings(mapper_port=daemon.mapper_port, transport=transport, **made))  # type: ignore[arg-type]


def load(client: Client) -> None:
    client.load_transit_xdp(v.XdpIntf("eth0", "/x"))


def ip(number: int) -> bytes:
    return struct.pack(">I", 0x0A000000 + number)


def endpoint(number: int, hosted: str = "") -> v.Endpoint:
    return v.Endpoint("eth0", ip(number), v.EndpointType.SIMPLE, (ip(1),), MAC, hosted, "", 3)


@TRANSPORTS
def test_a_batch_is_done_in_order_and_answered_in_order(daemon: TransitDaemon, transport: Transport) -> None:
    client = client_of(daemon, transport)
    load(client)
    calls = [p.UPDATE_EP(endpoint(number)) for number in range(500)]
    calls += [p.DELETE_EP(v.EndpointKey("eth0", 3, ip(number))) for number in range(0, 500, 2)]
    answers = client.run(calls)
    assert [answer.call for answer in answers] == calls
    assert all(answer.done and answer.sent == 1 for answer in answers)
    assert [made.name for made in daemon.state.calls[1:]] == [call.procedure.name.lower() for call in calls]
    assert len(daemon.state.table("ep")) == 250
    client.close()


@TRANSPORTS
def test_answers_in_another_order_reach_their_calls(daemon: TransitDaemon, transport: Transport) -> None:
    client = client_of(daemon, transport)
    load(client)
    held: list[bytes] = []

    def two_at_a_time_backwards(_: int, replies: list[bytes]) -> list[bytes]:
        held.extend(replies)
        if len(held) < 2:
            return []
        out = held[::-1]
        held.clear()
        return out

    daemon.on_reply = two_at_a_time_backwards
    absent = v.EndpointKey("eth0", 3, ip(9))
    answers = client.run([p.UPDATE_EP(endpoint(1)), p.DELETE_EP(absent)] * 8)
    assert [answer.done for answer in answers] == [True, False] * 8
    client.close()


@TRANSPORTS
def test_an_answer_that_comes_twice_is_taken_once(daemon: TransitDaemon, transport: Transport) -> None:
    client = client_of(daemon, transport)
    load(client)
    daemon.on_reply = lambda _, replies: replies * 2
    absent = v.EndpointKey("eth0", 3, ip(9))
    answers = client.run([p.UPDATE_EP(endpoint(1)), p.DELETE_EP(absent)] * 40)
    assert [answer.done for answer in answers] == [True, False] * 40
    client.close()


@TRANSPORTS
def test_a_get_of_what_is_not_there_is_an_error_and_the_next_call_goes_on(
    daemon: TransitDaemon, transport: Transport
) -> None:
    client = client_of(daemon, transport)
    load(client)
    with pytest.raises(ReplyError, match="GET_EP"):
        client.get_ep(v.EndpointKey("eth0", 3, ip(9)))
    client.update_ep(endpoint(1))
    assert client.get_ep(v.EndpointKey("eth0", 3, ip(1))).mac == MAC
    assert client.get_ep(v.EndpointKey("eth0", 3, ip(9))).interface == ""
    client.close()


def test_a_lost_request_is_repeated_with_all_that_followed_it(daemon: TransitDaemon) -> None:
    client = client_of(daemon, Transport.UDP)
    load(client)
    lost = iter([True])
    daemon.on_call = lambda number: not (number == p.UPDATE_EP.number and next(lost, False))
    answers = client.run([p.UPDATE_EP(endpoint(1)), p.DELETE_EP(v.EndpointKey("eth0", 3, ip(1)))])
    assert [answer.done for answer in answers] == [True, True]
    assert daemon.state.table("ep") == {}
    client.close()


def test_a_delete_whose_answer_was_lost_is_done(daemon: TransitDaemon) -> None:
    client = client_of(daemon, Transport.UDP)
    load(client)
    client.update_ep(endpoint(1))
    lost = iter([True])
    daemon.on_reply = lambda _, replies: [] if next(lost, False) else replies
    (answer,) = client.run([p.DELETE_EP(v.EndpointKey("eth0", 3, ip(1)))])
    assert answer.done
    assert answer.sent == 2
    with pytest.raises(CodeError, match=r"DELETE_EP .*code 2"):
        client.delete_ep(v.EndpointKey("eth0", 3, ip(1)))
    client.close()


def test_a_hosted_endpoint_is_never_sent_twice(daemon: TransitDaemon) -> None:
    client = client_of(daemon, Transport.UDP, patience_s=1.0)
    load(client)
    daemon.on_reply = lambda number, replies: [] if number == p.UPDATE_EP.number else replies
    plain, hosted, later = client.run(
        [p.UPDATE_NET(v.Network("eth0", 24, 3, ip(0))), p.UPDATE_EP(endpoint(1, "veth1")), p.UPDATE_EP(endpoint(2))]
    )
    assert plain.done
    assert isinstance(hosted.error, Unanswered)
    assert hosted.error.sent
    assert isinstance(later.error, Unanswered)
    assert not later.error.sent
    assert daemon.state.count("update_ep") == 1
    client.close()


@TRANSPORTS
def test_a_restart_is_told_once_and_then_is_another_life(daemon: TransitDaemon, transport: Transport) -> None:
    client = client_of(daemon, transport)
    load(client)
    assert client.life == 1
    daemon.restart(other_ports=True)
    with pytest.raises(Lost):
        client.update_ep(endpoint(1))
    with pytest.raises(CodeError, match="code 2"):
        client.update_ep(endpoint(1))
    assert client.life == 2
    client.close()


def test_health_tells_a_daemon_at_another_port_from_the_one_before(daemon: TransitDaemon) -> None:
    client = client_of(daemon, Transport.UDP)
    assert client.health().alive
    daemon.registered = False
    assert client.health().alive
    daemon.registered = True
    daemon.restart(other_ports=True)
    gone = client.health()
    assert not gone.alive
    assert str(daemon.udp_port) in gone.reason
    assert client.health().life == 2
    client.close()


def test_the_death_of_the_daemon_ends_the_batch_at_once(daemon: TransitDaemon) -> None:
    client = client_of(daemon, patience_s=100.0)
    load(client)
    second = p.LOAD_TRANSIT_XDP(v.XdpIntf("eth1", "/x"))
    before, killer, after = client.run([p.UPDATE_EP(endpoint(1)), second, p.UPDATE_EP(endpoint(2))])
    assert before.done
    assert isinstance(killer.error, Lost)
    assert isinstance(after.error, Lost)
    assert not client.health().alive
    client.close()


@TRANSPORTS
def test_a_daemon_that_is_not_registered_is_not_reached(daemon: TransitDaemon, transport: Transport) -> None:
    daemon.registered = False
    client = client_of(daemon, transport)
    with pytest.raises(Lost, match="not registered"):
        client.connect()
    assert not client.health().alive
    client.close()


def test_a_silent_daemon_is_borne_so_long_and_not_longer(daemon: TransitDaemon) -> None:
    client = client_of(daemon, patience_s=0.3)
    daemon.on_call = lambda _: False
    (answer,) = client.run([p.UPDATE_EP(endpoint(1))])
    assert isinstance(answer.error, Unanswered)
    assert "may have been done" in str(answer.error)
    client.close()


@TRANSPORTS
def test_closing_wakes_who_waits_for_an_answer_and_who_waits_for_a_turn(
    daemon: TransitDaemon, transport: Transport
) -> None:
    client = client_of(daemon, transport, patience_s=100.0, resend_s=100.0)
    came = threading.Event()

    def lose(_: int) -> bool:
        came.set()
        return False

    daemon.on_call = lose
    errors: list[BaseException | None] = []

    def work() -> None:
        errors.append(client.run([p.UPDATE_EP(endpoint(1))])[0].error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert came.wait(20)
    client.close()
    client.close()
    for thread in threads:
        thread.join(20)
    assert [type(error) for error in errors] == [Closed] * 3


def test_threads_share_one_client(daemon: TransitDaemon) -> None:
    client = client_of(daemon)
    load(client)

    def work(first: int) -> None:
        for number in range(first, first + 50):
            client.update_ep(endpoint(number))

    threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(daemon.state.table("ep")) == 200
    assert client.life == 1
    client.close()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (p.UPDATE_VPC(v.Vpc("e" * 21, 3)), "Vpc.interface .*21 bytes, over 20"),
        (p.UPDATE_VPC(v.Vpc("eth0", 1 << 64)), "Vpc.tunid 18446744073709551616"),
        (p.UPDATE_VPC(v.Vpc("eth0", 3, (ip(1),) * 129)), "Vpc.routers_ips .*129 addresses"),
        (p.UPDATE_NET(v.Network("eth0", 33, 3, ip(0))), "Network.prefixlen 33"),
        (p.UPDATE_EP(v.Endpoint("eth0", b"\1", 1, (), MAC)), "Endpoint.ip .*4 bytes"),
        (p.UPDATE_EP(v.Endpoint("eth0", ip(1), 4, (), MAC)), "Endpoint.eptype 4"),
        (p.UPDATE_EP(v.Endpoint("eth0", ip(1), 1, (), MAC[:5])), "Endpoint.mac .*6 bytes"),
        (p.UPDATE_PORT(v.Port("eth0", ip(1), 3, 65536, 80, 6)), "Port.port 65536"),
        (p.UPDATE_PORT(v.Port("eth0", ip(1), 3, 80, 80, 256)), "Port.protocol 256"),
        (p.LOAD_TRANSIT_XDP(v.XdpIntf("eth0", "/" * 257)), "XdpIntf.xdp_path .*257 bytes, over 256"),
        (
            p.UPDATE_AGENT_MD(
                v.AgentMetadata(
                    "veth1", v.TunIntf("eth0", ip(1), MAC), endpoint(1), v.Network("v", 24, 3, ip(0), (ip(1),) * 129)
                )
            ),
            "AgentMetadata.net.switches_ips .*129 addresses",
        ),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_name_and_the_rest_goes_on(
    daemon: TransitDaemon, call: p.Call, message: str
) -> None:
    client = client_of(daemon)
    load(client)
    refused, done = client.run([call, p.UPDATE_EP(endpoint(1))])
    assert isinstance(refused.error, ValueRefused)
    with pytest.raises(ValueRefused, match=message):
        raise refused.error
    assert refused.sent == 0
    assert done.done
    assert len(daemon.state.calls) == 2
    client.close()


def test_what_the_daemon_does_not_take_is_told_by_its_reason(daemon: TransitDaemon) -> None:
    client = client_of(daemon)
    daemon.on_reply = lambda _, replies: [replies[0][:20] + struct.pack(">I", 4)]
    (answer,) = client.run([p.UPDATE_EP(endpoint(1))])
    assert isinstance(answer.error, ReplyError)
    assert answer.error.accept_stat == 4
    client.close()


def test_a_connection_that_the_daemon_closed_is_known_before_anything_is_sent(daemon: TransitDaemon) -> None:
    client = client_of(daemon)
    load(client)
    daemon.restart()
    wait_until(lambda: daemon.alive, 10, "the daemon is back")
    (answer,) = client.run([p.UPDATE_EP(endpoint(1))])
    assert isinstance(answer.error, Lost)
    assert answer.sent == 0
    client.close()


@TRANSPORTS
def test_messages_that_answer_nothing_are_passed_over(daemon: TransitDaemon, transport: Transport) -> None:
    client = client_of(daemon, transport)
    load(client)
    daemon.on_reply = lambda _, replies: [b"", b"abc", bytes(28), *replies, b"\xff" * 30]
    assert all(answer.done for answer in client.run([p.UPDATE_EP(endpoint(number)) for number in range(50)]))
    client.close()


def test_messages_that_answer_nothing_do_not_stretch_the_patience(daemon: TransitDaemon) -> None:
    client = client_of(daemon, Transport.UDP, patience_s=0.5, resend_s=0.1, resends=1)
    daemon.on_reply = lambda _, replies: [bytes(28)] * 5
    (answer,) = client.run([p.UPDATE_EP(endpoint(1))])
    assert isinstance(answer.error, Unanswered)
    assert answer.sent == 2
    client.close()


def test_a_record_that_is_too_long_for_an_answer_ends_the_connection(daemon: TransitDaemon) -> None:
    client = client_of(daemon)
    daemon.on_reply = lambda _, replies: [bytes(70_000)]
    (answer,) = client.run([p.UPDATE_EP(endpoint(1))])
    assert isinstance(answer.error, Lost)
    daemon.on_reply = None
    load(client)
    assert client.life == 2
    client.close()


def test_a_value_of_another_structure_is_refused(daemon: TransitDaemon) -> None:
    client = client_of(daemon)
    (answer,) = client.run([p.Call(p.UPDATE_VPC, v.VpcKey("eth0", 3))])
    assert isinstance(answer.error, ValueRefused)
    client.close()


@pytest.mark.parametrize("window", [0, 257])
def test_a_window_out_of_bounds_is_refused(window: int) -> None:
    with pytest.raises(ValueError, match=f"window {window}"):
        Client(Settings(window=window))
