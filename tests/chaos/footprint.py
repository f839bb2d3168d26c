"""What an agent has made on a host, as lines that can be compared: with before, or with a fresh agent's elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from tests.conformance.backends import Backend
from tests.lab import Host, LabError, wait_until

INDEX = re.compile(r"\bport-\d+\b")

PORT_NUMBER = re.compile(r"\b(in_port=|reg2=|output:|set_field:(?=\w+->reg2\b))(0x[0-9a-f]+|\d+)\b")
PROCESS = re.compile(r'\["aca-agent", "[^"]*"\], ')
"""Which process it is that looks after the bridge."""
METER = re.compile(r"\b(meter[:=])(\d+)\b")
FIRST_METER = 0x1000
"""Each port's meter has the port's number after this."""
COPY = re.compile(r"set_field:\w[-\w]*->reg2,resubmit\(,\d+\),?")
COPIES = re.compile(rf"(?:{COPY.pattern}){{2,}}$")
"""Copies for several ports are in the order of the ports' numbers."""

Footprint = frozenset[str]


def footprint_of(host: Host, backend: Backend) -> Footprint:
    """Without the names that only this lab has, and with names for the numbers that a switch and the kernel choose."""
    names = _port_names(host) if host.has_ovs else {}
    return frozenset(_named(host, names, line) for line in _lines("", backend.footprint(host)))


def _named(host: Host, names: Mapping[int, str], line: str) -> str:
    line = PROCESS.sub("", INDEX.sub("port-N", line.replace(host.namespace.name, "HOST")))
    line = METER.sub(lambda match: f"{match[1]}{names.get(int(match[2]) - FIRST_METER, match[2])}", line)
    line = PORT_NUMBER.sub(lambda match: f"{match[1]}{names.get(int(match[2], 0), match[2])}", line)
    return COPIES.sub(lambda match: ",".join(sorted(copy.rstrip(",") for copy in COPY.findall(match[0]))), line)


def wait_flows(host: Host, backend: Backend, expected: Footprint, within: float) -> None:
    """Until the flows are those of `expected`. Raises LabError with what differs."""
    try:
        wait_until(lambda: flows_of(footprint_of(host, backend)) == flows_of(expected), within, "all flows are back")
    except LabError as error:
        raise LabError(f"{error}\n{difference(flows_of(expected), flows_of(footprint_of(host, backend)))}") from None


def flows_of(footprint: Footprint) -> Footprint:
    """Without what others than the agent say of the devices that they attach."""
    return frozenset(line for line in footprint if line.startswith(" flows:"))


def difference(expected: Footprint, found: Footprint, most: int = 20) -> str:
    """For people: what is missing and what is too much; empty if they are equal."""
    missing, extra = sorted(expected - found), sorted(found - expected)
    lines = [f"{len(missing)} missing, {len(extra)} too much"] if missing or extra else []
    lines += [f"  - {line}" for line in missing[:most]]
    lines += [f"  + {line}" for line in extra[:most]]
    return "\n".join(lines)


def _port_names(host: Host) -> dict[int, str]:
    """Guests' devices by OpenFlow port number."""
    listed = json.loads(host.vsctl("--format=json", "--columns=name,ofport", "list", "Interface"))
    return {number: name for name, number in listed["data"] if name.startswith(("tap", "vmnic"))}


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
