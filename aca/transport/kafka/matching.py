"""Whether a record is for this host: its key tells, before anything is parsed. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import mmh3

HASH_RANGE = 65536


def key_hash(key: bytes) -> int:
    """Murmur3 x86 32 bit, seed 0, modulo 65536: what controllers send instead of a key (contract table 3.3)."""
    return mmh3.hash(key, 0, signed=False) % HASH_RANGE


class Matcher:
    """Keys of this host: its id, its addresses, and whatever begins with one of these and '|' (`host|type|id`).

    Records without a key, and those whose key begins with '|' or '*|', are for everybody.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """`names`: the host's id and addresses, as controllers write them."""
        self._names = frozenset(name.encode() for name in names)

    def is_ours(self, key: bytes | None, told: Collection[str] = ()) -> bool:
        """`told` are the keys that controllers have named for the record's topic; decimal numbers may be hashes."""
        if not key or key in self._names:
            return True
        head, bar, _ = key.partition(b"|")
        if bar and (head in self._names or head in (b"", b"*")):
            return True
        return bool(told) and any(_matches(key, one) for one in told)


def _matches(key: bytes, told: str) -> bool:
    if key == told.encode() or not told:
        return True
    return told.isascii() and told.isdecimal() and len(told) <= 5 and key_hash(key) == int(told)
