"""A record as the rest of the agent sees it."""

from __future__ import annotations

from typing import Protocol

Headers = list[tuple[str, bytes | None]]


class Record(Protocol):
    """What the client library hands out, once it is known to be no error. `value` None is a tombstone; the record's
    length is that of its value; its timestamp is a type and milliseconds since the epoch."""

    def topic(self) -> str: ...

    def partition(self) -> int: ...

    def offset(self) -> int: ...

    def key(self) -> bytes | None: ...

    def value(self) -> bytes | None: ...

    def headers(self) -> Headers | None: ...

    def timestamp(self) -> tuple[int, int]: ...

    def __len__(self) -> int: ...
