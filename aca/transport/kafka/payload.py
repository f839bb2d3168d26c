"""Bytes of a record to a message: GoalState (V1) or GoalStateV2. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.message import DecodeError

from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2

VERSION_HEADER = "goalstate-version"
"""A record's header that names the version: 1 or 2."""

_LOOKED_AT = 64
"""Entries whose structure is looked at: garbage shows early, and a large record costs no more than a small one."""

_V1_STARTS = frozenset({0x08, 0x12})
_V2_START = 0x0A


class PoisonError(Exception):
    """The record cannot be read, and never will be; the message says why."""


def version_of(value: bytes, headers: Iterable[tuple[str, bytes | None]] | None, default: int) -> int:
    """1 or 2. Raises PoisonError if what it is called and what it is contradict each other."""
    named = _named(headers) if headers else None
    shown = _structure(value)
    if named is not None and shown is not None and named != shown:
        raise PoisonError(f"header {VERSION_HEADER} says version {named}, the structure is that of version {shown}")
    return named or shown or default


def parse(value: bytes, headers: Iterable[tuple[str, bytes | None]] | None, default: int) -> GoalState | GoalStateV2:
    """The message. Raises PoisonError."""
    version = version_of(value, headers, default)
    try:
        return GoalStateV2.FromString(value) if version == 2 else GoalState.FromString(value)
    except DecodeError:
        raise PoisonError(f"these {len(value)} bytes are no goal state of version {version}") from None


def _named(headers: Iterable[tuple[str, bytes | None]]) -> int | None:
    for name, text in headers:
        if name == VERSION_HEADER:
            try:
                return {b"1": 1, b"2": 2, b"v1": 1, b"v2": 2}[(text or b"").strip().lower()]
            except KeyError:
                raise PoisonError(f"header {VERSION_HEADER} is {text!r}, not 1 or 2") from None
    return None


def _structure(value: bytes) -> int | None:
    """The version that the entries of fields 2 to 10 show by their first tag: 0x0a is the key of a map's entry (V2),
    0x08 and 0x12 are a state's own fields (V1). None if there is nothing to see, or nothing that is a message."""
    shown: int | None = None
    at, end = 0, len(value)
    try:
        for _ in range(_LOOKED_AT):
            if at >= end:
                break
            tag = value[at]
            at += 1
            if tag & 0x87 != 0x02 or not 0x12 <= tag <= 0x52:
                at = _skip(value, at, tag)
                continue
            length = value[at]
            at += 1
            if length >= 0x80:
                length, at = _varint(value, at - 1)
            if length:
                first = value[at]
                found = 2 if first == _V2_START else 1 if first in _V1_STARTS else None
                if found is not None and shown is not None and found != shown:
                    raise PoisonError("some entries have the structure of version 1, others of version 2")
                shown = found or shown
            at += length
    except IndexError:
        # Cut short: parsing says so.
        return shown
    return shown


def _skip(value: bytes, at: int, tag: int) -> int:
    """Behind the field whose tag ends at `at`. Raises IndexError where no field can be."""
    if tag >= 0x80:
        tag, at = _varint(value, at - 1)
    wire_type = tag & 7
    if wire_type == 0:
        return _varint(value, at)[1]
    if wire_type == 1:
        return at + 8
    if wire_type == 5:
        return at + 4
    if wire_type == 2:
        length, at = _varint(value, at)
        return at + length
    raise IndexError


def _varint(value: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise IndexError
