"""One port, one element, one neighbour on a host without Open vSwitch, with few and with many ports present."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from goalstate_proto.goalstate_pb2 import GoalStateV2
from tests.bench import goalstates, port_latency
from tests.bench.figures import Report
from tests.bench.netlink_stage import elements, lay_taps, ready_netlink_agent, segment_devices
from tests.bench.stage import expect_success, fresh_lab, median, push, wait_programmed
from tests.lab import AgentProcess, GuestSpec, Host

FEW, MANY = 10, 5_000
PER_SUBNET = 900
"""A Linux bridge has 1,023 ports at most."""
PER_MESSAGE = 500
SAME = 1.5


def run_latency(report: Report) -> None:
    """`netlink_port_latency`."""
    for present in port_latency.PRESENT:
        with fresh_lab() as lab:
            host = lab.host("ours", dataplane="netlink")
            spare = list(range(present, present + port_latency.TOGETHER))
            agent = ready_netlink_agent(host, range(present))
            lay_taps(host, spare)
            port_latency.measure(
                report,
                agent,
                f"netlink_port_latency_{present}",
                spare,
                partial(elements, host),
                partial(_by_tools, host, present),
                "ip -batch, bridge -batch and nft -f",
            )


def _by_tools(host: Host, number: int, found: set[tuple[str, str]]) -> float:
    """Milliseconds that the system's tools need for the port; it is gone again afterwards."""
    bridge, _ = segment_devices(host)
    tap = GuestSpec(goalstates.port_id(number), goalstates.port_mac(number)).tap
    links = f"link set {tap} master {bridge}\nlink set {tap} type bridge_slave learning off\nlink set {tap} up\n"
    files: list[Path] = []
    for suffix, text in (
        ("ip", links),
        ("bridge", f"fdb replace {goalstates.port_mac(number)} dev {tap} master static\n"),
        ("nft", "".join(f"add element {where} {{ {one} }}\n" for where, one in sorted(found))),
    ):
        file = host.directory / f"port.{suffix}"
        file.write_text(text)
        files.append(file)
    started = time.perf_counter()
    host.run("ip", "-batch", str(files[0]))
    host.run("bridge", "-batch", str(files[1]))
    host.run("nft", "-f", str(files[2]))
    elapsed = (time.perf_counter() - started) * 1e3
    files[2].write_text("".join(f"delete element {where} {{ {one.partition(' : ')[0]} }}\n" for where, one in found))
    host.run("nft", "-f", str(files[2]))
    host.run("ip", "link", "set", tap, "nomaster")
    return elapsed


# -- what a change costs with many ports


def run_cost(report: Report) -> None:
    """`netlink_change_cost`."""
    with fresh_lab() as lab:
        host = lab.host("ours", dataplane="netlink")
        spare = MANY
        agent = ready_netlink_agent(host, range(0))
        lay_taps(host, [spare])
        _fill(report, host, agent, range(FEW))
        few = _costs(agent, spare, 100)
        _fill(report, host, agent, range(FEW, MANY))
        many = _costs(agent, spare, 200)
    for name in few:
        report.add(
            f"netlink_change_cost.{name}",
            many[name],
            "ms",
            reference=few[name],
            goal=SAME,
            goal_is_ratio=True,
            note=f"with {MANY} ports present, median of {port_latency.SINGLE}; reference: with {FEW}",
        )


def _fill(report: Report, host: Host, agent: AgentProcess, numbers: range) -> None:
    for start in range(numbers.start, numbers.stop, PER_MESSAGE):
        part = range(start, min(start + PER_MESSAGE, numbers.stop))
        lay_taps(host, part)
        message = GoalStateV2()
        for number in part:
            goalstates.add_subnet(message, number // PER_SUBNET)
            goalstates.add_port(message, number, number // PER_SUBNET)
        push(agent, message.SerializeToString())
        wait_programmed(agent)
        report.progress(f"netlink_change_cost: {part.stop} ports present")


def _costs(agent: AgentProcess, spare: int, revision: int) -> dict[str, float]:
    """Milliseconds by kind of change, send to confirmed reply; `revision` is that of the first."""
    where = spare // PER_SUBNET
    goalstates_of: dict[str, Callable[[int], GoalStateV2]] = {
        "port": lambda turn: _port(spare, where, gone=turn % 2 == 1),
        "element": lambda turn: _port(0, 0, pair=f"10.200.0.{turn % 2 + 1}", revision=revision + turn),
        "neighbour": lambda turn: _neighbor(gone=turn % 2 == 1),
    }
    message = goalstates.add_subnet(GoalStateV2(), where)
    push(agent, message.SerializeToString())
    found: dict[str, float] = {}
    for name, make in goalstates_of.items():
        times = []
        for turn in range(2 * port_latency.SINGLE):
            data = make(turn).SerializeToString()
            elapsed, reply = push(agent, data)
            expect_success(reply, 1)
            times.append(elapsed * 1e3)
        found[name] = median(times[::2])
    return found


def _port(number: int, subnet: int, *, gone: bool = False, pair: str = "", revision: int = 1) -> GoalStateV2:
    message = goalstates.add_port(GoalStateV2(), number, subnet)
    state = message.port_states[goalstates.port_id(number)]
    state.configuration.revision_number = revision
    if pair:
        state.configuration.allow_address_pairs.add(ip_address=pair, mac_address=goalstates.port_mac(number))
    if gone:
        state.operation_type = goalstates.DELETE
    return message


def _neighbor(*, gone: bool) -> GoalStateV2:
    message = goalstates.add_neighbor(GoalStateV2(), "n", "10.100.0.1", "0a:00:00:00:00:01", "172.16.9.9")
    if gone:
        message.neighbor_states["n"].operation_type = goalstates.DELETE
    return message
