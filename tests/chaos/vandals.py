"""Somebody who deletes and alters half of what an agent has made on a host, and has things of their own there."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from tests.lab import Host

T = TypeVar("T")

COOKIE = re.compile(r"cookie=0x[0-9a-f]+, ")
FOREIGN_FLOWS = (
    "cookie=0x777,table=240,priority=7,ip,nw_dst=192.0.2.7,actions=drop",
    "cookie=0x777,table=60,priority=1,dl_type=0x88b5,actions=drop",
)
FOREIGN_TABLE = """
table ip foreign {
    set s { type ipv4_addr; elements = { 192.0.2.7 }; }
    chain c { ip saddr @s drop; }
}
"""
NOWHERE = "172.16.0.99"
ZERO = "00:00:00:00:00:00"


class Vandal(Protocol):
    def settle_in(self, host: Host) -> None:
        """Make things of its own."""
        ...

    def leave(self, host: Host) -> None:
        """Take them away."""
        ...

    def delete_half(self, host: Host, seed: int) -> int:
        """Of the agent's. Returns how many objects that were."""
        ...

    def alter_half(self, host: Host, seed: int) -> int: ...


def half(things: Sequence[T], seed: int) -> list[T]:
    """Any half of them, one at least."""
    return random.Random(seed).sample(things, (len(things) + 1) // 2)


class OvsVandal:
    def settle_in(self, host: Host) -> None:
        host.ofctl("add-flows", host.bridge, "-", stdin="\n".join(FOREIGN_FLOWS))

    def leave(self, host: Host) -> None:
        host.ofctl("del-flows", host.bridge, "cookie=0x777/-1")

    def delete_half(self, host: Host, seed: int) -> int:
        chosen = half(self._matches(host), seed)
        host.ofctl("add-flows", host.bridge, "-", stdin="\n".join(f"delete_strict {match}" for match in chosen))
        return len(chosen)

    def alter_half(self, host: Host, seed: int) -> int:
        chosen = half(self._matches(host), seed)
        lines = [f"modify_strict {match} actions=set_field:0x77->reg15" for match in chosen]
        host.ofctl("add-flows", host.bridge, "-", stdin="\n".join(lines))
        return len(chosen)

    def _matches(self, host: Host) -> list[str]:
        flows = [flow for flow in host.flows(cookies=True) if "cookie=0x777," not in flow]
        return [COOKIE.sub("", flow).partition(" actions=")[0] for flow in flows]


class NetlinkVandal:
    def settle_in(self, host: Host) -> None:
        host.namespace.run("nft", "-f", "-", stdin=FOREIGN_TABLE)

    def leave(self, host: Host) -> None:
        host.run("nft", "delete", "table", "ip", "foreign")

    def delete_half(self, host: Host, seed: int) -> int:
        elements = self._elements(host, seed)
        rules = half(self._objects(host, "rule"), seed)
        keys = ("family", "table", "chain", "handle")
        commands = [{"delete": {"element": one}} for one in elements]
        commands += [{"delete": {"rule": {key: rule[key] for key in keys}}} for rule in rules]
        self._nft(host, commands)
        entries = half(self._entries(host), seed)
        for entry in entries:
            host.run("bridge", "fdb", "del", *_entry(entry))
        return sum(len(one["elem"]) for one in elements) + len(rules) + len(entries)

    def alter_half(self, host: Host, seed: int) -> int:
        """Elements of maps get each other's values, forwarding entries another host."""
        commands: list[dict[str, Any]] = []
        for one in self._elements(host, seed):
            if all(isinstance(element, list) for element in one["elem"]):
                keys, values = zip(*one["elem"], strict=True)
                altered = [[key, value] for key, value in zip(keys, (*values[1:], values[0]), strict=True)]
                commands += [{"delete": {"element": one}}, {"add": {"element": {**one, "elem": altered}}}]
        self._nft(host, commands)
        # Another destination of an all-zero entry is one more, not another one.
        entries = half([one for one in self._entries(host) if "dst" in one and one["mac"] != ZERO], seed)
        for entry in entries:
            host.run("bridge", "fdb", "replace", *_entry({**entry, "dst": NOWHERE}))
        return len(commands) // 2 + len(entries)

    def _objects(self, host: Host, kind: str) -> list[dict[str, Any]]:
        """Of the agent's tables."""
        listed = json.loads(host.run("nft", "-j", "list", "ruleset"))["nftables"]
        return [one[kind] for one in listed if kind in one and one[kind]["table"] == "aca"]

    def _elements(self, host: Host, seed: int) -> list[dict[str, Any]]:
        """Half of the elements of each set and map, as nft takes them."""
        return [
            {"family": one["family"], "table": "aca", "name": one["name"], "elem": half(one["elem"], seed)}
            for one in (*self._objects(host, "set"), *self._objects(host, "map"))
            if one.get("elem")
        ]

    def _entries(self, host: Host) -> list[dict[str, Any]]:
        """Forwarding entries that the agent has made: those of tunnels, and those of guests' devices."""
        entries: list[dict[str, Any]] = json.loads(host.run("bridge", "-j", "fdb") or "[]")
        return [
            one
            for one in entries
            if "dst" in one or (one.get("master") and one.get("state") == "static" and one["ifname"].startswith("tap"))
        ]

    def _nft(self, host: Host, commands: Sequence[dict[str, Any]]) -> None:
        host.namespace.run("nft", "-j", "-f", "-", stdin=json.dumps({"nftables": list(commands)}))


def _entry(one: dict[str, Any]) -> list[str]:
    """The arguments of `bridge fdb` for an entry of its list."""
    if "dst" in one:
        return [one["mac"], "dev", one["ifname"], "dst", one["dst"], "self"]
    return [one["mac"], "dev", one["ifname"], "master"]


VANDALS: dict[str, Vandal] = {"ovs": OvsVandal(), "netlink": NetlinkVandal()}
