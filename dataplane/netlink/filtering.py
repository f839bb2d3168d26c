"""Changes of the filter: in one transaction if they can be, and if not each object's for itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dataplane.kernel.channel import NETFILTER, Channel
from dataplane.kernel.wire import KernelError, Request
from dataplane.netlink import nft
from dataplane.netlink.filter import SETS
from dataplane.netlink.items import Item
from dataplane.netlink.names import TABLE
from dataplane.netlink.standing import ElementKey, Reader, elements_of

_TRANSACTION_BYTES = 256 << 10
"""The kernel may do nothing else on this processor while it is at a transaction."""

Elements = list[tuple[bytes, bytes]]
"""(key, data)"""


class Group(NamedTuple):
    """Requests that stand or fall together, and the objects they are about. If these are elements of one set: which
    are to go and which to come."""

    items: list[Item]
    requests: list[Request]
    set_name: str = ""
    gone: Sequence[tuple[bytes, bytes]] = ()
    new: Sequence[tuple[bytes, bytes]] = ()


def elements_group(
    items: list[Item], name: str, gone: Sequence[tuple[bytes, bytes]], new: Sequence[tuple[bytes, bytes]]
) -> Group:
    spec = SETS[name]
    requests = [*nft.delete_elements(TABLE, spec, gone), *nft.add_elements(TABLE, spec, new)]
    return Group(items, requests, name, gone, new)


class FilterWork:
    """A socket for transactions. One thread at a time."""

    def __init__(self, reader: Reader) -> None:
        """In the host's network namespace. Raises OSError."""
        self._channel = Channel(NETFILTER)
        self._reader = reader

    def close(self) -> None:
        self._channel.close()

    @property
    def number(self) -> int:
        """See Channel.number."""
        return self._channel.number

    def do(self, groups: Sequence[Group]) -> dict[Item, str]:
        """Returns what was refused and why. One refused group does not keep the others. Raises OSError."""
        refused: dict[Item, str] = {}
        if not groups:
            return refused
        try:
            self.transact_in_parts([request for group in groups for request in group.requests])
        except KernelError:
            for group in groups:
                try:
                    self.transact_in_parts(self._as_it_stands(group))
                except KernelError as problem:
                    refused.update((item, str(problem)) for item in group.items)
        return refused

    def _as_it_stands(self, group: Group) -> list[Request]:
        """What came in between (somebody else took elements out, or put some in) is to be no obstacle."""
        if not group.set_name:
            return group.requests
        keys: list[ElementKey] = list(dict.fromkeys((group.set_name, key) for key, _ in [*group.gone, *group.new]))
        stands = self._reader.look_up_elements(keys)
        gone = [(key, data) for found in stands if found is not None for (_, key), data in elements_of(found)]
        return elements_group(group.items, group.set_name, gone, group.new).requests

    def transact_in_parts(self, requests: Sequence[Request]) -> None:
        """One transaction, but for what is too large for one message to the kernel. Raises KernelError, OSError."""
        part: list[Request] = []
        size = 0
        for request in requests:
            size += len(request.body)
            if size > _TRANSACTION_BYTES and part:
                self.transact(part)
                part, size = [], len(request.body)
            part.append(request)
        self.transact(part)

    def transact(self, requests: Sequence[Request]) -> None:
        """All or nothing. Raises KernelError about the first that is refused, OSError."""
        if requests:
            self._channel.transact(requests, nft.BEGIN, nft.END)
