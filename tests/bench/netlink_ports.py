"""One port, one element, one neighbour on a host without Open vSwitch, with few and with many ports present."""

import time
from collections.abc import Callable
from pathlib import Path

from goalstate_proto.goalstate_pb2 import GoalStateV2
from tests.bench import goalstates
from tests.bench.figures import Report
from tests.bench.netlink_stage import elements, lay_taps, ready_netlink_agent, segment_devices
from tests.bench.stage import expect_success, fresh_lab, median, percentile, push, wait_programmed
from tests.lab import AgentProcess, GuestSpec, Host

PRESENT = (10, 500)
SINGLE = 30
TOGETHER = 10
GROUPS = 6
PAUSE = 0.05
MOST_MS = 10.0
MOST_RATIO = 3.0

FEW, MANY = 10, 5_000
PER_SUBNET = 900
"""A Linux bridge has 1,023 ports at most."""
PER_MESSAGE = 500
SAME = 1.5


def run_latency(report: Report) -> None:
    """`netlink_port_latency`."""
    for present in PRESENT:
        with fresh_lab() as lab:
            host = lab.host("ours", dataplane="netlink")
            spare = list(range(present, present + TOGETHER))
            agent = ready_netlink_agent(host, range(present))
            lay_taps(host, spare)
            _latency(report, host, agent, f"netlink_port_latency_{present}", spare)


def _latency(report: Report, host: Host, agent: AgentProcess, name: str, spare: list[int]) -> None:
    # Once the devices are known to the agent, what follows is its own time.
    push(agent, goalstates.ports_message(spare))
    wait_programmed(agent)
    _remove(agent, spare)
    before = elements(host)
    spaced = [_spaced(agent, [spare[turn % TOGETHER]]) for turn in range(SINGLE)]
    _create(agent, spare[:1])
    after = elements(host)
    _remove(agent, spare[:1])
    theirs = [_by_tools(host, spare[0], after - before) for _ in range(TOGETHER)]
    report.add(
        f"{name}.median",
        median(spaced),
        "ms",
        reference=median(theirs),
        goal=MOST_MS,
        note=f"of {SINGLE}, {PAUSE:g} s apart; reference: the same by ip -batch, bridge -batch and nft -f",
    )
    report.add(f"{name}.p95", percentile(spaced, 0.95), "ms")
    groups = [_spaced(agent, spare) for _ in range(GROUPS)]
    report.add(
        f"{name}.ten_in_one",
        median(groups),
        "ms",
        reference=median(spaced),
        goal=MOST_RATIO,
        goal_is_ratio=True,
        note=f"median of {GROUPS}; reference: one",
    )
    empty = [push(agent, b"")[0] * 1e3 for _ in range(SINGLE)]
    report.add(f"{name}.empty_message", median(empty), "ms", note="the floor: gRPC alone")


def _spaced(agent: AgentProcess, numbers: list[int]) -> float:
    """Milliseconds to create ports that are gone again afterwards."""
    time.sleep(PAUSE)
    elapsed = _create(agent, numbers)
    _remove(agent, numbers)
    return elapsed


def _create(agent: AgentProcess, numbers: list[int]) -> float:
    elapsed, reply = push(agent, goalstates.ports_message(numbers))
    expect_success(reply, len(numbers))
    return elapsed * 1e3


def _remove(agent: AgentProcess, numbers: list[int]) -> None:
    _, reply = push(agent, goalstates.ports_gone(numbers))
    expect_success(reply, len(numbers))


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
            note=f"with {MANY} ports present, median of {SINGLE}; reference: with {FEW}",
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
        for turn in range(2 * SINGLE):
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
