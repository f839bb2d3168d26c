"""What a compacted topic comes to: the last value of every key, and what goes when a key says something else. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from dataplane.model import Key, Kind

_KINDS = {kind.name: kind for kind in Kind}


def key_resource(key: bytes) -> Key | None:
    """The resource that a record's key names by itself: `host|TYPE|id`. None if it reads otherwise."""
    parts = key.split(b"|", 2)
    if len(parts) != 3 or not parts[2]:
        return None
    try:
        kind = _KINDS.get(parts[1].decode().upper())
        return Key(kind, parts[2].decode().rpartition("/")[2]) if kind is not None else None
    except UnicodeDecodeError:
        return None


@dataclass(slots=True)
class Names:
    """Which resources the last value of each key names. What no key names any more is to go."""

    by_key: dict[bytes, frozenset[Key]] = field(default_factory=dict)
    uses: Counter[Key] = field(default_factory=Counter)

    def put(self, key: bytes, named: Iterable[Key]) -> list[Key]:
        """The key's new value names these. Returns what nothing names any more."""
        new = frozenset(named)
        old = self.by_key.get(key, frozenset())
        self.by_key[key] = new
        self.uses.update(new - old)
        return self._release(old - new)

    def bury(self, key: bytes) -> list[Key]:
        """A tombstone. Returns what goes: what the last value named, or, unknown, what the key itself names."""
        if key in self.by_key:
            return self._release(self.by_key.pop(key))
        named = key_resource(key)
        return [named] if named is not None and not self.uses[named] else []

    def _release(self, keys: Iterable[Key]) -> list[Key]:
        gone = []
        for key in sorted(keys, key=lambda key: (key.kind, key.id)):
            self.uses[key] -= 1
            if self.uses[key] <= 0:
                del self.uses[key]
                gone.append(key)
        return gone
