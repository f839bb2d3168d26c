"""The closing marker of a replay: a field of ours in goal states (aca.v1.GoalStateExtension)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from goalstate_proto.aca_pb2 import GoalStateExtension

_FIELD = GoalStateExtension.DESCRIPTOR.fields_by_name["replay_end"].number
_LENGTH_DELIMITED = 2


def ends_replay(message: Message) -> str:
    """The id of the request whose replay ends with this message; empty if it ends none."""
    fields: Iterable[Any] = UnknownFieldSet(message)  # type: ignore[assignment]  # the stubs lack its iterator
    for field in fields:
        if field.field_number == _FIELD and field.wire_type == _LENGTH_DELIMITED:
            return bytes(field.data).decode(errors="replace")
    return ""
