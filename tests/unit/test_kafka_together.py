"""Many small messages as one: the same outcome as one after another."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aca.dispatch.engine import Engine, EngineSettings
from aca.dispatch.inbox import Removal, Together
from aca.goalstate.decode import decode_together, decode_v2
from aca.goalstate.desired import DesiredState
from dataplane.model import Key, Kind, NetworkType
from goalstate_proto.common_pb2 import DELETE, UPDATE
from goalstate_proto.goalstate_pb2 import GoalStateV2
from goalstate_proto.goalstateprovisioner_pb2 import GoalStateOperationReply
from tests.bench.goalstates import add_neighbor, add_port, add_subnet, neighbor_addresses
from tests.unit.desired_world import HERE
from tests.unit.fake_plane import WAIT_S, RecordingPlane

CAPABILITIES = RecordingPlane().capabilities


def neighbor(number: int, revision: int, *, gone: bool = False) -> GoalStateV2:
    message = GoalStateV2()
    ip, mac = neighbor_addresses(number, 1)[0]
    add_neighbor(message, f"n{number}", ip, mac, f"172.16.1.{1 + revision}")
    state = message.neighbor_states[f"n{number}"]
    state.configuration.revision_number = revision
    state.operation_type = DELETE if gone else UPDATE
    return message


def base() -> GoalStateV2:
    return add_port(add_subnet(GoalStateV2()), 0)


MESSAGES = st.lists(
    st.one_of(
        st.builds(neighbor, st.integers(0, 4), st.integers(0, 5), gone=st.booleans()), st.builds(base)
    ),
    max_size=20,
)


@given(MESSAGES)
def test_together_is_as_one_after_another(messages: list[GoalStateV2]) -> None:
    def state() -> Any:
        return DesiredState(frozenset({HERE}), NetworkType.VXLAN, CAPABILITIES)

    one_by_one, together = state(), state()
    for message in messages:
        for changes in decode_v2(message, frozenset()):
            one_by_one.merge(changes, 0.0)
    for changes in decode_together(messages, frozenset()):
        together.merge(changes, 0.0)
    assert together.neighbors == one_by_one.neighbors
    assert together.ports == one_by_one.ports and together.subnets == one_by_one.subnets


def test_the_engine_takes_many_messages_and_removals_and_hears_of_completeness() -> None:
    plane = RecordingPlane()
    settings = EngineSettings(frozenset(), HERE, NetworkType.VXLAN, sources=frozenset({"kafka:t"}))
    engine = Engine(plane, settings)
    engine.start()
    plane.ready()
    try:
        some = tuple(neighbor(number, 1) for number in range(5))
        reply = engine.submit(Together((base(), *some))).result(WAIT_S)
        assert not GoalStateOperationReply.FromString(reply).operation_statuses
        assert {key.id for key in plane.wanted if key.kind is Kind.NEIGHBOR} == {f"n{one}" for one in range(5)}
        engine.submit(Removal((Key(Kind.NEIGHBOR, "n3"),))).result(WAIT_S)
        assert Key(Kind.NEIGHBOR, "n3") not in plane.wanted
        assert not engine.status()["reconcile"]["complete"]
        engine.everything_told("kafka:t")
        assert engine.status()["reconcile"]["complete"]
    finally:
        engine.close(2.0)
