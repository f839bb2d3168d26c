"""The fixtures in tests/fixtures and small goal states for tests."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from google.protobuf import text_format

from aca.goalstate.changes import Change
from aca.goalstate.decode import decode_v1, decode_v2
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2

FIXTURES = Path(__file__).parent.parent / "fixtures"
HOST = frozenset(("192.0.2.11",))

VPC = "2bbb63c2-c6fe-4e30-ad33-77aa313c91c2"
QUAY = "6b28e99c-7c3d-4b23-a22e-434155ef7017"
DOCK = "c0808820-f81a-454d-af5d-382d51af57d3"


def fixture_names() -> list[str]:
    return sorted(path.name.removesuffix(".txtpb") for path in FIXTURES.glob("*.txtpb"))


def fixture_text(name: str) -> str:
    return (FIXTURES / f"{name}.txtpb").read_text()


def decode_fixture(name: str, local_addresses: frozenset[str] = HOST) -> list[list[Change]]:
    """The changes of a fixture as seen by a host with `local_addresses`."""
    if name.endswith(".v1"):
        return list(decode_v1(text_format.Parse(fixture_text(name), GoalState())))
    return list(decode_v2(text_format.Parse(fixture_text(name), GoalStateV2()), local_addresses))


def decode_v1_text(text: str) -> list[Change]:
    return list(chain.from_iterable(decode_v1(text_format.Parse(text, GoalState()))))


def decode_v2_text(text: str, local_addresses: frozenset[str] = HOST) -> list[Change]:
    return list(chain.from_iterable(decode_v2(text_format.Parse(text, GoalStateV2()), local_addresses)))


def only(changes: list[Change]) -> Change:
    (change,) = changes
    return change
