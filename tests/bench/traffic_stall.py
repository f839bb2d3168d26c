"""Traffic between wired guests while 100,000 neighbours load: the longest gap beyond the sending interval.

Measured twice: as it is, and with the switches at real-time priority. Here all hosts, agents and clients share a few
cores, and what the switch waits for a core is part of the first figure; the second is what programming itself costs.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path as FilePath

from goalstate_proto.goalstate_pb2 import GoalStateV2
from tests.bench import goalstates
from tests.bench.figures import BenchError, Report
from tests.bench.probe import Path, Trace
from tests.bench.stage import expect_success, fresh_lab, median, push, wait_programmed
from tests.lab import AgentProcess, Guest, Host
from tests.lab.agent import REPOSITORY
from tests.lab.commands import environment

COUNT = 100_000
ROUNDS = 3
INTERVAL = 0.002
IDLE_SECONDS = 3.0
MOST_MS = 20.0
SWITCH_PRIORITY = 5
"""Below the probe's."""
END_TIMEOUT = 10.0


def run(report: Report) -> None:
    """`traffic_stall`: a local and a remote path, idle and while loading."""
    for suffix, settle in (("", _as_it_is), ("_realtime", _at_real_time_priority)):
        _run(report, "ovs", f"traffic_stall.{{}}{suffix}", settle)


def run_netlink(report: Report) -> None:
    """`netlink_traffic_stall`: there the kernel forwards, and there is nothing to give priority to."""
    _run(report, "netlink", "netlink_traffic_stall.{}", _as_it_is)


def _run(report: Report, dataplane: str, title: str, settle: Callable[[Host], None]) -> None:
    """`title`: of the figures, with {} where the path's name goes."""
    data = goalstates.neighbors_message(0, COUNT)
    idle: dict[str, list[Trace]] = {}
    busy: dict[str, list[Trace]] = {}
    for number in range(1, ROUNDS + 1):
        for at_rest, loading in _round(data, dataplane, settle):
            idle.setdefault(at_rest.name, []).append(at_rest)
            busy.setdefault(loading.name, []).append(loading)
            report.progress(
                f"{title.format(loading.name)} round {number} of {ROUNDS}: longest gap "
                f"{loading.longest_gap_ms:.1f} ms (idle {at_rest.longest_gap_ms:.1f}), "
                f"lost {loading.sent - loading.received} of {loading.sent}, probe late {loading.late_ms:.1f} ms"
            )
    for name, traces in busy.items():
        _report(report, title.format(name), idle[name], traces)


def _report(report: Report, name: str, idle: list[Trace], busy: list[Trace]) -> None:
    stalls = [_stall(trace) for trace in busy]
    report.add(
        name,
        median(stalls),
        "ms",
        reference=median([_stall(trace) for trace in idle]),
        goal=MOST_MS,
        note=f"longest gap minus {INTERVAL * 1e3:g} ms, median of {ROUNDS} (worst {max(stalls):.1f}); reference: idle; "
        f"lost {sum(trace.sent - trace.received for trace in busy)}; worst delay "
        f"{max(trace.worst_delay_ms for trace in busy):.1f} ms",
    )


def _as_it_is(_: Host) -> None:
    """Leave the switch as it runs."""


def _at_real_time_priority(host: Host) -> None:
    """Let the host's switch run whenever it wants to, whatever else does."""
    for task in FilePath(f"/proc/{host.vswitchd_pid}/task").iterdir():
        os.sched_setscheduler(int(task.name), os.SCHED_RR, os.sched_param(SWITCH_PRIORITY))


def _stall(trace: Trace) -> float:
    return max(0.0, trace.longest_gap_ms - INTERVAL * 1e3)


def _round(data: bytes, dataplane: str, settle: Callable[[Host], None]) -> list[tuple[Trace, Trace]]:
    with fresh_lab() as lab:
        one, two = (lab.host(name, dataplane=dataplane) for name in ("one", "two"))
        agents = [host.agent() for host in (one, two)]
        for agent in agents:
            agent.wait_ready()
        places = [one, one, two]
        guests = [_guest(host, number) for number, host in enumerate(places)]
        for host, agent in zip((one, two), agents, strict=True):
            _introduce(agent, host, places)
        near, far = guests[1], guests[2]
        for guest in (near, far):
            if not guests[0].can_reach(guest.ip):
                raise BenchError(f"{guest!r} cannot be reached")
        for host in (one, two):
            settle(host)
        paths = [_path("local", guests[0], near), _path("remote", guests[0], far)]
        probe = _Probe(paths)
        time.sleep(IDLE_SECONDS)
        idle = probe.stop()
        probe = _Probe(paths)
        time.sleep(IDLE_SECONDS / 10)
        _, reply = push(agents[0], data)
        busy = probe.stop()
        expect_success(reply, COUNT)
    return list(zip(idle, busy, strict=True))


def _guest(host: Host, number: int) -> Guest:
    address = f"{goalstates.port_ip(number)}/{goalstates.PREFIX_LENGTH}"
    return host.guest(goalstates.port_id(number), mac=goalstates.port_mac(number), ips=(address,))


def _introduce(agent: AgentProcess, host: Host, places: list[Host]) -> None:
    message = goalstates.add_subnet(GoalStateV2())
    for number, place in enumerate(places):
        if place is host:
            goalstates.add_port(message, number)
        else:
            goalstates.add_neighbor(
                message,
                goalstates.port_id(number),
                goalstates.port_ip(number),
                goalstates.port_mac(number),
                place.underlay_ip,
            )
    push(agent, message.SerializeToString())
    wait_programmed(agent)


def _path(name: str, sender: Guest, receiver: Guest) -> Path:
    return Path(name, sender.namespace.name, receiver.namespace.name, receiver.ip)


class _Probe:
    """The probe's process, from the start to stop()."""

    def __init__(self, paths: list[Path]) -> None:
        order = json.dumps({"interval": INTERVAL, "paths": [asdict(path) for path in paths]})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.probe", order],
            cwd=REPOSITORY,
            env=environment({"PYTHONPATH": str(REPOSITORY)}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def stop(self) -> list[Trace]:
        """End the probing; what it saw on each path. Raises BenchError."""
        try:
            output, _ = self._process.communicate("end\n", timeout=END_TIMEOUT)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            raise BenchError("the probe did not end") from error
        traces = [Trace(**json.loads(line)) for line in output.splitlines()]
        if not traces or any(trace.received == 0 for trace in traces):
            raise BenchError(f"nothing arrived: {traces}")
        return traces
