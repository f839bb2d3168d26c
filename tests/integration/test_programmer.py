"""The codec and the flow programmer against a real switch: what was sent is what the switch has and does."""

from __future__ import annotations

import ipaddress
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from dataplane.ovs.openflow import actions, messages, oxm
from dataplane.ovs.openflow.actions import apply_actions, goto_table
from dataplane.ovs.openflow.errors import OpenFlowError
from dataplane.ovs.openflow.messages import FlowStat, PacketIn
from dataplane.ovs.openflow.programmer import FlowProgrammer, ProgrammerError, ProgrammerLost
from dataplane.ovs.remote import Remote
from tests.lab import Host, Lab

pytestmark = pytest.mark.lab

WAIT = 30.0
MAC = bytes.fromhex("020000000001")
V4 = ipaddress.ip_address("10.1.2.3").packed
V6 = ipaddress.ip_address("fd00::1:2").packed
IP = oxm.eth_type(0x0800)
IP6 = oxm.eth_type(0x86DD)
ARP = oxm.eth_type(0x0806)
ICMP6 = IP6 + oxm.ip_proto(58)
SOLICITATION = ICMP6 + oxm.icmpv6_type(135) + oxm.icmpv6_code(0)
ADVERTISEMENT = ICMP6 + oxm.icmpv6_type(136) + oxm.icmpv6_code(0)
FRAME = b"\xff" * 6 + MAC + bytes.fromhex("0806") + bytes(46)
THROUGH_TABLES = actions.output(0xFFFFFFF9)
UNKNOWN_GROUP = apply_actions(actions.group(4711))


class Client:
    """A started programmer and what it reported."""

    def __init__(self, path: Path, connections: int, reply_timeout: float) -> None:
        self.packets: queue.SimpleQueue[PacketIn] = queue.SimpleQueue()
        self.lost: list[str] = []
        self.lost_event = threading.Event()
        self.answer: Callable[[PacketIn], None] = lambda _: None
        self.programmer = FlowProgrammer(
            Remote.local(path),
            on_packet_in=self._packet,
            on_lost=self._lost,
            connect_timeout=10.0,
            connections=connections,
            reply_timeout=reply_timeout,
        )
        self.programmer.start()

    def _packet(self, packet: PacketIn) -> None:
        self.packets.put(packet)
        self.answer(packet)

    def _lost(self, reason: str) -> None:
        self.lost.append(reason)
        self.lost_event.set()

    def submit(self, *bodies: bytes) -> dict[int, OpenFlowError]:
        return dict(self.programmer.submit(bodies).result(WAIT))

    def flows(self) -> list[FlowStat]:
        return self.programmer.dump_flows().result(WAIT)

    def count(self) -> int:
        return self.programmer.aggregate(0, 0).result(WAIT)

    def request(self, message_type: int, body: bytes) -> None:
        self.programmer.request(message_type, body).result(WAIT)


@contextmanager
def client_of(host: Host, connections: int = 1, reply_timeout: float = 60.0) -> Iterator[Client]:
    client = Client(host.rundir / "br-int.mgmt", connections, reply_timeout)
    try:
        yield client
    finally:
        client.programmer.close()


def make_host(lab: Lab) -> Host:
    host = lab.host("h")
    host.vsctl("add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev", "fail_mode=secure")
    return host


@pytest.fixture(scope="module")
def host(module_lab: Lab) -> Host:
    return make_host(module_lab)


@pytest.fixture
def client(host: Host) -> Iterator[Client]:
    with client_of(host) as opened:
        opened.submit(messages.flow_delete_by_cookie(0, 0))
        yield opened


def many(count: int, cookie: int = 1) -> list[bytes]:
    instructions = apply_actions(actions.load(oxm.REG0, 1)) + goto_table(9)
    return [
        messages.flow_add(cookie, 5, 100, IP + oxm.ipv4_dst(n.to_bytes(4, "big")), instructions) for n in range(count)
    ]


