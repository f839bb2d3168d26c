"""What is installed of remote neighbours: the hot path, a million of them at 2 flows each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from dataplane.model import NeighborWanted, SubnetRef, Wanted
from dataplane.ovs.book import FlowId, Transaction
from dataplane.ovs.members import Members
from dataplane.ovs.openflow import messages
from dataplane.ovs.pipeline.layout import COOKIE_MARK, OWNER_HASH_BYTES, Feature, Table, cookie
from dataplane.ovs.pipeline.neighbor import PRIORITY, BodyMaker, FlowMaker, body_maker, flow_maker, neighbor_flows


class NeighborBook:
    """Neighbours by id; the flows themselves are not kept, they follow from the values.

    Not thread safe: the caller's lock guards it.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._known: dict[str, NeighborWanted] = {}
        self._doubtful: dict[str, NeighborWanted | None] = {}
        """Neighbours whose flows the switch may have forgotten, or (None) may still have."""
        self._makers: dict[SubnetRef, BodyMaker] = {}
        self._replaced: dict[str, list[NeighborWanted]] = {}
        """Former values whose flows are not known to be gone yet."""
        self.inherited = False
        """See FlowBook.inherited."""
        self.former_marks: Sequence[int] = ()
        """See FlowBook.former_marks."""
        self._flows = 0

    def __len__(self) -> int:
        return len(self._known)

    def flow_count(self) -> int:
        """How many flows stand of those that are known to stand."""
        return self._flows

    def doubt_all(self) -> None:
        self._doubtful.update(self._known)
        self._known.clear()
        self._makers.clear()
        self._flows = 0

    def doubt(self, neighbor_id: str) -> None:
        value = self._known.pop(neighbor_id, None)
        if value is not None:
            self._flows -= _flow_count(value)
        if value is not None or neighbor_id not in self._doubtful:
            self._doubtful[neighbor_id] = value

    # -- for comparing with what stands

    def doubt_known(self, neighbor_id: str) -> None:
        """As `doubt`, unless it is not wanted."""
        if neighbor_id in self._known:
            self.doubt(neighbor_id)

    def ids(self) -> list[str]:
        return list(self._known)

    def doubtful_ids(self) -> list[str]:
        return list(self._doubtful)

    def expected(self, owners: Iterable[tuple[int, str]]) -> dict[FlowId, tuple[int, bytes]]:
        """The flows of those of these (cookie, id) that are known to stand: (cookie, instructions) by identity."""
        found: dict[FlowId, tuple[int, bytes]] = {}
        makers: dict[SubnetRef, FlowMaker] = {}
        look_up = self._known.get
        resolve, bridge = int(Table.RESOLVE), int(Table.BRIDGE)
        last: SubnetRef | None = None
        for mark, neighbor_id in owners:
            known = look_up(neighbor_id)
            if known is None:
                continue
            neighbor, refs, lost = known
            _, _, _, mac, host, fixed_ips, _, _ = neighbor
            if len(fixed_ips) != 1 or lost or len(refs) != 1 or len(fixed_ips[0].address) != 4 or len(host) != 4:
                found.update((flow[:3], (mark, flow.instructions)) for flow in neighbor_flows(known))
                continue
            ref = refs[0]
            if ref is not last:
                last = ref
                make = makers.get(ref) or makers.setdefault(ref, flow_maker(ref))
            by_address, to_address, by_mac, to_mac = make(fixed_ips[0].address, mac, host)
            found[resolve, PRIORITY, by_address] = (mark, to_address)
            found[bridge, PRIORITY, by_mac] = (mark, to_mac)
        return found

    def confirm(self, blamed: Iterable[object]) -> None:
        """What was sent for these stands: what it replaced is gone."""
        if self._replaced:
            for neighbor_id in set(blamed) & self._replaced.keys():
                del self._replaced[str(neighbor_id)]

    def upsert(self, upserts: Iterable[Wanted], transaction: Transaction) -> None:
        """Nearly all are new, have one IPv4 address and hold it and their MAC: those are encoded here in one go."""
        by_address: list[bytes] = []
        by_mac: list[bytes] = []
        ids: list[str] = []
        hosts: dict[SubnetRef, dict[bytes, int]] = {}
        known, doubtful, makers, start = self._known, self._doubtful, self._makers, self._cookie_start()
        last: SubnetRef | None = None
        for wanted in upserts:
            assert isinstance(wanted, NeighborWanted)
            neighbor, refs, lost = wanted
            neighbor_id, _, _, mac, host, fixed_ips, _, pairs = neighbor
            if (
                neighbor_id in known
                or len(fixed_ips) != 1
                or lost
                or pairs
                or len(fixed_ips[0].address) != 4
                or len(host) != 4
            ):
                self._upsert_one(wanted, transaction)
                continue
            again = False
            if neighbor_id in doubtful:
                # After a restart of the switch nearly all are as they were.
                if doubtful[neighbor_id] != wanted or neighbor_id in self._replaced:
                    self._upsert_one(wanted, transaction)
                    continue
                del doubtful[neighbor_id]
                again = True
            (ref,) = refs
            if ref is not last:
                last = ref
                counts = hosts.setdefault(ref, {})
                make = makers.get(ref) or makers.setdefault(ref, body_maker(ref))
            mark = start + blake2b(neighbor_id.encode(), digest_size=OWNER_HASH_BYTES).digest()
            address_body, mac_body = make(mark, fixed_ips[0].address, mac, host)
            by_address.append(address_body)
            by_mac.append(mac_body)
            ids.append(neighbor_id)
            if not again:
                counts[host] = counts.get(host, 0) + 1
            known[neighbor_id] = wanted
        # Bodies of one length behind one another are wrapped fastest.
        transaction.bodies += by_address
        transaction.bodies += by_mac
        transaction.blamed += ids
        transaction.blamed += ids
        self._flows += 2 * len(ids)
        for ref, counts in hosts.items():
            self._members.add_remote(ref, counts)

    def _upsert_one(self, wanted: NeighborWanted, transaction: Transaction) -> None:
        before = self._known.get(wanted.id)
        if before is None:
            self._replace(wanted.id, self._doubtful.pop(wanted.id, None), wanted, transaction, known_to_stand=False)
        elif before != wanted:
            self._replace(wanted.id, before, wanted, transaction, known_to_stand=True)
        if before is not None:
            self._flows -= _flow_count(before)
        self._flows += _flow_count(wanted)
        self._known[wanted.id] = wanted

    def withhold(self, neighbor_ids: Sequence[str], transaction: Transaction) -> None:
        """Take away what this agent has programmed."""
        ours = [name for name in neighbor_ids if name in self._known or name in self._doubtful]
        self.remove(ours, transaction)

    def remove(self, neighbor_ids: Sequence[str], transaction: Transaction) -> None:
        """Take away whatever is there, an earlier agent's flows as well."""
        for neighbor_id in neighbor_ids:
            in_doubt = neighbor_id in self._doubtful
            before = self._known.pop(neighbor_id, None)
            if before is not None:
                self._flows -= _flow_count(before)
            else:
                before = self._doubtful.pop(neighbor_id, None)
            if before is not None:
                self._replace(neighbor_id, before, None, transaction, known_to_stand=True)
            elif in_doubt or self.inherited:
                transaction.delete_owner(cookie(Feature.NEIGHBOR, neighbor_id), self.former_marks, neighbor_id)

    def _replace(
        self,
        neighbor_id: str,
        before: NeighborWanted | None,
        wanted: NeighborWanted | None,
        transaction: Transaction,
        *,
        known_to_stand: bool,
    ) -> None:
        """Send the difference between two forms of a neighbour, in full if the old flows may be gone."""
        mark = cookie(Feature.NEIGHBOR, neighbor_id)
        old = {flow[:3]: flow.instructions for flow in neighbor_flows(before)} if before is not None else {}
        for former in self._replaced.get(neighbor_id, ()):
            old = {flow[:3]: b"" for flow in neighbor_flows(former)} | old
        new = {flow[:3]: flow.instructions for flow in neighbor_flows(wanted)} if wanted is not None else {}
        for identity, instructions in new.items():
            if not known_to_stand or old.get(identity) != instructions:
                transaction.bodies.append(messages.flow_add(mark, *identity, instructions))
                transaction.blamed.append(neighbor_id)
        for identity in old.keys() - new.keys():
            transaction.delete_strict(mark, identity, neighbor_id)
        if before is not None and old.keys() - new.keys():
            self._replaced.setdefault(neighbor_id, []).append(before)
        # The new membership first: a host that stays in must not be taken off the flood list in between.
        if wanted is not None:
            self._members.add_neighbor(wanted)
        if before is not None:
            self._members.drop_neighbor(before)

    def _cookie_start(self) -> bytes:
        return bytes((COOKIE_MARK, Feature.NEIGHBOR))


def _is_simple(wanted: NeighborWanted) -> bool:
    """Two flows: one IPv4 address and the MAC, both held."""
    neighbor = wanted.neighbor
    return (
        len(neighbor.fixed_ips) == 1
        and not wanted.lost
        and len(wanted.subnets) == 1
        and len(neighbor.fixed_ips[0].address) == 4
        and len(neighbor.host) == 4
    )


def _flow_count(wanted: NeighborWanted) -> int:
    return 2 if _is_simple(wanted) else len(neighbor_flows(wanted))
