"""One port whose device is there: gRPC send to confirmed reply, with few and with many ports present."""

import time
from pathlib import Path

from goalstate_proto.goalstate_pb2 import GoalStateV2
from tests.bench import goalstates, reference
from tests.bench.figures import Report
from tests.bench.stage import (
    expect_success,
    fresh_lab,
    lay_ports,
    median,
    percentile,
    push,
    ready_agent,
    wait_programmed,
)
from tests.lab import AgentProcess, Host

PRESENT = (10, 500)
SINGLE = 30
TOGETHER = 10
GROUPS = 6
PAUSE = 0.1
"""Seconds between two ports: long enough that nothing of the one before is still going on."""
MOST_MS = 10.0
MOST_RATIO = 3.0


def run(report: Report) -> None:
    """`port_latency`."""
    for present in PRESENT:
        with fresh_lab() as lab:
            host = lab.host("ours")
            agent = ready_agent(host, range(present))
            _measure(report, host, agent, present)


def _measure(report: Report, host: Host, agent: AgentProcess, present: int) -> None:
    name = f"port_latency_{present}"
    to_come = range(present, present + 2 * SINGLE + 1 + GROUPS * TOGETHER)
    lay_ports(host, to_come)
    # Once the device that was attached last is wired, the agent knows of them all.
    numbers = iter(reversed(to_come))
    push(agent, goalstates.ports_message([next(numbers)]))
    wait_programmed(agent)
    before = set(host.flows(cookies=True))
    spaced = [_spaced(agent, [next(numbers)]) for _ in range(SINGLE)]
    # The flows of one of these ports, by ovs-ofctl: what a program per port would cost.
    file = Path(host.directory) / "port-flows.txt"
    new = sorted(set(host.flows(cookies=True)) - before)
    file.write_text("\n".join(new[::SINGLE]) + "\n")
    theirs = [reference.add_again(host, file) * 1e3 for _ in range(TOGETHER)]
    report.add(
        f"{name}.median",
        median(spaced),
        "ms",
        reference=median(theirs),
        goal=MOST_MS,
        note=f"of {SINGLE}, {PAUSE:g} s apart; reference: as many flows by one ovs-ofctl",
    )
    report.add(f"{name}.p95", percentile(spaced, 0.95), "ms")
    close = [_one(agent, [next(numbers)]) for _ in range(SINGLE)]
    report.add(f"{name}.back_to_back", median(close), "ms", note=f"median of {SINGLE} without a pause; p95 beside it")
    report.add(f"{name}.back_to_back_p95", percentile(close, 0.95), "ms")
    groups = [_spaced(agent, [next(numbers) for _ in range(TOGETHER)]) for _ in range(GROUPS)]
    report.add(
        f"{name}.ten_in_one",
        median(groups),
        "ms",
        reference=median(spaced),
        goal=MOST_RATIO,
        goal_is_ratio=True,
        note=f"median of {GROUPS}; reference: one",
    )
    empty = [_empty(agent) for _ in range(SINGLE)]
    report.add(f"{name}.empty_message", median(empty), "ms", note="the floor: gRPC alone")


def _spaced(agent: AgentProcess, numbers: list[int]) -> float:
    time.sleep(PAUSE)
    return _one(agent, numbers)


def _one(agent: AgentProcess, numbers: list[int]) -> float:
    elapsed, reply = push(agent, goalstates.ports_message(numbers))
    expect_success(reply, len(numbers))
    return elapsed * 1e3


def _empty(agent: AgentProcess) -> float:
    elapsed, _ = push(agent, GoalStateV2().SerializeToString())
    return elapsed * 1e3
