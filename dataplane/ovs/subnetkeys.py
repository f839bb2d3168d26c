"""Which subnet a key in a packet's metadata means."""

from __future__ import annotations

from collections.abc import Iterable

from dataplane.model import Key, SubnetWanted
from dataplane.ovs.pipeline.layout import subnet_key


class SubnetKeys:
    """Subnets that are programmed, by themselves or by a router. The caller's lock guards changes; `find` may be called
    by any thread."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, str]] = {}
        self._users: dict[int, set[Key]] = {}
        self._keys: dict[Key, frozenset[int]] = {}

    def enter(self, who: Key, subnets: Iterable[SubnetWanted]) -> None:
        """The resource `who` needs these subnets, and no others."""
        wanted = {subnet_key(subnet.id): (subnet.subnet.vpc_id, subnet.id) for subnet in subnets}
        for key in self._keys.pop(who, frozenset()) - wanted.keys():
            self._users[key].discard(who)
            if not self._users[key]:
                del self._users[key], self._known[key]
        for key, subnet in wanted.items():
            self._users.setdefault(key, set()).add(who)
            self._known[key] = subnet
        if wanted:
            self._keys[who] = frozenset(wanted)

    def find(self, key: int) -> tuple[str, str] | None:
        """VPC and id of the subnet."""
        return self._known.get(key)
