"""First packets to 200 unknown destinations at once; the controller needs a millisecond to answer.

Routed, of 200 guests: until the packet arrives at the destination's host. Within a subnet, of 20 guests (each question
is flooded to all of the others as well): until the guest has its answer by ARP.
"""

import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address
from typing import Any

from goalstate_proto.common_pb2 import CREATE, INFO
from goalstate_proto.goalstate_pb2 import GoalStateV2
from goalstate_proto.neighbor_pb2 import L3
from tests.bench import goalstates
from tests.bench.figures import BenchError, Report
from tests.bench.stage import fresh_lab, median, percentile, push, ready_agent, wait_programmed
from tests.lab import AgentProcess, Host
from tests.lab.controller import Controller, promise
from tests.lab.wire import ETH_P_ALL, arp_answer, arp_request, mac_bytes

TARGETS = 200
GUESTS, GUESTS_IN_SUBNET = 200, 20
ROUNDS = 3
ANSWER_SECONDS = 0.001
WITHIN = 10.0
MOST_MS = 30.0
FAR_SUBNET = "7c1e8a90-2f64-4b3d-9d10-000000000002"
FAR_PREFIX = "11.0.0.0/8"
FAR_GATEWAY = "11.255.255.254"
GATEWAY_MAC = "fa:16:3e:ff:00:01"


def run(report: Report) -> None:
    """`on_demand_200`."""
    for name, guests, first, send in (
        ("routed", GUESTS, IPv4Address("11.0.0.1"), _send_routed),
        ("arp", GUESTS_IN_SUBNET, IPv4Address("10.0.0.1"), _send_arp),
    ):
        rounds = [_round(guests, first, send) for _ in range(ROUNDS)]
        times = sorted(one for taken in rounds for one in taken)
        report.add(
            f"on_demand_200.{name}",
            median(times),
            "ms",
            goal=MOST_MS,
            note=f"median over {ROUNDS} rounds of {TARGETS}, all delivered; 95 %: {percentile(times, 0.95):.1f}, "
            f"last: {times[-1]:.1f}",
        )


Send = Callable[[Host, Host, int, Sequence[str]], list[float]]


def _round(guests: int, first: IPv4Address, send: Send) -> list[float]:
    """Milliseconds that each packet took."""
    targets = [str(first + number) for number in range(TARGETS)]
    with fresh_lab() as lab, Controller(lab.directory / "controller.sock") as controller:
        ours, theirs = lab.host("ours"), lab.host("theirs", dataplane="none")
        agent = ready_agent(ours, range(guests), {"controller": {"addresses": [controller.target]}})
        push(agent, _router().SerializeToString())
        wait_programmed(agent)
        controller.first = lambda requests: _tell(agent, theirs.underlay_ip, requests)
        controller.decide = promise
        return send(ours, theirs, guests, targets)


def _tell(agent: AgentProcess, host: str, requests: Sequence[Any]) -> None:
    """After a millisecond push the neighbours that were asked for."""
    time.sleep(ANSWER_SECONDS)
    message = GoalStateV2()
    for request in requests:
        state = message.neighbor_states[f"L3/{request.destination_ip}"]
        state.operation_type = CREATE
        wire = state.configuration
        wire.id, wire.vpc_id, wire.revision_number = request.destination_ip, goalstates.VPC, 1
        number = int(IPv4Address(request.destination_ip))
        wire.mac_address, wire.host_ip_address = (0x0A0000000000 + number).to_bytes(6, "big").hex(":"), host
        subnet = FAR_SUBNET if request.destination_ip.startswith("11.") else goalstates.SUBNET
        wire.fixed_ips.add(subnet_id=subnet, ip_address=request.destination_ip, neighbor_type=L3)
    push(agent, message.SerializeToString())


