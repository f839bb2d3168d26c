"""A host without Open vSwitch: its ports, its agent, and the tools of iproute2 and nftables programming the same."""

import json
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalstate_proto.goalstate_pb2 import GoalStateV2
from tests.bench import goalstates
from tests.bench.figures import BenchError
from tests.bench.stage import push, wait_programmed
from tests.lab import AgentProcess, GuestSpec, Host

TOOL_TIMEOUT = 240.0
ELEMENTS = re.compile(r"elements = \{(.*?)\}", re.DOTALL)
BLOCK = re.compile(r"^\t(?:set|map) (\S+) \{\n(.*?)^\t\}", re.DOTALL | re.MULTILINE)
NEIGHBOR_SETS = (("map", "netdev", "addresses"), ("set", "bridge", "members"), ("map", "bridge", "senders"))
"""Where neighbours have elements: what it is, its family, its name."""


def lay_taps(host: Host, numbers: Sequence[int]) -> None:
    """Devices for ports, with their ids as aliases. They have no guest behind them, but a carrier."""
    lines = []
    for number in numbers:
        spec = GuestSpec(goalstates.port_id(number), goalstates.port_mac(number))
        lines += [
            f"link add {spec.tap} mtu {spec.mtu} type veth peer name peer{number}",
            f"link set {spec.tap} alias {spec.port_id} up",
            f"link set peer{number} up",
        ]
    host.namespace.ip(*lines)


def ready_netlink_agent(host: Host, numbers: Sequence[int]) -> AgentProcess:
    """A fresh agent that has programmed the subnet and the ports with these numbers, whose devices are made."""
    lay_taps(host, numbers)
    return again_netlink_agent(host, numbers)


def elements(host: Host) -> set[tuple[str, str]]:
    """All elements of the filter, as `nft` shows them: ("FAMILY aca SET", element)."""
    found: set[tuple[str, str]] = set()
    for family in ("netdev", "bridge"):
        listed = host.run("nft", "list", "table", family, "aca", timeout=TOOL_TIMEOUT)
        for block in BLOCK.finditer(listed):
            inside = ELEMENTS.search(block[2])
            if inside is not None:
                found.update((f"{family} aca {block[1]}", one.strip()) for one in inside[1].split(","))
    return found


def again_netlink_agent(host: Host, numbers: Sequence[int]) -> AgentProcess:
    """The same, where the devices are there."""
    agent = host.agent()
    agent.wait_ready()
    message = goalstates.add_subnet(GoalStateV2())
    for number in numbers:
        goalstates.add_port(message, number)
    push(agent, message.SerializeToString())
    wait_programmed(agent)
    return agent


@dataclass(frozen=True, slots=True)
class Entries:
    """Files with the neighbours' entries."""

    forwarding: Path
    """For `bridge -batch`."""
    elements: Path
    """For `nft -f`."""
    resolved: Path
    """For `ip -batch`: a permanent neighbour entry for each address, which we do not need."""


def write_entries(host: Host, directory: Path, addresses: Iterable[tuple[str, str]]) -> Entries:
    """What the host's kernel has of the neighbours; `addresses` are their (IP, MAC)."""
    bridge, tunnel = segment_devices(host)
    found = json.loads(host.run("bridge", "-j", "fdb", "show", "dev", tunnel, timeout=TOOL_TIMEOUT))
    forwarding = []
    for entry in found:
        if "dst" not in entry:
            continue
        group = entry["mac"] == "00:00:00:00:00:00"
        how = "append" if group else "replace"
        where = "self" if group else "self master"
        forwarding.append(f"fdb {how} {entry['mac']} dev {tunnel} dst {entry['dst']} {where} static")
    found_elements = [(family, name, _elements(host, what, family, name)[0]) for what, family, name in NEIGHBOR_SETS]
    elements = [f"add element {family} aca {name} {{{inside}}}" for family, name, inside in found_elements]
    resolved = [f"neigh replace {ip} lladdr {mac} dev {bridge} nud permanent" for ip, mac in addresses]
    files = []
    for suffix, lines in (("fdb", forwarding), ("nft", elements), ("neigh", resolved)):
        file = directory / f"entries.{suffix}"
        file.write_text("\n".join(lines) + "\n")
        files.append(file)
    return Entries(*files)


def segment_devices(host: Host) -> tuple[str, str]:
    """The bridge and the tunnel of the only segment."""
    names = sorted(name for name in host.devices() if name.startswith(("acb", "acv")))
    if len(names) != 2:
        raise BenchError(f"{host!r} has {len(names)} devices of segments, expected 2")
    return names[0], names[1]


def count_entries(host: Host) -> int:
    """How many forwarding entries with a destination or by the tunnel's port, and how many elements the kernel has."""
    _, tunnel = segment_devices(host)
    forwarding = host.run("bridge", "fdb", "show", "dev", tunnel, timeout=TOOL_TIMEOUT).splitlines()
    return len(forwarding) + sum(_elements(host, *one)[1] for one in NEIGHBOR_SETS)


def _elements(host: Host, what: str, family: str, name: str) -> tuple[str, int]:
    """All elements of a set on one line, and how many."""
    listed = host.run("nft", "list", what, family, "aca", name, timeout=TOOL_TIMEOUT)
    inside = ELEMENTS.search(listed)
    return (" ".join(inside[1].split()), inside[1].count(",") + 1) if inside is not None else ("", 0)


@dataclass(frozen=True, slots=True)
class ToolTimes:
    """Seconds."""

    bridge: float
    nft: float
    ip: float


def load_entries(host: Host, entries: Entries) -> ToolTimes:
    """What the tools need on a host that has the segment, the port and no neighbours."""
    bridge = _timed(host, "bridge", "-batch", str(entries.forwarding))
    nft = _timed(host, "nft", "-f", str(entries.elements))
    ip = _timed(host, "ip", "-batch", str(entries.resolved))
    return ToolTimes(bridge, nft, ip)


def _timed(host: Host, *command: str) -> float:
    started = time.perf_counter()
    host.run(*command, timeout=TOOL_TIMEOUT)
    return time.perf_counter() - started
