"""A fresh agent on a host with 100,000 neighbours, and what it costs to look whether all stands."""

import time

import psutil

from goalstate_proto.goalstate_pb2 import GoalStateV2
from tests.bench import goalstates
from tests.bench.figures import BenchError, Report
from tests.bench.neighbors import COUNT
from tests.bench.netlink_stage import ready_netlink_agent
from tests.bench.stage import expect_success, fresh_lab, median, push, ready_agent, wait_programmed
from tests.lab import AgentProcess, Host

STALE = 1_000
"""Neighbours that the fresh agent is not told of: their flows are swept."""
LEFT_OF_EACH = {"ovs": 2, "netlink": 4}
"""Objects of a neighbour's that are leftovers, at least."""
ROUNDS = 3
CHECKS = 10
CHECK_EVERY_S = 1.0
MOST_RATIO = 1.5
MOST_CHECK_CPU = 0.1


def run(report: Report) -> None:
    """`restart_100k`: from all is told to swept and looked at, beside the first programming; `audit`: CPU of a check
    that finds nothing."""
    _run(report, "ovs", "")


def run_netlink(report: Report) -> None:
    """The same on a host without Open vSwitch: `netlink_restart_100k`, `netlink_audit`."""
    _run(report, "netlink", "netlink_")


def _run(report: Report, dataplane: str, prefix: str) -> None:
    rounds = [_round(report, dataplane, number) for number in range(1, ROUNDS + 1)]
    first, again, swept, check, first_cpu, swept_cpu = (median([one[part] for one in rounds]) for part in range(6))
    told = "the fresh agent is told; reference: the first"
    report.add(f"{prefix}restart_100k.push", again, "s", reference=first, note=told)
    report.add(
        f"{prefix}restart_100k.swept",
        swept,
        "s",
        reference=first,
        goal=MOST_RATIO,
        goal_is_ratio=True,
        note=f"complete to read back, compared and {STALE} leftovers swept; reference: the first programming",
    )
    report.add(
        f"{prefix}restart_100k.swept_cpu",
        swept_cpu,
        "s",
        reference=first_cpu,
        note="as above, CPU of agent and switch together: what other work on the machine does not change",
    )
    report.add(f"{prefix}audit.cpu", check, "s", goal=MOST_CHECK_CPU, note="agent's CPU for a check that finds nothing")


def _round(report: Report, dataplane: str, number: int) -> tuple[float, ...]:
    with fresh_lab() as lab:
        host = lab.host("ours", dataplane=dataplane)
        agent = ready_agent(host, range(1)) if host.has_ovs else ready_netlink_agent(host, range(1))
        before = _cpu(agent, host)
        first, reply = push(agent, goalstates.neighbors_message(0, COUNT))
        first_cpu = _cpu(agent, host) - before
        expect_success(reply, COUNT)
        agent.kill()
        agent.config["reconcile"] = {"check_every_s": CHECK_EVERY_S}
        agent.start()
        agent.wait_ready()
        message = goalstates.add_subnet(GoalStateV2())
        goalstates.add_port(message, 0)
        push(agent, message.SerializeToString())
        again, reply = push(agent, goalstates.neighbors_message(0, COUNT - STALE))
        expect_success(reply, COUNT - STALE)
        wait_programmed(agent)
        before = _cpu(agent, host)
        started = time.perf_counter()
        found = agent.reconcile("FORCE")
        swept = time.perf_counter() - started
        swept_cpu = _cpu(agent, host) - before
        if found["missing"] or found["altered"] or found["removed"] < LEFT_OF_EACH[dataplane] * STALE:
            raise BenchError(f"the reconciliation found {found}")
        check = _cpu_of_checks(agent)
        report.progress(f"round {number}: first {first:.2f} s, again {again:.2f} s, swept {swept:.2f} s")
    return first, again, swept, check, first_cpu, swept_cpu


def _cpu(agent: AgentProcess, host: Host) -> float:
    """Seconds that the agent and the switch, if there is one, have used."""
    pids = (agent.pid, host.vswitchd_pid) if host.has_ovs else (agent.pid,)
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def _cpu_of_checks(agent: AgentProcess) -> float:
    """Seconds of CPU for each check; nothing else goes on."""
    process = psutil.Process(agent.pid)
    before = process.cpu_times()
    time.sleep(CHECKS * CHECK_EVERY_S)
    after = process.cpu_times()
    return float(after.user - before.user + after.system - before.system) / CHECKS
