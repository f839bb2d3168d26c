"""How the filter gets to see the frames of a device: chains that devices share, and chains of their own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from dataplane.kernel.wire import KernelError, Request
from dataplane.netlink import nft
from dataplane.netlink.filter import CHAIN_PRIORITY, CHECKED, OF_PORTS, SHARED_PRIORITY, number, shared_requests
from dataplane.netlink.items import Tap
from dataplane.netlink.names import OWN_CHAIN, TABLE, port_chain, shared_chain
from dataplane.netlink.standing import ChainKey, ElementKey
from dataplane.netlink.traces import without_chain

_log = logging.getLogger(__name__)


class Hooks:
    """Not thread safe. `transact` carries out nftables requests, all or none; it raises KernelError, OSError."""

    def __init__(self, transact: Callable[[Sequence[Request]], None]) -> None:
        self._transact = transact
        self.shared = True
        """Whether ports share chains."""
        self._hooked: dict[str, int] = {}
        """Devices in shared chains by name: their index."""
        self._own: set[int] = set()
        """Indexes of devices that have a chain of their own, or may have one."""
        self._inherited: dict[bytes, list[ElementKey]] = {}
        """What ports might say when an earlier agent ended, by device."""

    def prepare(self) -> None:
        """The chains to share. Where the kernel has none (before Linux 6.4), every port gets one of its own.

        Raises OSError.
        """
        try:
            self._transact(shared_requests())
        except KernelError as refusal:
            _log.info("every port has a chain of its own: %s", refusal)
            self.shared = False

    def hook(self, index: int, tap: Tap) -> list[Request]:
        """What makes the filter see the frames of a port's device."""
        # A chain stays with the name that its device had when it was made.
        requests = without_chain(index) if index in self._own else []
        if tap.rules or not self.shared:
            requests += own_chain(index, tap.name, tap.rules or (CHECKED,))
            self._own.add(index)
        if self.shared:
            self._hooked[tap.name] = index
            requests.append(nft.add_device(TABLE, shared_chain(index), SHARED_PRIORITY, tap.name))
        return requests

    def inherit(self, elements: Iterable[ElementKey], chains: Iterable[ChainKey]) -> None:
        """What stands that this agent has not made."""
        numbers = (name.removeprefix(OWN_CHAIN) for _, name in chains if name.startswith(OWN_CHAIN))
        self._own.update(int(number) for number in numbers if number.isdigit())
        self._inherited.clear()
        for name, key in elements:
            if name in OF_PORTS:
                self._inherited.setdefault(key[:4], []).append((name, key))

    @property
    def inherits(self) -> bool:
        """Whether any device is left for `take_inherited`."""
        return bool(self._inherited)

    def take_inherited(self, index: int) -> list[ElementKey]:
        """Those of a device, the first time it is asked: whatever the port is not to say any more must go with the
        first that this agent makes of it."""
        return self._inherited.pop(number(index), [])

    def take_own(self, index: int) -> list[Request]:
        """What removes the device's own chain."""
        if index not in self._own:
            return []
        self._own.discard(index)
        return without_chain(index)

    def unhook(self, index: int, name: str) -> None:
        """Take the device out of its shared chain, at once. Raises OSError.

        Chains know devices by name, and some kernels keep the name when the device is gone: another may have it now.
        """
        if not self.shared:
            return
        chain, now = shared_chain(index), self._hooked.get(name)
        if now == index:
            del self._hooked[name]
        elif now is not None and shared_chain(now) == chain:
            return
        try:
            self._transact([nft.delete_device(TABLE, chain, SHARED_PRIORITY, name)])
        except KernelError as refusal:
            _log.debug("gone already: %s", refusal)


def own_chain(index: int, device: str, rules: Iterable[bytes]) -> list[Request]:
    chain = port_chain(index)
    requests = [
        nft.add_base_chain(nft.NETDEV, TABLE, chain, 0, CHAIN_PRIORITY, nft.DROP, device),
        nft.flush_chain(nft.NETDEV, TABLE, chain),
    ]
    return requests + [nft.add_rule(nft.NETDEV, TABLE, chain, rule) for rule in rules]
