"""Whatever a well-formed message holds, decoding gives one clear change per state."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aca.goalstate.changes import Change
from aca.goalstate.decode import decode_v1, decode_v2
from aca.goalstate.decode.neighbor import decode_neighbor
from goalstate_proto.common_pb2 import CREATE
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2
from goalstate_proto.neighbor_pb2 import NeighborState

STATE_FIELDS = [field.name for field in GoalState.DESCRIPTOR.fields if field.name.endswith("_states")]
HOST = frozenset(("192.0.2.11",))

ODD_ONE_IN = 25
"""Fields that hold something unlikely: few enough that whole resources are good now and then."""

addresses = ["10.0.0.5", "192.0.2.11", "172.16.0.9"]
macs = ["aa:bb:cc:00:00:01", "02:BB:CC:00:00:02", "AA-BB-CC-00-00-02", "aabb.cc00.0003"]
ids = ["a", "b", "c" * 63]
strange_texts = [
    *("", "L2/a", "192.0.2.11/a", "x" * 64, "x" * 255, "x" * 256, "a\0", "a\nb", "é" * 63, "é" * 64, "é" * 128),
    *("10.0.0.5/8", "0.0.0.0/0", "224.0.0.1", "127.0.0.1", "255.255.255.255", "0.0.0.0", "10.0.0.05", "10.0.0.5 "),
    *("fd00::5", "fd00::/64", "ff02::1", "::", "::1", "fe80::1%eth0", "::ffff:10.0.0.1"),
    *("01:00:5e:00:00:01", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "aa:bb:cc:dd:ee: f", "a:abb:cc:dd:ee:ff"),
    *(
        "aa:bb:cc:dd:ee:::",
        "aa:bb:cc:dd:ee:fg",
        "aa-bb-cc-dd-ee-ff",
        "aabb.ccdd.eeff",
        "aabbccddeeff",
        "AA:BB:CC:DD:EE:FF",
    ),
]
odd_texts = st.one_of(st.sampled_from(strange_texts), st.text(max_size=300))
odd_numbers = {
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_ENUM: st.one_of(st.integers(-1, 9), st.integers(-(2**31), 2**31 - 1)),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
}


def fields_of(message: Message) -> list[FieldDescriptor]:
    return [*message.DESCRIPTOR.fields]


def odd(draw: st.DrawFn) -> bool:
    return draw(st.integers(1, ODD_ONE_IN)) == ODD_ONE_IN


def likely_texts(name: str) -> list[str]:
    if "mac" in name:
        return macs
    return addresses if name.startswith(("ip", "host_ip", "cidr", "destination", "next", "remote_ip", "entry")) else ids


def scalar(draw: st.DrawFn, field: FieldDescriptor) -> Any:
    if field.type == FieldDescriptor.TYPE_STRING:
        return draw(odd_texts if odd(draw) else st.sampled_from(likely_texts(field.name)))
    if odd(draw):
        return draw(odd_numbers[field.type])
    if field.enum_type is not None:
        return draw(st.sampled_from([value.number for value in field.enum_type.values]))
    return draw(st.integers(0, 2)) if field.type != FieldDescriptor.TYPE_BOOL else draw(st.booleans())


def fill(draw: st.DrawFn, message: Message) -> None:
    """Set the fields of `message`, at any depth: mostly to what is likely, at times to anything protobuf can carry."""
    for field in fields_of(message):
        if odd(draw):
            continue
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            fill_message_field(draw, message, field)
        elif field.is_repeated:
            getattr(message, field.name).extend(scalar(draw, field) for _ in range(draw(st.integers(0, 2))))
        else:
            setattr(message, field.name, scalar(draw, field))


def fill_message_field(draw: st.DrawFn, message: Message, field: FieldDescriptor) -> None:
    value: Any = getattr(message, field.name)
    if isinstance(value, Mapping):
        for key in draw(st.lists(st.one_of(st.sampled_from(ids), odd_texts), max_size=2)):
            fill(draw, value[key])
    elif field.is_repeated:
        for _ in range(draw(st.sampled_from((1, 1, 1, 0, 2)))):
            fill(draw, value.add())
    else:
        value.SetInParent()
        fill(draw, value)


@st.composite
def goal_states(draw: st.DrawFn) -> GoalState:
    message = GoalState()
    fill(draw, message)
    return message


@st.composite
def goal_states_v2(draw: st.DrawFn) -> GoalStateV2:
    message = GoalStateV2()
    fill(draw, message)
    return message


def ordinary_neighbor() -> NeighborState:
    state = NeighborState(operation_type=CREATE)
    wire = state.configuration
    wire.id, wire.vpc_id, wire.mac_address, wire.host_ip_address = "a", "vpc", "aa:bb:cc:00:00:01", "192.0.2.12"
    wire.fixed_ips.add(subnet_id="subnet", ip_address="10.0.0.5")
    return state


@st.composite
def neighbor_states(draw: st.DrawFn) -> NeighborState:
    """An ordinary neighbour with up to two fields that are not."""
    state = ordinary_neighbor()
    wire, fixed_ip = state.configuration, state.configuration.fixed_ips[0]
    for _ in range(draw(st.integers(0, 2))):
        message: Message = draw(st.sampled_from((state, wire, wire, wire, fixed_ip, fixed_ip)))
        field = draw(st.sampled_from(fields_of(message)))
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            fill_message_field(draw, message, field)
        else:
            strange = odd_texts if field.type == FieldDescriptor.TYPE_STRING else odd_numbers[field.type]
            setattr(message, field.name, draw(strange))
    return state


slow_data = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def assert_clear(change: Change) -> None:
    """Exactly one of: refused with a sentence that names the resource; deleted; upserted under its own id."""
    if change.error:
        assert change.value is None
        assert change.error.startswith(f"{change.kind.name} ")
        assert change.error.isprintable()
        assert len(change.error) < 1500
    elif change.delete:
        assert change.value is None
        assert change.id
    else:
        assert change.value is not None
        assert change.value.id == change.id
        assert change.value.revision == change.revision
        hash(change.value)


@slow_data
@given(goal_states())
def test_v1_gives_one_change_for_each_state(message: GoalState) -> None:
    changes = list(chain.from_iterable(decode_v1(message)))
    assert len(changes) == sum(len(getattr(message, field)) for field in STATE_FIELDS)
    for change in changes:
        assert_clear(change)


@slow_data
@given(goal_states_v2())
def test_v2_gives_at_most_one_change_for_each_state(message: GoalStateV2) -> None:
    changes = list(chain.from_iterable(decode_v2(message, HOST)))
    count = sum(len(getattr(message, field)) for field in STATE_FIELDS)
    assert len(changes) <= count
    if not message.host_resources:
        assert len(changes) == count
    for change in changes:
        assert_clear(change)


@slow_data
@given(st.lists(neighbor_states(), max_size=3))
def test_the_short_way_for_neighbors_decides_like_the_long_one(states: list[NeighborState]) -> None:
    changes = list(chain.from_iterable(decode_v1(GoalState(neighbor_states=states))))
    assert changes == [decode_neighbor("", state) for state in states]
    assert all(type(change) is Change for change in changes)


@pytest.mark.parametrize("field", ["id", "vpc_id", "mac_address", "host_ip_address", "subnet_id", "ip_address"])
def test_the_short_way_knows_every_strange_text(field: str) -> None:
    states = []
    for text in strange_texts:
        states.append(ordinary_neighbor())
        wire = states[-1].configuration
        setattr(wire.fixed_ips[0] if field in ("subnet_id", "ip_address") else wire, field, text)
    changes = list(chain.from_iterable(decode_v1(GoalState(neighbor_states=states))))
    assert changes == [decode_neighbor("", state) for state in states]


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_that_parse_decode(data: bytes) -> None:
    message = GoalState()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return
    for change in chain.from_iterable(decode_v1(message)):
        assert_clear(change)