@pytest.mark.parametrize(
    ("match", "text"),
    [
        (b"", "priority=7"),
        (oxm.in_port(7), "in_port=7"),
        (oxm.metadata(5), "metadata=0x5"),
        (oxm.metadata(5, 0xFF), "metadata=0x5/0xff"),
        (oxm.eth_dst(MAC), "dl_dst=02:00:00:00:00:01"),
        (oxm.eth_dst(b"\1" + bytes(5), b"\1" + bytes(5)), "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00"),
        (oxm.eth_src(MAC, b"\xff" * 3 + bytes(3)), "dl_src=02:00:00:00:00:00/ff:ff:ff:00:00:00"),
        (oxm.vlan_none(), "vlan_tci=0x0000"),
        (IP + oxm.ip_proto(17) + oxm.udp_src(67) + oxm.udp_dst(68), "udp,tp_src=67,tp_dst=68"),
        (IP + oxm.ip_proto(6) + oxm.tcp_src(1) + oxm.tcp_dst(80), "tcp,tp_src=1,tp_dst=80"),
        (IP + oxm.ip_proto(1) + oxm.icmpv4_type(8) + oxm.icmpv4_code(0), "icmp,icmp_type=8,icmp_code=0"),
        (IP + oxm.ipv4_src(V4) + oxm.ipv4_dst(V4, 9), "ip,nw_src=10.1.2.3,nw_dst=10.0.0.0/9"),
        (IP + oxm.ip_ttl(1), "ip,nw_ttl=1"),
        (IP + oxm.ip_frag(0, 3), "ip,nw_frag=no"),
        (IP + oxm.ip_frag(1, 1), "ip,nw_frag=yes"),
        (IP + oxm.ip_frag(3, 2), "ip,nw_frag=later"),
        (IP + oxm.ip_frag(1, 3), "ip,nw_frag=first"),
        (
            ARP + oxm.arp_op(1) + oxm.arp_spa(V4, 24) + oxm.arp_tpa(V4) + oxm.arp_sha(MAC) + oxm.arp_tha(MAC),
            "arp,arp_spa=10.1.2.0/24,arp_tpa=10.1.2.3,arp_op=1,arp_sha=02:00:00:00:00:01,arp_tha=02:00:00:00:00:01",
        ),
        (IP6 + oxm.ipv6_src(V6) + oxm.ipv6_dst(V6, 64), "ipv6,ipv6_src=fd00::1:2,ipv6_dst=fd00::/64"),
        (SOLICITATION + oxm.nd_target(V6) + oxm.nd_sll(MAC), "nd_target=fd00::1:2,nd_sll=02:00:00:00:00:01"),
        (ADVERTISEMENT + oxm.nd_target(V6, 16) + oxm.nd_tll(MAC), "nd_target=fd00::/16,nd_tll=02:00:00:00:00:01"),
        (oxm.tunnel_id(9) + oxm.tun_ipv4_dst(V4), "tun_id=0x9,tun_dst=10.1.2.3"),
        (oxm.reg(0, 1) + oxm.reg(15, 0x10, 0xF0), "reg0=0x1,reg15=0x10/0xf0"),
        (oxm.xreg(3, 0x1_0000_0002), "reg6=0x1,reg7=0x2"),
        (oxm.xreg(0, 0x2_0000_0000, 0xF_0000_0000), "reg0=0x2/0xf"),
        (oxm.xxreg(1, V6), "reg4=0xfd000000,reg5=0,reg6=0,reg7=0x10002"),
        (oxm.xxreg(1, V6, b"\xff" * 8 + bytes(8)), "reg4=0xfd000000,reg5=0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_switch_understands_every_match(host: Host, client: Client, match: bytes, text: str) -> None:
    assert client.submit(messages.flow_add(3, 5, 7, match, goto_table(6))) == {}
    (flow,) = client.flows()
    assert oxm.canonical(flow.match) == oxm.canonical(match)
    assert (flow.table, flow.priority, flow.cookie, flow.instructions) == (5, 7, 3, goto_table(6))
    (printed,) = host.flows(cookies=True)
    assert {"cookie=0x3", "table=5", "priority=7"} <= set(printed.split(" actions=")[0].replace(", ", ",").split(","))
    assert text in printed


@pytest.mark.parametrize(
    ("match", "action", "text"),
    [
        (b"", actions.output(5), "output:5"),
        (b"", actions.in_port_output(), "IN_PORT"),
        (b"", actions.output_reg(oxm.REG3), "output:NXM_NX_REG3[]"),
        (b"", actions.resubmit(51), "resubmit(,51)"),
        (b"", actions.load(oxm.IN_PORT, 0), "load:0->NXM_OF_IN_PORT[]"),
        (b"", actions.load(oxm.REG2, 3, offset=4, bits=2), "load:0x3->NXM_NX_REG2[4..5]"),
        (b"", actions.load(oxm.XREG1, 3), "load:0x3->OXM_OF_PKT_REG1[]"),
        (b"", actions.load(oxm.METADATA, 3), "load:0x3->OXM_OF_METADATA[]"),
        (b"", actions.set_field(oxm.eth_dst(MAC)), "set_field:02:00:00:00:00:01->eth_dst"),
        (b"", actions.set_field(oxm.reg(1, 0x10, 0xF0)), "set_field:0x10/0xf0->reg1"),
        (b"", actions.set_field(oxm.xxreg(1, V6)), "->xxreg1"),
        (b"", actions.set_field(oxm.tunnel_id(5)), "set_field:0x5->tun_id"),
        (b"", actions.set_field(oxm.tun_ipv4_dst(V4)), "set_field:10.1.2.3->tun_dst"),
        (b"", actions.move(oxm.ETH_SRC, oxm.ETH_DST), "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]"),
        (b"", actions.move(oxm.REG1, oxm.TUN_ID), "move:NXM_NX_REG1[]->NXM_NX_TUN_ID[0..31]"),
        (b"", actions.move(oxm.REG1, oxm.TUN_IPV4_DST), "move:NXM_NX_REG1[]->NXM_NX_TUN_IPV4_DST[]"),
        (ARP, actions.move(oxm.ARP_SPA, oxm.ARP_TPA), "move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[]"),
        (ARP, actions.move(oxm.ARP_SHA, oxm.ARP_THA), "move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[]"),
        (ARP, actions.load(oxm.ARP_OP, 2), "load:0x2->NXM_OF_ARP_OP[]"),
        (IP, actions.move(oxm.IPV4_SRC, oxm.IPV4_DST), "move:NXM_OF_IP_SRC[]->NXM_OF_IP_DST[]"),
        (IP, actions.load(oxm.IP_TTL, 64), "load:0x40->NXM_NX_IP_TTL[]"),
        (IP, actions.dec_ttl(), "dec_ttl"),
        (IP + oxm.ip_proto(1), actions.load(oxm.ICMPV4_TYPE, 0), "ICMP_TYPE[]"),
        (IP + oxm.ip_proto(1), actions.load(oxm.ICMPV4_CODE, 0), "ICMP_CODE[]"),
        (IP6, actions.move(oxm.IPV6_SRC, oxm.IPV6_DST), "move:NXM_NX_IPV6_SRC[]->NXM_NX_IPV6_DST[]"),
        (IP6, actions.move(oxm.IPV6_DST, oxm.XXREG2), "move:NXM_NX_IPV6_DST[]->NXM_NX_XXREG2[]"),
        (SOLICITATION, actions.move(oxm.ND_TARGET, oxm.XXREG0), "move:NXM_NX_ND_TARGET[]->NXM_NX_XXREG0[]"),
        (SOLICITATION, actions.set_field(oxm.icmpv6_type(136)), "136->icmpv6_type"),
        (SOLICITATION, actions.load(oxm.ND_OPTIONS_TYPE, 2), "ND_OPTIONS_TYPE[]"),
        (SOLICITATION, actions.load(oxm.ND_RESERVED, 0x60000000), "ND_RESERVED[]"),
        (SOLICITATION, actions.move(oxm.ND_SLL, oxm.ETH_DST), "move:NXM_NX_ND_SLL[]->NXM_OF_ETH_DST[]"),
        (ADVERTISEMENT, actions.move(oxm.ETH_DST, oxm.ND_TLL), "move:NXM_OF_ETH_DST[]->NXM_NX_ND_TLL[]"),
        (b"", actions.controller(), "CONTROLLER:65535"),
        (b"", actions.controller(100), "CONTROLLER:100"),
        (b"", actions.controller(reason=2), "controller(reason=invalid_ttl)"),
        (
            b"",
            actions.controller(reason=2, userdata=b"\1\2", meter=3),
            "controller(reason=invalid_ttl,userdata=01.02,meter_id=3)",
        ),
        (b"", actions.check_pkt_larger(1450, oxm.REG5, 3), "check_pkt_larger(1450)->NXM_NX_REG5[3]"),
        (b"", actions.group(1), "group:1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_switch_understands_every_action(
    host: Host, client: Client, match: bytes, action: bytes, text: str
) -> None:
    if "group" in text:
        host.ofctl("add-group", "br-int", "group_id=1,type=all")
    instructions = apply_actions(action) + goto_table(60)
    assert client.submit(messages.flow_add(3, 5, 7, match, instructions)) == {}
    (printed,) = host.flows()
    assert text in printed
    assert printed.endswith("goto_table:60")


def test_meters_limit_flows_and_go(host: Host, client: Client) -> None:
    client.request(messages.METER_MOD, messages.meter_add(7, 100, 20))
    client.request(messages.METER_MOD, messages.meter_modify(7, 200, 40))
    assert "rate=200 burst_size=40" in host.ofctl("dump-meters", "br-int")
    flow = messages.flow_add(1, 5, 1, b"", actions.meter(7) + actions.write_metadata(1, 3) + goto_table(6))
    assert client.submit(flow) == {}
    assert "meter:7,write_metadata:0x1/0x3,goto_table:6" in host.flows()[0]
    client.request(messages.METER_MOD, messages.meter_delete(7))
    assert host.flows() == []


def test_a_refused_request_says_why(client: Client) -> None:
    with pytest.raises(OpenFlowError, match="METER_MOD_FAILED/UNKNOWN_METER"):
        client.request(messages.METER_MOD, messages.meter_modify(99, 1, 1))


def test_an_added_flow_replaces_its_like(client: Client) -> None:
    assert client.submit(messages.flow_add(1, 5, 7, IP, goto_table(6))) == {}
    assert client.submit(messages.flow_add(2, 5, 7, IP, goto_table(8))) == {}
    (flow,) = client.flows()
    assert (flow.cookie, flow.instructions) == (2, goto_table(8))


def test_a_flow_that_was_replaced_survives_the_deletion_of_its_predecessor(client: Client) -> None:
    client.submit(messages.flow_add(1, 5, 7, IP, goto_table(6)))
    client.submit(messages.flow_add(2, 5, 7, IP, goto_table(6)))
    assert client.submit(messages.flow_delete_strict(1, 5, 7, IP)) == {}
    assert [flow.cookie for flow in client.flows()] == [2]
    assert client.submit(messages.flow_delete_strict(2, 5, 7, IP)) == {}
    assert client.flows() == []


def test_a_strict_deletion_leaves_other_priorities_and_matches(client: Client) -> None:
    kept = [messages.flow_add(1, 5, 8, IP, b""), messages.flow_add(1, 5, 7, IP + oxm.ip_proto(6), b"")]
    client.submit(messages.flow_add(1, 5, 7, IP, b""), *kept)
    client.submit(messages.flow_delete_strict(1, 5, 7, IP))
    assert sorted((flow.priority, len(flow.match)) for flow in client.flows()) == [(7, 11), (8, 6)]


def test_flows_are_deleted_and_counted_by_cookie(client: Client) -> None:
    group = [messages.flow_add(0x100 + n, n, 1, b"", b"") for n in range(4)]
    client.submit(*group, messages.flow_add(5, 9, 1, b"", b""))
    assert client.programmer.aggregate(0x100, 0xFF00).result(WAIT) == 4
    assert client.submit(messages.flow_delete_by_cookie(0x102, messages.COOKIE_EXACT)) == {}
    assert client.programmer.aggregate(0x100, 0xFF00).result(WAIT) == 3
    assert client.submit(messages.flow_delete_by_cookie(0x100, 0xFF00)) == {}
    assert [flow.cookie for flow in client.flows()] == [5]


def test_a_dump_can_be_limited(client: Client) -> None:
    client.submit(*(messages.flow_add(n, n, 1, b"", b"") for n in range(1, 5)))
    assert [flow.cookie for flow in client.programmer.dump_flows(table=2).result(WAIT)] == [2]
    by_cookie = client.programmer.dump_flows(cookie=3, mask=messages.COOKIE_EXACT).result(WAIT)
    assert [flow.table for flow in by_cookie] == [3]


def test_a_transaction_is_applied_in_order(client: Client) -> None:
    add, delete = messages.flow_add(1, 5, 7, IP, b""), messages.flow_delete_strict(1, 5, 7, IP)
    assert client.submit(add, delete, add, messages.flow_add(1, 5, 7, IP, goto_table(9)), delete, add) == {}
    assert [flow.instructions for flow in client.flows()] == [b""]


def test_nothing_to_do_is_done_at_once(client: Client) -> None:
    assert client.submit() == {}


@pytest.mark.parametrize("good", [0, 1, 500])
def test_what_the_switch_refuses_is_named_and_the_rest_applied(client: Client, good: int) -> None:
    undecodable = messages.flow_add(1, 5, 7, oxm.ipv4_dst(V4), b"")
    unknown_group = messages.flow_add(1, 5, 9, IP, UNKNOWN_GROUP)
    too_long = messages.flow_add(1, 5, 8, IP, bytes(70_000))
    flows = many(good)
    bodies = [undecodable, *flows[: good // 2], unknown_group, too_long, *flows[good // 2 :], undecodable]
    errors = client.submit(*bodies)
    middle = 1 + good // 2
    assert {index: (error.type, error.code) for index, error in errors.items()} == {
        0: (4, 9),
        middle: (2, 9),
        middle + 1: (1, 6),
        len(bodies) - 1: (4, 9),
    }
    assert client.count() == good


def test_many_refused_flows_do_not_keep_the_others(client: Client) -> None:
    bad = [messages.flow_add(1, 7, n, IP, UNKNOWN_GROUP) for n in range(300)]
    errors = client.submit(*bad, *many(300))
    assert sorted(errors) == list(range(300))
    assert client.count() == 300


def test_an_unknown_group_does_not_lose_the_flow_it_would_have_replaced(client: Client) -> None:
    client.submit(messages.flow_add(1, 5, 7, IP, goto_table(6)))
    errors = client.submit(messages.flow_add(2, 5, 7, IP, UNKNOWN_GROUP), messages.flow_add(2, 6, 1, b"", b""))
    assert list(errors) == [0]
    assert sorted(flow.cookie for flow in client.flows()) == [1, 2]


@pytest.mark.parametrize("connections", [1, 2, 5])
def test_twenty_thousand_flows_arrive_whole(host: Host, client: Client, connections: int) -> None:
    bodies = many(20_000)
    bodies[12_345] = messages.flow_add(1, 5, 9, IP, UNKNOWN_GROUP)
    with client_of(host, connections) as other:
        assert sorted(other.submit(*bodies)) == [12_345]
        wanted = {IP + oxm.ipv4_dst(n.to_bytes(4, "big")) for n in range(20_000) if n != 12_345}
        assert {oxm.canonical(flow.match) for flow in other.flows()} == {oxm.canonical(match) for match in wanted}
        assert other.count() == 19_999


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_connections_come_and_go_under_load(host: Host, client: Client) -> None:
    before = open_files()
    with client_of(host, 2) as other:
        with_two = open_files()
        futures: list[Future[object]] = []
        flows = many(20_000)
        for step, connections in enumerate((16, 1, 64, 3, 8, 2)):
            futures += [other.programmer.submit(flows[start : start + 50]) for start in range(0, 2_000, 50)]  # type: ignore[misc]
            futures.append(other.programmer.submit(flows[step * 3000 : step * 3000 + 5000]))  # type: ignore[arg-type]
            other.programmer.set_connections(connections)
        assert [future.result(WAIT) for future in futures] == [{}] * len(futures)
        assert other.count() == 20_000
        Lab.wait(lambda: open_files() == with_two, WAIT, "surplus connections are closed")
        assert other.lost == []
    assert open_files() == before


def test_many_threads_may_submit(host: Host, client: Client) -> None:
    with client_of(host, 4) as other:

        def work(owner: int) -> int:
            mine = [messages.flow_add(owner, owner, 100, oxm.reg(0, n), goto_table(99)) for n in range(400)]
            futures = [other.programmer.submit(mine[start : start + 1 + start % 7]) for start in range(len(mine))]
            for future in futures:
                assert future.result(WAIT) == {}
            return other.programmer.aggregate(owner, messages.COOKIE_EXACT).result(WAIT)

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(1, 9))) == [400] * 8


def test_punted_packets_come_with_context_and_are_answered(host: Host, client: Client) -> None:
    with client_of(host, 4) as other:
        programmer = other.programmer
        programmer.request(messages.METER_MOD, messages.meter_add(5, 1000, 1000)).result(WAIT)
        remember = apply_actions(actions.load(oxm.REG4, 44), actions.set_field(oxm.metadata(9)), actions.resubmit(1))
        punt = apply_actions(actions.controller(userdata=b"arp", meter=5))
        answered = apply_actions(actions.controller())
        other.submit(
            messages.flow_add(8, 0, 1, ARP, remember),
            messages.flow_add(9, 1, 1, ARP, punt),
            messages.flow_add(10, 0, 1, IP, answered),
        )
        reply = FRAME[:12] + b"\x08\x00" + bytes(46)

        def answer(packet: PacketIn) -> None:
            if packet.userdata:
                programmer.packet_out(messages.packet_out(reply, THROUGH_TABLES, in_port=packet.in_port))

        other.answer = answer
        programmer.packet_out(messages.packet_out(FRAME, THROUGH_TABLES, in_port=7))
        first, second = other.packets.get(timeout=WAIT), other.packets.get(timeout=WAIT)
        programmer.request(messages.METER_MOD, messages.meter_delete(5)).result(WAIT)
        assert other.packets.empty(), "each packet comes once, whatever the number of connections"
    assert (first.table, first.cookie, first.userdata, first.reason) == (1, 9, b"arp", actions.REASON_ACTION)
    assert (first.in_port, first.registers[4], first.metadata, first.data) == (7, 44, 9, FRAME)
    assert (second.table, second.cookie, second.userdata, second.data) == (0, 10, b"", reply)
    assert second.in_port == 7


def test_a_receiver_that_raises_does_no_harm(client: Client) -> None:
    def answer(_packet: PacketIn) -> None:
        raise LookupError("no")

    client.answer = answer
    client.submit(messages.flow_add(8, 0, 1, b"", apply_actions(actions.controller())))
    for _ in range(2):
        client.programmer.packet_out(messages.packet_out(FRAME, THROUGH_TABLES, in_port=7))
        assert client.packets.get(timeout=WAIT).data == FRAME
    assert client.count() == 1
    assert client.programmer.counters.failed_callbacks == 2


def test_a_refused_packet_out_is_counted(client: Client) -> None:
    client.programmer.packet_out(messages.packet_out(FRAME, actions.group(4711)))
    client.programmer.request(messages.METER_MOD, messages.meter_add(6, 1, 1)).result(WAIT)
    client.request(messages.METER_MOD, messages.meter_delete(6))
    assert client.programmer.counters.refused_packet_outs == 1


def test_a_bridge_that_does_not_speak_our_version_is_named(host: Host) -> None:
    host.vsctl("add-br", "br-old", "--", "set", "bridge", "br-old", "datapath_type=netdev", "protocols=OpenFlow13")
    try:
        programmer = FlowProgrammer(
            Remote.local(host.rundir / "br-old.mgmt"), on_packet_in=print, on_lost=print, connect_timeout=WAIT
        )
        with pytest.raises(ProgrammerError, match=r"br-old.*(1.4|HELLO_FAILED)"):
            programmer.start()
        programmer.close()
    finally:
        host.vsctl("del-br", "br-old")


def test_a_killed_switch_fails_what_is_outstanding(lab: Lab) -> None:
    host = make_host(lab)
    before = threading.active_count()
    with client_of(host, 3) as client:
        client.submit(*many(10))
        host.ovs.vswitchd.pause()
        futures = [client.programmer.submit(many(20_000)), client.programmer.submit(many(1))]
        asked = client.programmer.aggregate(0, 0)
        host.ovs.vswitchd.kill()
        for future in (*futures, asked):
            with pytest.raises(ProgrammerLost):
                future.result(WAIT)
        assert client.lost_event.wait(WAIT)
        with pytest.raises(ProgrammerLost):
            client.programmer.submit(many(1)).result(WAIT)
        client.programmer.packet_out(messages.packet_out(FRAME, THROUGH_TABLES))
        assert client.programmer.counters.dropped_packet_outs == 1
        client.programmer.close()
        assert len(client.lost) == 1
        assert threading.active_count() == before
    host.ovs.vswitchd.start()
    with client_of(host) as again:
        assert again.submit(*many(10)) == {}
        assert again.count() == 10


def test_a_deleted_bridge_is_a_lost_one(lab: Lab) -> None:
    host = make_host(lab)
    with client_of(host, 2) as client:
        host.vsctl("del-br", "br-int")
        assert client.lost_event.wait(WAIT)
        assert len(client.lost) == 1


def test_a_switch_that_hangs_is_given_up(lab: Lab) -> None:
    host = make_host(lab)
    with client_of(host, reply_timeout=1.0) as client:
        host.ovs.vswitchd.pause()
        try:
            with pytest.raises(ProgrammerLost, match="no answer"):
                client.programmer.submit(many(10)).result(WAIT)
            assert client.lost_event.wait(WAIT)
        finally:
            host.ovs.vswitchd.resume()
