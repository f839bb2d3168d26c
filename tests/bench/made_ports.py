"""Ports on the netlink data plane, next to the kernel's own part of it: made with a namespace each, and 200 at once."""

import socket
import threading
import time
import uuid
from collections.abc import Sequence

from dataplane.addresses import parse_address, parse_mac, parse_prefix
from dataplane.base import Batch, Event, Ready
from dataplane.devices.spec import spec_of
from dataplane.model import (
    FixedIp,
    Kind,
    NetworkType,
    Port,
    PortWanted,
    Segment,
    Subnet,
    SubnetRef,
    SubnetWanted,
)
from dataplane.netlink.plane import NetlinkDataPlane
from dataplane.netlink.settings import NetlinkSettings
from goalstate_proto.goalstate_pb2 import GoalStateV2
from tests.bench import goalstates, kernel_floor
from tests.bench.figures import BenchError, Report
from tests.bench.netlink_stage import segment_devices
from tests.bench.stage import expect_success, fresh_lab, median, percentile, push
from tests.lab import AgentProcess, Host

PRESENT = 10
SINGLE = 30
PAUSE = 0.1
"""Seconds between two measurements: the kernel clears a namespace away after it has been removed."""
MOST_OVER_FLOOR_MS = 3.0
TOGETHER = 200
TURNS = 3
MOST_RATIO = 1.5
MTU = 1450
READY_TIMEOUT = 10.0


def run(report: Report) -> None:
    """`netlink_made_port`: median per port that the agent makes with a namespace, over the kernel's floor: all that is
    asked of the kernel for such a port, on a host that has as many ports, sent raw."""
    with fresh_lab() as lab:
        agent = _agent_with_ports(lab.host("ours", dataplane="netlink"))
        host = lab.host("theirs", dataplane="netlink")
        # What it has installed stays, and nobody listens to what else is done there.
        _agent_with_ports(host).stop()
        bridge = host.namespace.call(lambda: socket.if_nametoindex(segment_devices(host)[0]))
        ours: list[float] = []
        theirs: list[float] = []
        empty: list[float] = []
        for turn in range(SINGLE):
            time.sleep(PAUSE)
            ours.append(_made(agent, PRESENT + turn))
            time.sleep(PAUSE)
            theirs.append(_floor(host, bridge, PRESENT + turn))
            empty.append(push(agent, b"")[0] * 1e3)
        name, over = "netlink_made_port", median(ours) - median(theirs)
        note = f"of {SINGLE}, {PAUSE:g} s apart"
        report.add(f"{name}.median", median(ours), "ms", reference=median(theirs), note=note)
        report.add(
            f"{name}.over_floor",
            over,
            "ms",
            goal=MOST_OVER_FLOOR_MS,
            note="above namespace, pair, addresses, route, filter, bridge port and forwarding entry, all asked for raw",
        )
        report.add(f"{name}.empty_message", median(empty), "ms", note="gRPC alone")
        report.add(f"{name}.p95", percentile(ours, 0.95), "ms", reference=percentile(theirs, 0.95))


def _made(agent: AgentProcess, number: int) -> float:
    """Milliseconds to create a port, which is gone again afterwards."""
    elapsed, reply = push(agent, goalstates.ports_message([number]))
    expect_success(reply, 1)
    _, reply = push(agent, goalstates.ports_gone([number]))
    expect_success(reply, 1)
    return elapsed * 1e3


def _agent_with_ports(host: Host) -> AgentProcess:
    agent = host.agent({"dataplane": {"make_devices": "veth"}})
    agent.wait_ready()
    message = goalstates.add_subnet(GoalStateV2())
    for number in range(PRESENT):
        goalstates.add_port(message, number)
    _, reply = push(agent, message.SerializeToString())
    expect_success(reply, PRESENT + 2)
    return agent


def _floor(host: Host, bridge: int, number: int) -> float:
    """Milliseconds."""
    wanted = _port(number, _subnet())
    name = f"{host.namespace.name}-f-{uuid.uuid4().hex[:8]}"
    port = kernel_floor.made_port(wanted, spec_of(wanted), name, f"floor{number}", bridge, MTU)
    return kernel_floor.time_made_port(host.namespace, port) * 1e3


