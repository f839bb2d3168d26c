"""What an agent has made on a host, as lines that can be compared: with before, or with a fresh agent's elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tests.conformance.cloud import Backend
from tests.lab import Host

INDEX = re.compile(r"\bport-\d+\b")

Footprint = frozenset[str]


def footprint_of(host: Host, backend: Backend) -> Footprint:
    """Without the names that only this lab has, and without the kernel's numbers of devices."""
    lines = _lines("", backend.footprint(host))
    return frozenset(INDEX.sub("port-N", line.replace(host.namespace.name, "HOST")) for line in lines)


def difference(expected: Footprint, found: Footprint, most: int = 20) -> str:
    """For people: what is missing and what is too much; empty if they are equal."""
    missing, extra = sorted(expected - found), sorted(found - expected)
    lines = [f"{len(missing)} missing, {len(extra)} too much"] if missing or extra else []
    lines += [f"  - {line}" for line in missing[:most]]
    lines += [f"  + {line}" for line in extra[:most]]
    return "\n".join(lines)


def _lines(path: str, value: object) -> Iterator[str]:
    match value:
        case Mapping():
            for name, below in value.items():
                yield from _lines(f"{path} {name}", below)
        case list() | tuple() if value:
            for below in value:
                yield from _lines(path, below) if isinstance(below, list | Mapping) else iter([f"{path}: {below}"])
        case _:
            yield f"{path}: {value}"
