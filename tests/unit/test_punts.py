"""What becomes of packets that flows hand up."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest

from dataplane.base import Punt, PuntReason, Unresolved
from dataplane.model import NetworkType, PortWanted, Segment, SubnetRef, SubnetWanted
from dataplane.ovs.openflow.messages import PacketIn
from dataplane.ovs.pipeline.layout import REG_ADDRESS, REG_FLAGS, Feature, Flag, cookie, cookie_feature, subnet_key
from dataplane.ovs.punts import Punts
from tests.unit.desired_world import port, subnet
from tests.unit.fake_plane import WAIT_S
from tests.unit.test_icmp import GATEWAY_MAC, UDP, frame, packet

REF = SubnetRef("s", Segment(NetworkType.VXLAN, 10))
GATEWAY = SubnetWanted(subnet(gateway="10.0.0.1", gateway_mac=GATEWAY_MAC.hex(":")), REF)
WANTED = PortWanted(port("p", "s 10.0.0.5"), (GATEWAY,), (), frozenset())


KEYS = {subnet_key("s"): ("v", "s")}


class Bench:
    def __init__(self) -> None:
        self.sent: queue.Queue[tuple[int, bytes]] = queue.Queue()
        self.heard: queue.Queue[Punt] = queue.Queue()
        self.resubmitted: queue.Queue[tuple[int, bytes]] = queue.Queue()
        self.punts = Punts({5: WANTED}.get, KEYS.get, self._send, self._resubmit, self.heard.put, 1450)
        self.broken = False
        self.punts.start()

    def _send(self, ofport: int, data: bytes) -> None:
        if self.broken:
            self.broken = False
            raise OSError("no room")
        self.sent.put((ofport, data))

    def _resubmit(self, ofport: int, data: bytes) -> None:
        self.resubmitted.put((ofport, data))

    def punt(self, feature: int, data: bytes, ofport: int = 5) -> None:
        self.punts.handle(PacketIn(0, 0, feature << 48, b"", ofport, 0, 0, (0,) * 16, data))


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.punts.close()


def test_an_expired_packet_is_answered_by_the_senders_gateway(bench: Bench) -> None:
    assert cookie_feature(cookie(Feature.PUNT_TTL, "")) == Feature.PUNT_TTL
    bench.punt(Feature.PUNT_TTL, frame(packet()))
    ofport, data = bench.sent.get(timeout=WAIT_S)
    assert ofport == 5 and data[6:12] == GATEWAY_MAC and data[34:36] == b"\x0b\0"


def test_dhcp_goes_to_the_agent(bench: Bench) -> None:
    bench.punt(Feature.DHCP, b"request")
    assert bench.heard.get(timeout=WAIT_S) == Punt(PuntReason.DHCP, "p", b"request")


def test_what_cannot_be_answered_ends_nothing(bench: Bench) -> None:
    bench.broken = True
    for feature, data, ofport in (
        (Feature.PUNT_TTL, frame(packet()), 5),
        (Feature.PUNT_TTL, b"", 5),
        (Feature.PUNT_TTL, frame(packet()), 99),
        (0xEE, b"", 5),
        (Feature.PORT, b"", 5),
    ):
        bench.punt(feature, data, ofport)
    bench.punt(Feature.DHCP, b"request")
    bench.heard.get(timeout=WAIT_S)
    assert bench.sent.empty()
    assert (bench.punts.counts["failed"], bench.punts.counts["unknown"]) == (1, 1)


def test_too_big_with_df_is_told_to_the_guest_itself(bench: Bench) -> None:
    """The frame's source MAC has been rewritten by then: the answer goes to the port's own."""
    routed = GATEWAY_MAC + b"\xfa\x16\x3e\xff\x00\x02" + frame(packet(body=UDP * 100, flags=0x4000))[12:]
    bench.punt(Feature.PUNT_TOO_BIG, routed)
    ofport, data = bench.sent.get(timeout=WAIT_S)
    assert ofport == 5 and data[:6] == WANTED.port.mac and data[34:36] == b"\x03\x04"
    assert bench.resubmitted.empty()


def test_too_big_without_df_goes_on_in_fragments(bench: Bench) -> None:
    body = bytes(range(256)) * 8
    routed = GATEWAY_MAC + b"\xfa\x16\x3e\xff\x00\x02" + frame(packet(body=body))[12:]
    bench.punt(Feature.PUNT_TOO_BIG, routed)
    first, second = (bench.resubmitted.get(timeout=WAIT_S) for _ in range(2))
    assert [ofport for ofport, _ in (first, second)] == [5, 5]
    assert all(len(data) <= 14 + 1450 and data[6:12] == WANTED.port.mac for _, data in (first, second))
    assert first[1][34:] + second[1][34:] == body
    assert bench.sent.empty()


def test_an_unknown_destination_goes_to_the_agent_as_the_guest_sent_it(bench: Bench) -> None:
    sent = frame(packet())
    rewritten = sent[:6] + b"\xfa\x16\x3e\xff\x00\x02" + sent[12:]
    routed = 1 << Flag.ROUTED
    registers = tuple({REG_ADDRESS: 0x0A090909, REG_FLAGS: routed}.get(number, 0) for number in range(16))
    bench.punts.handle(
        PacketIn(0, 0, Feature.PUNT_UNKNOWN << 48, b"", 5, subnet_key("s"), 0, registers, rewritten)
    )
    expected = sent[:6] + WANTED.port.mac + sent[12:]
    unresolved = Unresolved("v", "s", bytes((10, 9, 9, 9)))
    punt = bench.heard.get(timeout=WAIT_S)
    assert punt == Punt(PuntReason.UNKNOWN_DESTINATION, "p", expected, unresolved)


def test_a_packet_to_an_unknown_mac_goes_to_the_agent_unchanged(bench: Bench) -> None:
    sent = frame(packet(target=bytes((10, 0, 0, 9))))
    registers = tuple({REG_ADDRESS: 0x0A000009}.get(number, 0) for number in range(16))
    bench.punts.handle(PacketIn(0, 0, Feature.PUNT_UNKNOWN << 48, b"", 5, 0, 0, registers, sent))
    punt = bench.heard.get(timeout=WAIT_S)
    assert (punt.frame, punt.unresolved) == (sent, Unresolved("v", "s", bytes((10, 0, 0, 9))))
