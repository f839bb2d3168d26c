"""Parse, validate and merge, without data plane and without gRPC, in this process."""

import time

from aca.goalstate.decode import decode_v2
from aca.goalstate.desired import DesiredState
from dataplane.base import Capabilities
from dataplane.model import NetworkType
from goalstate_proto.goalstate_pb2 import GoalStateV2
from tests.bench import goalstates
from tests.bench.figures import BenchError, Report
from tests.bench.stage import median

COUNT = 100_000
ROUNDS = 5
MOST_SECONDS = 1.0
LOCAL = "172.16.0.1"


def run(report: Report) -> None:
    """`decode_merge_100k`."""
    data = goalstates.neighbors_message(0, COUNT)
    base = goalstates.add_port(goalstates.add_subnet(GoalStateV2()), 0)
    theirs, ours = [], []
    for _ in range(ROUNDS):
        theirs.append(_bare(data))
        ours.append(_whole(data, base))
    report.add(
        "decode_merge_100k.time",
        median([sum(one) for one in ours]),
        "s",
        reference=median([sum(one) for one in theirs]),
        goal=MOST_SECONDS,
        note=f"median of {ROUNDS}; reference: protobuf's parse and a loop that reads the fields",
    )
    for position, part in enumerate(("parse", "decode", "merge")):
        report.add(f"decode_merge_100k.{part}", median([one[position] for one in ours]), "s")


def _bare(data: bytes) -> tuple[float, float]:
    started = time.perf_counter()
    message = GoalStateV2.FromString(data)
    parsed = time.perf_counter()
    rows = []
    for key, state in message.neighbor_states.items():
        wire = state.configuration
        fixed = wire.fixed_ips[0]
        rows.append(
            (
                *(key, state.operation_type, wire.id, wire.vpc_id, wire.revision_number, wire.mac_address),
                *(wire.host_ip_address, fixed.subnet_id, fixed.ip_address, fixed.neighbor_type),
            )
        )
    done = time.perf_counter()
    if len(rows) != COUNT:
        raise BenchError(f"{len(rows)} of {COUNT} neighbours read")
    return parsed - started, done - parsed


def _whole(data: bytes, base: GoalStateV2) -> tuple[float, float, float]:
    """Seconds for parse, decode, merge. Decoding is lazy: it goes on between merges, as in the agent."""
    host = bytes(int(part) for part in LOCAL.split("."))
    state = DesiredState(frozenset([host]), NetworkType.VXLAN, Capabilities(frozenset([NetworkType.VXLAN])))
    for changes in decode_v2(base, frozenset([LOCAL])):
        state.merge(changes, 0.0)
    started = time.perf_counter()
    message = GoalStateV2.FromString(data)
    parsed = time.perf_counter()
    merging = 0.0
    for changes in decode_v2(message, frozenset([LOCAL])):
        before = time.perf_counter()
        refused = [outcome for outcome in state.merge(changes, 0.0) if outcome is not None]
        state.take_dirty()
        merging += time.perf_counter() - before
        if refused:
            raise BenchError(f"refused: {refused[0]}")
    done = time.perf_counter()
    if len(state.neighbors) != COUNT:
        raise BenchError(f"{len(state.neighbors)} of {COUNT} neighbours merged")
    return parsed - started, done - parsed - merging, merging
