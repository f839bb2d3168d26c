"""Neighbours in bulk on a host without Open vSwitch, beside the system's own tools with the same entries."""

from dataclasses import dataclass
from pathlib import Path

from tests.bench import goalstates
from tests.bench.figures import BenchError, Report
from tests.bench.netlink_stage import (
    ToolTimes,
    again_netlink_agent,
    count_entries,
    load_entries,
    ready_netlink_agent,
    write_entries,
)
from tests.bench.stage import expect_success, fresh_lab, median, push, settled_rss
from tests.lab import wait_until

ROUNDS = {10_000: 5, 100_000: 3}
MOST_RATIO = 1.5
MOST_MEMORY = 1_200.0
ENTRIES_EACH = 5
"""In the kernel: forwarding in bridge and tunnel, and three elements."""


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds; bytes."""

    ours: float
    theirs: ToolTimes
    memory_each: float
    again: float
    gone: float


def run_10k(report: Report) -> None:
    """`netlink_neighbours_10k`."""
    _run(report, "netlink_neighbours_10k", 10_000)


def run_100k(report: Report) -> None:
    """`netlink_neighbours_100k`."""
    _run(report, "netlink_neighbours_100k", 100_000)


def _run(report: Report, name: str, count: int) -> None:
    data, gone = goalstates.neighbors_message(0, count), goalstates.neighbors_gone(0, count)
    rounds: list[Round] = []
    for number in range(1, ROUNDS[count] + 1):
        one = _round(data, gone, count)
        rounds.append(one)
        tools = one.theirs
        report.progress(
            f"{name} round {number} of {ROUNDS[count]}: ours {one.ours:.3f} s; bridge {tools.bridge:.3f}, "
            f"nft {tools.nft:.3f}, ip {tools.ip:.3f}; {one.memory_each:.0f} B each; taken over {one.again:.3f}"
        )
    # Each round with its own reference, since the machine is not the same from one to the next.
    same = _typical(rounds, [one.ours / (one.theirs.bridge + one.theirs.nft) for one in rounds])
    report.add(
        f"{name}.time",
        same.ours,
        "s",
        reference=same.theirs.bridge + same.theirs.nft,
        goal=MOST_RATIO,
        goal_is_ratio=True,
        note=f"gRPC send to confirmed reply, the round with the median ratio of {len(rounds)}; "
        "reference: bridge -batch and nft -f with the very entries",
    )
    usual = _typical(rounds, [one.ours / (one.theirs.bridge + one.theirs.ip) for one in rounds])
    report.add(
        f"{name}.beside_ip",
        usual.ours,
        "s",
        reference=usual.theirs.bridge + usual.theirs.ip,
        goal=MOST_RATIO,
        goal_is_ratio=True,
        note="reference: bridge -batch and ip -batch with a permanent neighbour entry for each address, which is how "
        "Linux bridges are told otherwise",
    )
    report.add(f"{name}.memory_each", median([one.memory_each for one in rounds]), "B", goal=MOST_MEMORY)
    report.add(
        f"{name}.take_over",
        median([one.again for one in rounds]),
        "s",
        reference=median([one.ours for one in rounds]),
        note="a fresh agent is told the same, and all of it stands; reference: the first time",
    )
    report.add(
        f"{name}.remove", median([one.gone for one in rounds]), "s", reference=median([one.ours for one in rounds])
    )


def _typical(rounds: list[Round], ratios: list[float]) -> Round:
    return rounds[sorted(range(len(rounds)), key=ratios.__getitem__)[len(rounds) // 2]]


def _round(data: bytes, gone: bytes, count: int) -> Round:
    """Fresh hosts; never both busy. Raises BenchError."""
    with fresh_lab() as lab:
        host, other = (lab.host(name, dataplane="netlink") for name in ("ours", "theirs"))
        agent = ready_netlink_agent(host, range(1))
        empty = count_entries(host)
        rss = settled_rss(agent)
        ours, reply = push(agent, data)
        expect_success(reply, count)
        memory = (settled_rss(agent) - rss) / count
        _expect(count_entries(host) - empty, ENTRIES_EACH * count + goalstates.REMOTE_HOSTS)
        entries = write_entries(host, Path(lab.directory), goalstates.neighbor_addresses(0, count))
        agent.stop()
        again_agent = again_netlink_agent(host, range(1))
        again, reply = push(again_agent, data)
        expect_success(reply, count)
        _expect(count_entries(host) - empty, ENTRIES_EACH * count + goalstates.REMOTE_HOSTS)
        removed, reply = push(again_agent, gone)
        expect_success(reply, count)
        wait_until(lambda: count_entries(host) == empty, 10.0, "nothing left")
        again_agent.stop()
        ready_netlink_agent(other, range(1)).stop()
        theirs = load_entries(other, entries)
        _expect(count_entries(other) - empty, ENTRIES_EACH * count + goalstates.REMOTE_HOSTS)
    return Round(ours, theirs, memory, again, removed)


def _expect(found: int, count: int) -> None:
    if found != count:
        raise BenchError(f"{found} entries in the kernel, expected {count}")