def _router() -> GoalStateV2:
    message = goalstates.add_subnet(GoalStateV2())
    far = message.subnet_states[FAR_SUBNET]
    far.CopyFrom(message.subnet_states[goalstates.SUBNET])
    far.configuration.id, far.configuration.cidr = FAR_SUBNET, FAR_PREFIX
    far.configuration.gateway.ip_address, far.configuration.gateway.mac_address = FAR_GATEWAY, "fa:16:3e:ff:00:02"
    router = message.router_states["router"]
    router.operation_type = INFO
    router.configuration.id, router.configuration.revision_number = "router", 1
    for subnet_id in (goalstates.SUBNET, FAR_SUBNET):
        router.configuration.subnet_routing_tables.add(subnet_id=subnet_id)
    return message


def _peer(host: Host, number: int) -> socket.socket:
    """Where the guest of a port would be."""
    opened = host.namespace.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.bind((f"peer{number}", ETH_P_ALL))
    opened.setblocking(False)
    return opened


def _udp(number: int, target: str) -> bytes:
    source, destination = IPv4Address(goalstates.port_ip(number)).packed, IPv4Address(target).packed
    udp = struct.pack("!HHHH", 4000, 4000, 8 + 32, 0) + bytes(32)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), number, 0, 64, 17, 0, source, destination)
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    head = head[:10] + checksum.to_bytes(2, "big") + head[12:]
    return mac_bytes(GATEWAY_MAC) + mac_bytes(goalstates.port_mac(number)) + b"\x08\x00" + head + udp


def _send_routed(ours: Host, theirs: Host, guests: int, targets: Sequence[str]) -> list[float]:
    peers = [_peer(ours, number) for number in range(guests)]
    frames = [_udp(number % guests, target) for number, target in enumerate(targets)]
    came: dict[bytes, float] = {}
    wanted = {IPv4Address(target).packed for target in targets}
    with theirs.capture() as capture:

        def collect() -> None:
            deadline = time.monotonic() + WITHIN
            while len(came) < len(targets) and (left := deadline - time.monotonic()) > 0:
                frame = capture.next(left)
                # Outer Ethernet, IPv4, UDP and VXLAN: 50 bytes; then Ethernet and the destination's place in IPv4.
                if frame is not None and frame[80:84] in wanted:
                    came.setdefault(frame[80:84], time.perf_counter())

        collector = threading.Thread(target=collect)
        collector.start()
        sent = []
        for number, frame in enumerate(frames):
            sent.append(time.perf_counter())
            peers[number % guests].send(frame)
        collector.join(WITHIN + 5.0)
    for peer in peers:
        peer.close()
    return _taken(sent, [came.get(IPv4Address(target).packed) for target in targets])


def _send_arp(ours: Host, _theirs: Host, guests: int, targets: Sequence[str]) -> list[float]:
    peers = [_peer(ours, number) for number in range(guests)]
    frames = [
        arp_request(goalstates.port_mac(number % guests), goalstates.port_ip(number % guests), target)
        for number, target in enumerate(targets)
    ]
    places = {target: number for number, target in enumerate(targets)}
    poll = select.epoll()
    by_descriptor = {peer.fileno(): peer for peer in peers}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
    came: dict[int, float] = {}
    sent = []
    for number, frame in enumerate(frames):
        sent.append(time.perf_counter())
        peers[number % guests].send(frame)
    deadline = time.monotonic() + WITHIN
    while len(came) < len(targets) and (left := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left):
            try:
                while True:
                    frame = by_descriptor[descriptor].recv(2048)
                    target = str(IPv4Address(frame[28:32]))
                    if target in places and arp_answer(frame, target) is not None:
                        came.setdefault(places[target], time.perf_counter())
            except BlockingIOError:
                continue
    poll.close()
    for peer in peers:
        peer.close()
    return _taken(sent, [came.get(number) for number in range(len(targets))])


def _taken(sent: Sequence[float], came: Sequence[float | None]) -> list[float]:
    lost = sum(1 for one in came if one is None)
    if lost:
        raise BenchError(f"{lost} of {len(sent)} first packets were lost")
    return [(there - then) * 1e3 for then, there in zip(sent, came, strict=True) if there is not None]
