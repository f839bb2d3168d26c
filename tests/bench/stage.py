"""One host with a fresh switch and a fresh agent, and the client that measures."""

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aca.goalstate.reply import problems
from goalstate_proto.common_pb2 import SUCCESS
from goalstate_proto.goalstate_pb2 import GoalStateV2
from goalstate_proto.goalstateprovisioner_pb2 import GoalStateOperationReply
from tests.bench import goalstates
from tests.bench.figures import BenchError
from tests.lab import AgentProcess, GuestSpec, Host, Lab, wait_until
from tests.lab.guests import attach_arguments

METHOD = "/alcor.schema.GoalStateProvisioner/PushGoalStatesStream"
REPLY_TIMEOUT = 240.0
SETTLE_TIME = 1.0
SETTLE_TIMEOUT = 20.0
STEADY = 0.001
"""Share by which memory may still change and count as settled."""


@contextmanager
def fresh_lab() -> Iterator[Lab]:
    """A lab in a directory of its own, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="aca-bench-") as directory, Lab(Path(directory), "lab") as lab:
        yield lab


def lay_ports(host: Host, numbers: Sequence[int]) -> None:
    """Devices for ports, attached to the integration bridge. They have no guest behind them, but a carrier."""
    specs = [GuestSpec(goalstates.port_id(number), goalstates.port_mac(number)) for number in numbers]
    if not specs:
        return
    lines = []
    for number, spec in zip(numbers, specs, strict=True):
        lines += [
            f"link add {spec.tap} mtu {spec.mtu} type veth peer name peer{number}",
            f"link set {spec.tap} up",
            f"link set peer{number} up",
        ]
    host.namespace.ip(*lines)
    host.vsctl(*attach_arguments(host.bridge, specs)[1:])


def ready_agent(host: Host, numbers: Sequence[int], config: dict[str, Any] | None = None) -> AgentProcess:
    """A fresh agent that has programmed the subnet and the ports with these numbers, whose devices are there."""
    agent = host.agent(config)
    agent.wait_ready()
    lay_ports(host, numbers)
    message = goalstates.add_subnet(GoalStateV2())
    for number in numbers:
        goalstates.add_port(message, number)
    push(agent, message.SerializeToString())
    wait_programmed(agent)
    return agent


def wait_programmed(agent: AgentProcess) -> None:
    """Wait until the agent has nothing pending. It hears of new devices a little later than ovs-vsctl does, so what
    is sent directly after attaching may be answered PENDING."""

    def done() -> bool:
        status = agent.status()
        return not status["problems_total"] and not status["in_work"]

    wait_until(done, SETTLE_TIMEOUT, "nothing pending in the agent")


def push(agent: AgentProcess, data: bytes) -> tuple[float, bytes]:
    """Send one serialized goal state by PushGoalStatesStream: (seconds until its reply has come, the reply)."""
    elapsed, replies = push_all(agent, [data])
    return elapsed[0], replies[0]


def push_all(agent: AgentProcess, messages: Sequence[bytes]) -> tuple[list[float], list[bytes]]:
    """Send serialized goal states in one stream: seconds from the start until each reply, and the replies."""
    # No serializers: bytes go out and come in as they are.
    call = agent.channel().stream_stream(METHOD)
    moments: list[float] = []
    replies: list[bytes] = []
    started = time.perf_counter()
    for reply in call(iter(messages), timeout=REPLY_TIMEOUT):
        moments.append(time.perf_counter() - started)
        replies.append(reply)
    if len(replies) != len(messages):
        raise BenchError(f"{len(replies)} replies to {len(messages)} messages")
    return moments, replies


def expect_success(reply: bytes, count: int) -> None:
    """Raises BenchError unless the reply says SUCCESS of exactly so many resources."""
    statuses = GoalStateOperationReply.FromString(reply).operation_statuses
    good = sum(1 for status in statuses if status.operation_status == SUCCESS)
    if good != count or len(statuses) != count:
        why = problems(reply)
        reason = f"; first reason: {why[0].resource_id}: {why[0].reason}" if why else ""
        raise BenchError(f"{good} of {len(statuses)} statuses are SUCCESS, expected {count}{reason}")


def flow_count(host: Host) -> int:
    """How many flows the integration bridge has."""
    answer = host.ofctl("dump-aggregate", host.bridge, timeout=60.0)
    return int(answer.rpartition("flow_count=")[2].split()[0])


def expect_flows(host: Host, count: int) -> None:
    """Raises BenchError unless the bridge has exactly so many."""
    found = flow_count(host)
    if found != count:
        raise BenchError(f"{host!r} has {found} flows, expected {count}")


def settled_rss(agent: AgentProcess) -> int:
    """Resident bytes of the agent once they have stopped changing for a second."""
    history: list[tuple[float, int]] = []

    def steady() -> int:
        now, rss = time.monotonic(), agent.rss_bytes
        history.append((now, rss))
        while now - history[0][0] > SETTLE_TIME:
            del history[0]
        values = [value for _, value in history]
        covered = now - history[0][0] >= SETTLE_TIME * 0.9
        return rss if covered and max(values) - min(values) <= rss * STEADY else 0

    return wait_until(steady, SETTLE_TIMEOUT, "steady memory of the agent")


def peak_rss(agent: AgentProcess) -> int:
    """The most bytes that were ever resident (VmHWM, proc(5))."""
    for line in Path(f"/proc/{agent.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise BenchError(f"no VmHWM of process {agent.pid}")


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * round(share * 100) // 100) - 1)]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def is_long() -> bool:
    """Whether the long benches are wanted (ACA_LONG=1)."""
    return os.environ.get("ACA_LONG", "") not in ("", "0")
