"""Reads many records of one shape at once: what dumps of a hundred thousand entries consist of."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any


def read_alike(
    data: bytes, length: int, values: Sequence[tuple[int, int]], ignored: Sequence[tuple[int, int]] = ()
) -> Iterator[tuple[Any, ...]] | None:
    """Of records of `length` bytes each, the bytes at each (offset, size) of `values`, in order of their offsets.

    None unless all records are equal but for those places and the `ignored` ones.
    """
    count, rest = divmod(len(data), length)
    if rest or not count:
        return None
    free: set[int] = set()
    for offset, size in (*values, *ignored):
        free.update(range(offset, offset + size))
    for column in range(length):
        if column not in free and data[column::length].count(data[column]) != count:
            return None
    layout, position = "=", 0
    for offset, size in values:
        layout += f"{offset - position}x{size}s"
        position = offset + size
    return struct.iter_unpack(f"{layout}{length - position}x", data)
