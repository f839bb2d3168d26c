"""One port whose device is there: gRPC send to confirmed reply, with few and with many ports present."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

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

T = TypeVar("T")

PRESENT = (10, 500)
SINGLE = 30
TOGETHER = 10
GROUPS = 6
PAUSE = 0.1
"""Seconds between two measurements: long enough that nothing of the one before is still going on."""
MOST_MS = 10.0
MOST_RATIO = 3.0


def run(report: Report) -> None:
    """`port_latency`. As many devices are on the bridge as the name says, and ten more that come and go as ports."""
    for present in PRESENT:
        with fresh_lab() as lab:
            host = lab.host("ours")
            spare = list(range(present, present + TOGETHER))
            agent = ready_agent(host, range(present))
            lay_ports(host, spare)
            measure(
                report,
                agent,
                f"port_latency_{present}",
                spare,
                partial(_flows, host),
                partial(_by_ofctl, host),
                "one ovs-ofctl",
            )


def _flows(host: Host) -> set[str]:
    return set(host.flows(cookies=True))


def _by_ofctl(host: Host, flows: set[str]) -> float:
    file = Path(host.directory) / "port-flows.txt"
    file.write_text("\n".join(sorted(flows)) + "\n")
    return reference.add_again(host, file) * 1e3


def measure(
    report: Report,
    agent: AgentProcess,
    name: str,
    spare: list[int],
    standing: Callable[[], set[T]],
    by_tools: Callable[[set[T]], float],
    tools: str,
) -> None:
    """Rows of one port and of ten together, for any data plane. `standing` gives what there is of all ports, `by_tools`
    the milliseconds that tools need for what one port has of it, and leaves it gone; `tools` are their names."""
    # Once the devices are known to the agent, what follows is its own time.
    push(agent, goalstates.ports_message(spare))
    wait_programmed(agent)
    _remove(agent, spare)
    before = standing()
    spaced = [_spaced(agent, [spare[turn % TOGETHER]]) for turn in range(SINGLE)]
    _create(agent, spare[:1])
    after = standing()
    _remove(agent, spare[:1])
    theirs = [by_tools(after - before) for _ in range(TOGETHER)]
    report.add(
        f"{name}.median",
        median(spaced),
        "ms",
        reference=median(theirs),
        goal=MOST_MS,
        note=f"of {SINGLE}, {PAUSE:g} s apart; reference: the same by {tools}",
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
    empty = [_empty(agent) for _ in range(SINGLE)]
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


def _empty(agent: AgentProcess) -> float:
    elapsed, _ = push(agent, b"")
    return elapsed * 1e3
