"""What is installed of remote neighbours: the hot path, a million of them at 2 flows each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dataplane.model import Key, Kind, NeighborWanted, SubnetRef, Wanted
from dataplane.ovs.book import Transaction
from dataplane.ovs.members import Members
from dataplane.ovs.openflow import messages
from dataplane.ovs.pipeline.layout import Feature, cookie_bytes
from dataplane.ovs.pipeline.neighbor import BodyMaker, body_maker, neighbor_flows


class NeighborBook:
    """Neighbours by id; the flows themselves are not kept, they follow from the values.

    Not thread safe: the caller's lock guards it.
    """

    def __init__(self, members: Members, round_number: int) -> None:
        self._members = members
        self._round = round_number
        self._known: dict[str, NeighborWanted] = {}
        self._doubtful: dict[str, NeighborWanted] = {}
        """Neighbours whose flows the switch may have forgotten."""
        self._makers: dict[SubnetRef, BodyMaker] = {}
        self.inherited = False
        """See FlowBook.inherited."""

    def __len__(self) -> int:
        return len(self._known)

    def flow_count(self) -> int:
        return sum(len(known.addresses) + len(known.mac_subnets) for known in self._known.values())

    def doubt_all(self) -> None:
        self._doubtful.update(self._known)
        self._known.clear()
        self._makers.clear()

    def doubt(self, neighbor_id: str) -> None:
        known = self._known.pop(neighbor_id, None)
        if known is not None:
            self._doubtful[neighbor_id] = known

    def upsert(self, upserts: Iterable[Wanted], transaction: Transaction) -> None:
        bodies, blamed = transaction.bodies, transaction.blamed
        known, doubtful, makers = self._known, self._doubtful, self._makers
        add_member = self._members.add_neighbor
        for wanted in upserts:
            assert isinstance(wanted, NeighborWanted)
            neighbor_id = wanted.id
            before = known.get(neighbor_id)
            if before is None and len(wanted.addresses) == 1 and not (doubtful and neighbor_id in doubtful):
                ref, address = wanted.addresses[0]
                if len(address) == 4 and len(wanted.host) == 4 and wanted.mac_subnets == (ref,):
                    make = makers.get(ref)
                    if make is None:
                        make = makers[ref] = body_maker(ref)
                    mark = cookie_bytes(self._round, Feature.NEIGHBOR, neighbor_id)
                    bodies += make(mark, address, wanted.mac, wanted.host)
                    blame = (Key(Kind.NEIGHBOR, neighbor_id), (Feature.NEIGHBOR, neighbor_id))
                    blamed += (blame, blame)
                    known[neighbor_id] = wanted
                    add_member(wanted)
                    continue
            if before is None:
                self._replace(doubtful.pop(neighbor_id, None), wanted, transaction, known_to_stand=False)
            elif before != wanted:
                self._replace(before, wanted, transaction, known_to_stand=True)
            known[neighbor_id] = wanted

    def remove(self, neighbor_ids: Sequence[str], transaction: Transaction) -> None:
        for neighbor_id in neighbor_ids:
            before = self._known.pop(neighbor_id, None) or self._doubtful.pop(neighbor_id, None)
            if before is not None:
                self._replace(before, None, transaction, known_to_stand=True)
            elif self.inherited:
                owner = (Feature.NEIGHBOR, neighbor_id)
                mark = int.from_bytes(cookie_bytes(self._round, *owner), "big")
                transaction.bodies.append(messages.flow_delete_by_cookie(mark, messages.COOKIE_EXACT))
                transaction.blamed.append((Key(Kind.NEIGHBOR, neighbor_id), owner))

    def _replace(
        self,
        before: NeighborWanted | None,
        wanted: NeighborWanted | None,
        transaction: Transaction,
        *,
        known_to_stand: bool,
    ) -> None:
        """Send the difference between two forms of a neighbour, in full if the old flows may be gone."""
        some = wanted or before
        assert some is not None
        owner = (Feature.NEIGHBOR, some.id)
        mark = int.from_bytes(cookie_bytes(self._round, *owner), "big")
        blame = (Key(Kind.NEIGHBOR, some.id), owner)
        old = {flow[:3]: flow.instructions for flow in neighbor_flows(before)} if before is not None else {}
        new = {flow[:3]: flow.instructions for flow in neighbor_flows(wanted)} if wanted is not None else {}
        for identity, instructions in new.items():
            if not known_to_stand or old.get(identity) != instructions:
                transaction.bodies.append(messages.flow_add(mark, *identity, instructions))
                transaction.blamed.append(blame)
        for identity in old.keys() - new.keys():
            transaction.bodies.append(messages.flow_delete_strict(mark, *identity))
            transaction.blamed.append(blame)
        # The new membership first: a host that stays in must not be taken off the flood list in between.
        if wanted is not None:
            self._members.add_neighbor(wanted)
        if before is not None:
            self._members.drop_neighbor(before)
