"""The pure parts of the Kafka consumer: what is finished, what is ours, versions, what a compacted topic comes to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aca.transport.kafka.compacted import Names, key_resource
from aca.transport.kafka.matching import Matcher, key_hash
from aca.transport.kafka.payload import VERSION_HEADER, PoisonError, parse, version_of
from aca.transport.kafka.tracker import Tracker
from dataplane.model import Key, Kind
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_only_what_has_nothing_unfinished_before_it_may_be_committed(gaps: list[int], dice: Any) -> None:
    tracker = Tracker()
    ends = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    units = [tracker.begin(end) for end in ends]
    finished: set[int] = set()
    for index in dice.sample(range(len(units)), len(units)):
        before = tracker.reached or 0
        tracker.finish(units[index])
        tracker.finish(units[index])
        finished.add(index)
        prefix = next((number for number in range(len(units)) if number not in finished), len(units))
        assert tracker.reached == (ends[prefix - 1] if prefix else None)
        assert (tracker.reached or 0) >= before
    assert tracker.to_commit == ends[-1] and not tracker.units
    tracker.committed = ends[-1]
    assert tracker.to_commit is None


def test_a_late_finish_of_an_earlier_assignment_commits_nothing_in_the_next() -> None:
    old, new = Tracker(), Tracker()
    late = old.begin(10)
    new.begin(5)
    old.finish(late)
    assert new.to_commit is None


def test_offsets_only_rise() -> None:
    tracker = Tracker()
    tracker.begin(7)
    with pytest.raises(ValueError, match="does not rise"):
        tracker.begin(7)


@pytest.mark.parametrize(
    ("key", "told", "ours"),
    [
        (None, (), True),
        (b"", (), True),
        (b"h1", (), True),
        (b"192.0.2.1", (), True),
        (b"h1|PORT|p", (), True),
        (b"|VPC|v", (), True),
        (b"*|VPC|v", (), True),
        (b"h2|PORT|p", (), False),
        (b"h11", (), False),
        (b"h2", ("h2",), True),
        (b"h2", ("h3", "h2"), True),
        # Pairs of key and hash that controllers' own tests have (contract table 3.3).
        (b"9192a4d4-ffff-4ece-b3f0-8d36e3d88001", ("49775",), True),
        (b"3dda2801-d675-4688-a63f-dcda8d327f50", ("21485",), True),
        (b"3dda2801-d675-4688-a63f-dcda8d327f50", ("49775",), False),
        (b"\xff\xfe", ("49775",), False),
    ],
)
def test_whose_a_record_is(key: bytes | None, told: tuple[str, ...], ours: bool) -> None:
    assert Matcher(["h1", "192.0.2.1", "2001:db8::1"]).is_ours(key, told) is ours


@given(st.binary(max_size=60))
def test_hashes_are_below_65536(key: bytes) -> None:
    assert 0 <= key_hash(key) < 65536
    assert Matcher([]).is_ours(key or b"x", [str(key_hash(key or b"x"))])


def v1() -> GoalState:
    message = GoalState(format_version=101)
    message.port_states.add().configuration.id = "p"
    message.neighbor_states.add(operation_type="CREATE").configuration.id = "n"  # type: ignore[arg-type]
    return message


def v2() -> GoalStateV2:
    message = GoalStateV2()
    message.host_resources["192.0.2.1"].resources.add(id="x")
    message.port_states["p"].configuration.id = "p"
    for number in range(100):
        message.neighbor_states[f"n{number}"].configuration.id = f"n{number}"
    return message


@pytest.mark.parametrize("default", [1, 2])
def test_structure_tells_the_version_whatever_the_default(default: int) -> None:
    assert parse(v1().SerializeToString(), None, default) == v1()
    assert parse(v2().SerializeToString(), None, default) == v2()


@pytest.mark.parametrize("default", [1, 2])
def test_where_nothing_tells_the_setting_does(default: int) -> None:
    bare = GoalState(format_version=5).SerializeToString()
    assert version_of(bare, None, default) == default
    assert version_of(bare, [(VERSION_HEADER, b"1")], default) == 1
    assert version_of(bare, [("other", None), (VERSION_HEADER, b"v2")], default) == 2


@pytest.mark.parametrize(("message", "named"), [(v1(), b"2"), (v2(), b"1"), (v2(), b"3"), (v2(), None)])
def test_a_contradiction_is_poison(message: GoalState | GoalStateV2, named: bytes | None) -> None:
    with pytest.raises(PoisonError, match=VERSION_HEADER):
        parse(message.SerializeToString(), [(VERSION_HEADER, named)], 2)


def test_entries_of_both_versions_are_poison() -> None:
    with pytest.raises(PoisonError, match="version 1, others of version 2"):
        parse(v1().SerializeToString() + v2().SerializeToString(), None, 2)


@given(st.binary(max_size=200), st.sampled_from([1, 2]))
def test_no_bytes_do_more_than_be_poison(value: bytes, default: int) -> None:
    try:
        parse(value, None, default)
    except PoisonError as error:
        assert str(error)


@given(st.integers(0, 2000))
def test_what_is_cut_short_is_poison_or_shorter(length: int) -> None:
    whole = v2().SerializeToString()
    try:
        message = parse(whole[:length], None, 2)
    except PoisonError:
        return
    assert isinstance(message, GoalStateV2) and len(message.neighbor_states) <= 100


@pytest.mark.parametrize(
    ("key", "named"),
    [
        (b"h1|NEIGHBOR|n1", Key(Kind.NEIGHBOR, "n1")),
        (b"h1|port|p", Key(Kind.PORT, "p")),
        (b"h1|NEIGHBOR|L3/n1", Key(Kind.NEIGHBOR, "n1")),
        (b"h1", None),
        (b"h1|THING|x", None),
        (b"h1|PORT|", None),
        (b"h1|PORT|\xff", None),
    ],
)
def test_what_a_key_names_by_itself(key: bytes, named: Key | None) -> None:
    assert key_resource(key) == named


RESOURCES = st.frozensets(st.sampled_from([Key(Kind.NEIGHBOR, name) for name in "abcde"]), max_size=4)
STEPS = st.lists(st.tuples(st.sampled_from([b"k1", b"k2", b"k3"]), st.none() | RESOURCES), max_size=40)


@given(STEPS)
def test_what_stands_is_what_the_last_values_name(steps: list[tuple[bytes, frozenset[Key] | None]]) -> None:
    """Following live comes to the same as reading afresh."""
    names, stands, last = Names(), set[Key](), dict[bytes, frozenset[Key]]()
    for key, named in steps:
        if named is None:
            last.pop(key, None)
            stands -= set(names.bury(key))
        else:
            last[key] = named
            gone = names.put(key, named)
            assert not set(gone) & named
            stands = (stands | named) - set(gone)
        assert stands == set().union(*last.values())


def test_a_tombstone_of_a_key_that_is_not_known_takes_what_the_key_names() -> None:
    names = Names()
    assert names.bury(b"h1|PORT|p") == [Key(Kind.PORT, "p")]
    names.put(b"other", [Key(Kind.PORT, "p")])
    assert names.bury(b"h1|PORT|p") == []