def run_together(report: Report) -> None:
    """`netlink_ports_200`: devices that are there, all their ports in one message to a fresh agent."""
    numbers = range(TOGETHER)
    ours: list[float] = []
    theirs: list[float] = []
    with fresh_lab() as lab:
        host = lab.host("ours", dataplane="netlink")
        _lay(host, numbers)
        parts = _recorded(host, numbers)
        layout = host.run("ip", "-o", "link")
    for _ in range(TURNS):
        with fresh_lab() as lab:
            host = lab.host("ours", dataplane="netlink")
            _lay(host, numbers)
            theirs.append(kernel_floor.replay(host.namespace, parts)[1])
            if kernel_floor.devices_in(host.run("ip", "-o", "link")) != kernel_floor.devices_in(layout):
                raise BenchError("the devices of the two hosts have different numbers")
        with fresh_lab() as lab:
            host = lab.host("ours", dataplane="netlink")
            _lay(host, numbers)
            agent = host.agent()
            agent.wait_ready()
            message = goalstates.add_subnet(GoalStateV2())
            for number in numbers:
                goalstates.add_port(message, number)
            elapsed, reply = push(agent, message.SerializeToString())
            expect_success(reply, TOGETHER + 2)
            ours.append(elapsed)
    report.add(
        "netlink_ports_200",
        median(ours) * 1e3,
        "ms",
        reference=median(theirs) * 1e3,
        goal=MOST_RATIO,
        goal_is_ratio=True,
        note=f"median of {TURNS}; reference: the very requests that the data plane makes of it, sent raw",
    )


def _lay(host: Host, numbers: Sequence[int]) -> None:
    """Devices for ports, which the agent finds by name."""
    lines = []
    for number in numbers:
        device = f"tap{goalstates.port_id(number)[:11]}"
        lines += [f"link add {device} mtu {MTU} type veth peer name peer{number}", f"link set {device} up"]
        lines.append(f"link set peer{number} up")
    host.namespace.ip(*lines)


def _recorded(host: Host, numbers: Sequence[int]) -> list[list[tuple[int, bytes]]]:
    """What the data plane sends: to get ready, and for these ports with their subnet. Raises BenchError."""
    ready = threading.Event()

    def listen(event: Event) -> None:
        if isinstance(event, Ready):
            ready.set()

    subnet = _subnet()
    batches = [Batch(Kind.SUBNET, [subnet]), Batch(Kind.PORT, [_port(number, subnet) for number in numbers])]
    with kernel_floor.recorded() as recording:
        plane = NetlinkDataPlane(NetlinkSettings(parse_address(host.underlay_ip)))
        try:
            host.namespace.call(lambda: plane.open(listen))
            if not ready.wait(READY_TIMEOUT):
                raise BenchError("the data plane does not become ready")
            at = len(recording.sent)
            problems = host.namespace.call(lambda: plane.apply(batches)).problems
            if problems:
                raise BenchError(f"not programmed: {next(iter(problems.values())).reason}")
        finally:
            plane.close()
        return [recording.changes(0, at), recording.changes(at)]


def _subnet() -> SubnetWanted:
    ref = SubnetRef(goalstates.SUBNET, Segment(NetworkType.VXLAN, goalstates.TUNNEL_ID))
    cidr, gateway = parse_prefix(f"10.0.0.0/{goalstates.PREFIX_LENGTH}"), parse_address(goalstates.GATEWAY)
    mac = parse_mac("fa:16:3e:ff:00:01")
    tunnel_id = ref.segment.tunnel_id
    subnet = Subnet(ref.subnet_id, 1, goalstates.VPC, "", None, tunnel_id, cidr, gateway, mac, False, (), (), "")
    return SubnetWanted(subnet, ref)


def _port(number: int, subnet: SubnetWanted) -> PortWanted:
    own = FixedIp(subnet.id, parse_address(goalstates.port_ip(number)))
    port_id, mac = goalstates.port_id(number), parse_mac(goalstates.port_mac(number))
    port = Port(port_id, 1, goalstates.VPC, "", "", "", mac, True, (own,), (), ())
    return PortWanted(port, (subnet,), (own,), frozenset({subnet.id}))
