"""Neighbours in bulk: one goal state, gRPC send to confirmed reply, beside ovs-ofctl with the same flows."""

from dataclasses import dataclass
from pathlib import Path

from tests.bench import goalstates, reference
from tests.bench.figures import Report
from tests.bench.stage import (
    expect_flows,
    expect_success,
    flow_count,
    fresh_lab,
    median,
    peak_rss,
    push_all,
    ready_agent,
    settled_rss,
)

COUNT = 100_000
FEW = 10_000
ROUNDS = 3
MANY_PORTS = 300
MANY_MESSAGES = 10
MOST_MEMORY = 1_200.0
BEST_RATIO = 0.7
FLOWS_EACH = 2


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds; memory in bytes, before, after (settled) and at most; flows that the neighbours brought."""

    ours: float
    theirs: float
    replies: tuple[float, ...]
    flows: int
    rss_before: int
    rss_after: int
    rss_peak: int


def run_100k(report: Report) -> None:
    """`neighbours_100k`: 100,000 neighbours on a host with one port; also 10,000 for the cost per neighbour."""
    few = _rounds(report, "neighbours_10k", [goalstates.neighbors_message(0, FEW)], FEW, 1, ROUNDS)
    many = _rounds(report, "neighbours_100k", [goalstates.neighbors_message(0, COUNT)], COUNT, 1, ROUNDS)
    _report(report, "neighbours_100k", many, COUNT)
    each = median([r.ours for r in many]) / COUNT * 1e6
    each_of_few = median([r.ours for r in few]) / FEW * 1e6
    report.add("neighbours_10k.time", median([r.ours for r in few]), "s", reference=median([r.theirs for r in few]))
    report.add(
        "neighbours.cost_each_100k", each, "us", reference=each_of_few, note="reference: each of 10k; goal: the same"
    )


def run_300_ports(report: Report) -> None:
    """`neighbours_100k_300_ports`: the same with 300 ports on the bridge."""
    name = "neighbours_100k_300_ports"
    messages = [goalstates.neighbors_message(0, COUNT)]
    _report(report, name, _rounds(report, name, messages, COUNT, MANY_PORTS, ROUNDS), COUNT)


def run_1m(report: Report) -> None:
    """`neighbours_1m`: a million in ten messages of one stream (long)."""
    name, total = "neighbours_1m", COUNT * MANY_MESSAGES
    messages = [goalstates.neighbors_message(number * COUNT, COUNT) for number in range(MANY_MESSAGES)]
    rounds = _rounds(report, name, messages, total, 1, 1)
    _report(report, name, rounds, total)
    replies = rounds[0].replies
    report.add(f"{name}.last_message", replies[-1] - replies[-2], "s", reference=replies[0], note="beside the first")


def _report(report: Report, name: str, rounds: list[Round], count: int) -> None:
    report.add(
        f"{name}.time",
        median([r.ours for r in rounds]),
        "s",
        reference=median([r.theirs for r in rounds]),
        goal=BEST_RATIO,
        goal_is_ratio=True,
        note=f"gRPC send to confirmed reply, median of {len(rounds)}; reference: ovs-ofctl --bundle add-flows",
    )
    report.add(f"{name}.flows_each", rounds[0].flows / count, "flows", note="2 and the subnet's flood list")
    report.add(
        f"{name}.memory_each",
        median([(r.rss_after - r.rss_before) / count for r in rounds]),
        "B",
        goal=MOST_MEMORY,
        note="agent RSS, settled for 1 s, minus that before",
    )
    report.add(
        f"{name}.memory_peak_each",
        median([(r.rss_peak - r.rss_before) / count for r in rounds]),
        "B",
        note="VmHWM minus RSS before; the message itself included",
    )


def _rounds(report: Report, name: str, messages: list[bytes], count: int, ports: int, rounds: int) -> list[Round]:
    done = []
    for number in range(1, rounds + 1):
        one = measure(messages, count, ports)
        report.progress(
            f"{name} round {number} of {rounds}: ours {one.ours:.3f} s, ovs-ofctl {one.theirs:.3f} s, "
            f"{(one.rss_after - one.rss_before) / count:.0f} B each"
        )
        done.append(one)
    return done


def measure(messages: list[bytes], count: int, ports: int) -> Round:
    """One round: fresh switch and agent, then a fresh switch for ovs-ofctl, never both busy. Raises BenchError."""
    with fresh_lab() as lab:
        host, other = lab.host("ours"), lab.host("theirs")
        agent = ready_agent(host, range(ports))
        flows_before = flow_count(host)
        rss_before = settled_rss(agent)
        moments, replies = push_all(agent, messages)
        for reply in replies:
            expect_success(reply, count // len(messages))
        rss_after, rss_peak = settled_rss(agent), peak_rss(agent)
        file = Path(lab.directory) / "flows.txt"
        flows = reference.dump(host, file)
        flows_new = flows - flows_before
        # Beside two flows each only the flood list grows, by a few flows per hundred hosts.
        if not FLOWS_EACH * count <= flows_new <= FLOWS_EACH * count + goalstates.REMOTE_HOSTS:
            expect_flows(host, flows_before + FLOWS_EACH * count)
        meters = reference.meters(host)
        agent.stop()
        host.ovs.vswitchd.stop()
        host.ovs.ovsdb.stop()
        reference.prepare(other, meters, ports)
        theirs = reference.load(other, file, flows)
    return Round(moments[-1], theirs, tuple(moments), flows_new, rss_before, rss_after, rss_peak)
