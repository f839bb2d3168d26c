"""Which layout of the filter stands, and how it gives way to this agent's. Pure.

A layout is what the fixed chains, sets and marks are, and what they mean. Its number is the name of a chain without
rules in both tables, `layout-N`, which comes and goes in one transaction with the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dataplane.kernel.wire import Request
from dataplane.netlink import nft
from dataplane.netlink.filter import SETS, number, static_chains
from dataplane.netlink.names import LAYOUT, TABLE, is_shared_chain, layout_chain
from dataplane.netlink.nft import BRIDGE, NETDEV, SetShape, shape_of
from dataplane.netlink.standing import ChainKey

_UNMARKED = 0
"""The layout of tables that name none."""
COMPATIBLE = frozenset({_UNMARKED})
"""Older layouts in which elements and ports' own chains mean what they mean in this one."""
_PREFIX = layout_chain("")
_OF_PORT = "port-"


class LayoutError(Exception):
    """What stands is not to be touched; the message says why."""


@dataclass(frozen=True, slots=True)
class Stands:
    """Our tables as they stand: chains, sets, and the devices in our bridges, ports and tunnels, by index."""

    chains: frozenset[ChainKey] = frozenset()
    sets: Mapping[tuple[int, str], SetShape] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    tunnels: tuple[int, ...] = ()

    @property
    def layouts(self) -> frozenset[int]:
        """Raises ValueError."""
        marks = {name for _, name in self.chains if name.startswith(_PREFIX)}
        unmarked = {family for family, _ in self.chains} - {family for family, name in self.chains if name in marks}
        return frozenset(int(name.removeprefix(_PREFIX)) for name in marks) | ({_UNMARKED} if unmarked else set())


def give_way(stands: Stands) -> list[Request]:
    """What is to be done in one transaction with `static_requests()`, before those. Nothing if the layout is this
    agent's. Raises LayoutError if a newer agent has been here."""
    try:
        layouts = stands.layouts
    except ValueError:
        raise LayoutError(_refusal("another layout")) from None
    if max(layouts, default=0) > LAYOUT:
        raise LayoutError(_refusal(f"a newer layout {max(layouts)}"))
    older = layouts - {LAYOUT}
    if not older:
        return []
    return _keep_elements(stands) if older <= COMPATIBLE else _begin_anew(stands)


def _refusal(what: str) -> str:
    return (
        f"{what} stands in the nftables tables {TABLE}, this agent understands {LAYOUT}: nothing is touched, traffic "
        "goes on as it is; run a newer agent, or delete the tables"
    )


def _keep_elements(stands: Stands) -> list[Request]:
    """Chains that there are no more go, and sets that are other ones now; elements of the rest, and what is of ports,
    stay."""
    fixed = [chain for chain in sorted(stands.chains) if not chain[1].startswith((_OF_PORT, "ports-"))]
    gone = [chain for chain in fixed if chain not in static_chains()]
    kept = {(spec.family, spec.name): shape_of(spec) for spec in SETS.values()}
    other = [name for name, shape in stands.sets.items() if kept.get(name) != shape]
    return [
        *(nft.flush_chain(family, TABLE, name) for family, name in fixed),
        *(nft.delete_chain(family, TABLE, name) for family, name in gone),
        *(nft.delete_set(family, TABLE, name) for family, name in other),
    ]


def _begin_anew(stands: Stands) -> list[Request]:
    """Nothing that stands means anything to this agent. Until it is all said again no frame passes: ports and tunnels
    are known as such from the first moment."""
    families = {family for family, _ in stands.chains} | {family for family, _ in stands.sets}
    requests = [nft.delete_table(family, TABLE) for family in sorted(families)]
    requests += [nft.add_table(BRIDGE, TABLE), nft.add_table(NETDEV, TABLE)]
    for position, (name, indexes) in enumerate((("ports", stands.ports), ("tunnels", stands.tunnels)), len(SETS) + 1):
        requests.append(nft.add_set(TABLE, SETS[name], position))
        requests += nft.add_elements(TABLE, SETS[name], [(number(index), b"") for index in indexes])
    return requests


def chains_of(names: Iterable[ChainKey]) -> frozenset[ChainKey]:
    """Without the devices that a reader lists among the chains that ports share (see `names.hook_name`)."""
    return frozenset((family, name) for family, name in names if not (is_shared_chain(name) and " " in name))
