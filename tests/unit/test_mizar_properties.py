"""For any value and any bytes: what is encoded is decoded again, by both sides, and garbage is an error of ours."""

from dataclasses import fields
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.mizar import values as v
from dataplane.mizar.errors import MizarError, XdrError
from dataplane.mizar.exchange import answer_of
from dataplane.mizar.layouts import LAYOUTS
from dataplane.mizar.procedures import PROCEDURES, Call
from dataplane.mizar.rpc import Records
from tests.lab import transit_wire

SMALL = {
    "prefixlen": 32, "cidr_prefixlen": 32, "eptype": 3, "stage": 4, "cidr_type": 2, "pod_network_class": 2,
    "pod_network_priority": 2,
}  # fmt: skip
BY_KIND: dict[str, st.SearchStrategy[Any]] = {
    "q": st.integers(0, 2**64 - 1),
    "u": st.integers(0, 2**32 - 1),
    "b": st.integers(0, 255),
    "p": st.integers(0, 65535),
    "a": st.binary(min_size=4, max_size=4),
    "n": st.binary(min_size=4, max_size=4),
    "m": st.binary(min_size=6, max_size=6),
    "A": st.lists(st.binary(min_size=4, max_size=4), max_size=128).map(tuple),
}
CLASSES = {cls.__name__.lower(): cls for cls in LAYOUTS}


def class_of(structure: str) -> type:
    return CLASSES[structure.replace("_", "")]


def value_of(structure: str) -> st.SearchStrategy[Any]:
    """By the test daemon's table of the structure."""
    found = {}
    for part in transit_wire.STRUCTURES[structure].split():
        name, kind = part.split(":")
        if kind[0] == "{":
            found[name] = value_of(kind[1:-1])
        elif kind[0] == "s":
            found[name] = st.text(st.characters(min_codepoint=1, max_codepoint=126), max_size=int(kind[1:]))
        else:
            found[name] = st.integers(0, SMALL[name]) if name in SMALL else BY_KIND[kind]
    return st.builds(class_of(structure), **found)


ANY = st.sampled_from(sorted(transit_wire.STRUCTURES)).flatmap(lambda name: st.tuples(st.just(name), value_of(name)))


@settings(max_examples=300, deadline=None)
@given(ANY)
def test_both_sides_have_the_same_bytes(pair: tuple[str, Any]) -> None:
    structure, value = pair
    layout = LAYOUTS[type(value)]
    data = layout.encode(value)
    assert layout.decode(data) == (value, len(data))
    assert transit_wire.write(structure, transit_wire.read(structure, data)) == data


@settings(max_examples=200, deadline=None)
@given(ANY, st.data())
def test_a_part_of_a_structure_is_refused(pair: tuple[str, Any], data: st.DataObject) -> None:
    _, value = pair
    layout = LAYOUTS[type(value)]
    whole = layout.encode(value)
    cut = data.draw(st.integers(0, len(whole) - 1))
    try:
        layout.decode(whole[:cut])
    except XdrError:
        return
    raise AssertionError("half of it was taken for the whole")


HEAD = bytes.fromhex("0000000700000001") + bytes(16)
REPLIES = st.one_of(
    st.binary(max_size=300),
    st.binary(max_size=300).map(lambda rest: HEAD + rest),
    st.binary(max_size=60).map(lambda rest: HEAD[:12] + rest),
)


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(sorted(PROCEDURES)), REPLIES, st.integers(1, 3))
def test_any_bytes_are_an_answer_or_an_error_of_ours(number: int, reply: bytes, sent: int) -> None:
    answer = answer_of(Call(PROCEDURES[number], None), reply, sent)
    assert (answer.value is None) != (answer.error is None)
    assert answer.error is None or isinstance(answer.error, MizarError)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(PROCEDURES)), st.binary(min_size=1, max_size=9))
def test_what_stands_behind_an_answer_makes_it_none(number: int, surplus: bytes) -> None:
    procedure = PROCEDURES[number]
    structure = transit_wire.PROCEDURES[number][2]
    blank = {} if not structure else _blank(structure)
    results = transit_wire.write(structure, blank) if structure else bytes(4)
    assert answer_of(Call(procedure, None), HEAD + results, 1).error is None
    assert answer_of(Call(procedure, None), HEAD + results + surplus, 1).error is not None


def _blank(structure: str) -> dict[str, Any]:
    zero = {"s": "", "a": "0.0.0.0", "n": "0.0.0.0", "A": [], "m": "00:00:00:00:00:00"}
    found: dict[str, Any] = {}
    for part in transit_wire.STRUCTURES[structure].split():
        name, kind = part.split(":")
        found[name] = _blank(kind[1:-1]) if kind[0] == "{" else zero.get(kind[0], 0)
    return found


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=3), max_size=6), st.data())
def test_records_are_whole_however_the_stream_is_cut(messages: list[list[bytes]], data: st.DataObject) -> None:
    stream = b""
    for fragments in messages:
        for position, fragment in enumerate(fragments, 1):
            last = 0x80000000 if position == len(fragments) else 0
            stream += (last | len(fragment)).to_bytes(4, "big") + fragment
    records = Records()
    found: list[bytes] = []
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        found += records.feed(stream[:cut])
        stream = stream[cut:]
    assert found == [b"".join(fragments) for fragments in messages]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=100), max_size=10))
def test_a_stream_of_anything_gives_records_or_an_error_of_ours(pieces: list[bytes]) -> None:
    records = Records()
    try:
        for piece in pieces:
            records.feed(piece)
    except MizarError:
        pass


def test_every_structure_has_its_fields_in_the_order_of_the_wire() -> None:
    for structure, text in transit_wire.STRUCTURES.items():
        wanted = [part.split(":")[0] for part in text.split()]
        assert list(LAYOUTS[class_of(structure)].fields) == wanted
        assert [field.name for field in fields(class_of(structure))] == wanted
    assert v.PortKey in LAYOUTS
