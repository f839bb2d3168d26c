"""What guests find out about their network: pings between all of them, a route, a lease."""

import re
import struct
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from deploy.demo.intent import PlannedGuest
from tests.lab import Capture, CommandError, Guest, PingResult

LEASE_SCRIPT = Path(__file__).resolve().parent / "lease.sh"
PINGS_AT_ONCE = 10
PING_COUNT = 2
PING_TIMEOUT_S = 1.0
# Every pair pings with a payload size of its own, so a captured request tells which pair it belongs to.
SMALLEST_PAYLOAD = 64
ICMP_ECHO_REQUEST = 8
IP_AND_ICMP_HEADER = 28
HOP = re.compile(r"^\s*\d+\s+(\S+)(?:\s+(\S+) ms)?", re.M)


@dataclass(frozen=True, slots=True)
class PairResult:
    """One guest's pings to another's address: what came back, and which guests got the requests."""

    source: PlannedGuest
    target: PlannedGuest
    ping: PingResult
    seen_by: frozenset[str]

    @property
    def own_address(self) -> bool:
        """The target has the source's own address, in another VPC: there is nothing to send."""
        return self.source.ip == self.target.ip

    @property
    def expected(self) -> bool:
        """The target, and nobody else, got the requests and its answers came back; or it got none, if it must not."""
        if self.source.must_reach(self.target):
            return self.ping.received > 0 and self.seen_by == {self.target.name}
        return self.target.name not in self.seen_by


@dataclass(frozen=True, slots=True)
class GatewayResult:
    source: PlannedGuest
    ping: PingResult

    @property
    def expected(self) -> bool:
        return self.ping.received > 0


@dataclass(frozen=True, slots=True)
class Matrix:
    pairs: Mapping[tuple[str, str], PairResult]
    gateways: Mapping[str, GatewayResult]


def ping_matrix(guests: Sequence[tuple[PlannedGuest, Guest]]) -> Matrix:
    """Everyone pings everyone's address and the own gateway. Raises CommandError if ping itself hangs."""
    pairs = [(source, running, target) for source, running in guests for target, _ in guests if source is not target]
    with ExitStack() as stack:
        captures = {planned.name: stack.enter_context(running.capture()) for planned, running in guests}
        pool = stack.enter_context(ThreadPoolExecutor(PINGS_AT_ONCE))
        results = [
            pool.submit(_ping, running, target.ip, SMALLEST_PAYLOAD + number)
            for number, (_, running, target) in enumerate(pairs)
        ]
        gateways = {
            planned.name: (planned, pool.submit(_ping, running, planned.subnet.gateway, SMALLEST_PAYLOAD))
            for planned, running in guests
        }
        pings = [result.result() for result in results]
        gateway_results = {name: GatewayResult(planned, f.result()) for name, (planned, f) in gateways.items()}
        arrived = {name: _request_sizes(capture) for name, capture in captures.items()}
    return Matrix(
        pairs={
            (source.name, target.name): PairResult(
                source,
                target,
                pings[number],
                frozenset(name for name, sizes in arrived.items() if SMALLEST_PAYLOAD + number in sizes),
            )
            for number, (source, _, target) in enumerate(pairs)
        },
        gateways=gateway_results,
    )


def _ping(guest: Guest, ip: str, size: int) -> PingResult:
    return guest.ping(ip, count=PING_COUNT, timeout=PING_TIMEOUT_S, size=size)


def _request_sizes(capture: Capture) -> set[int]:
    """The payload sizes of the echo requests (RFC 792) that a guest has received."""
    sizes = set()
    while (frame := capture.next(0.02)) is not None:
        if (size := echo_request_size(frame)) is not None:
            sizes.add(size)
    return sizes


def echo_request_size(frame: bytes) -> int | None:
    """The payload size in bytes of an ICMP echo request in an untagged Ethernet frame; None for any other frame."""
    if len(frame) < 14 + IP_AND_ICMP_HEADER or frame[12:14] != b"\x08\x00" or frame[23] != 1:
        return None
    if frame[14 + (frame[14] & 15) * 4] != ICMP_ECHO_REQUEST:
        return None
    total: int = struct.unpack_from("!H", frame, 16)[0]
    return total - IP_AND_ICMP_HEADER


@dataclass(frozen=True, slots=True)
class Route:
    """The hops to a target, '*' for one that did not answer, and the milliseconds each took."""

    source: PlannedGuest
    target: PlannedGuest
    hops: tuple[tuple[str, str], ...]

    @property
    def expected(self) -> bool:
        return [address for address, _ in self.hops] == [self.source.subnet.gateway, self.target.ip]


def trace_route(source: PlannedGuest, running: Guest, target: PlannedGuest) -> Route:
    """The route that traceroute shows. Raises CommandError."""
    output = running.run("traceroute", "-n", "-q", "1", "-w", "2", "-m", "4", target.ip, timeout=20.0)
    # The first line is the heading.
    lines = output.partition("\n")[2]
    return Route(source, target, tuple((match[1], match[2] or "") for match in HOP.finditer(lines)))


@dataclass(frozen=True, slots=True)
class Lease:
    """What the client and its script said, and the address that the guest has then, '' if none."""

    guest: PlannedGuest
    output: str
    address: str

    @property
    def expected(self) -> bool:
        return self.address == f"{self.guest.ip}/{self.guest.subnet.prefix_length}"


def take_lease(planned: PlannedGuest, running: Guest) -> Lease:
    """Run a DHCP client in the guest until it has a lease, for at most 10 s."""
    client = ("udhcpc", "-i", "eth0", "-f", "-n", "-q", "-t", "10", "-T", "1", "-O", "mtu", "-s", str(LEASE_SCRIPT))
    try:
        output = running.run(*client, timeout=25.0)
    except CommandError as error:
        output = error.output
    # NAME STATE ADDRESS/LENGTH...
    columns = running.run("ip", "-4", "-br", "addr", "show", "dev", "eth0").split()
    return Lease(planned, output, columns[2] if len(columns) > 2 else "")
