"""What this agent has installed, and the transactions that bring it up to date.

Every owner (a port, a subnet's flood list...) is rendered as a whole by a pure function; what is sent is the difference
to what was sent before. Deletions name match *and* cookie, so a flow that another owner has taken over in the meantime
survives: the order of two owners' changes does not matter. A flow that two owners want with the same match (two ports
with one MAC, say) is the one's that came last; when it goes, the other's is put back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dataplane.model import Key, Kind
from dataplane.ovs.openflow import messages
from dataplane.ovs.pipeline.layout import MARK_MASK, Feature, Flow, cookie

Owner = tuple[Feature, str]
FlowId = tuple[int, int, bytes]
Blame = tuple[Key, Owner] | str
"""The resource that is told if a flow is refused, and the flow's owner; for a neighbour just its id."""

_MANY = 1500
"""An owner with more flows does not fit one bundle: it is not swept in passing."""


@dataclass(slots=True)
class Transaction:
    """Flow-mod bodies in order, and for each whom to blame."""

    bodies: list[bytes] = field(default_factory=list)
    blamed: list[Blame] = field(default_factory=list)
    deleted: set[int] = field(default_factory=set)
    """Cookies of flows that it deletes. Not handed over by `take`."""

    def delete_strict(self, mark: int, identity: FlowId, blame: Blame) -> None:
        """Delete this flow if it carries this cookie."""
        self.bodies.append(messages.flow_delete_strict(mark, *identity))
        self.blamed.append(blame)
        self.deleted.add(mark)

    def delete_owner(self, mark: int, former_marks: Sequence[int], blame: Blame) -> None:
        """Delete all flows with this cookie, and with what older versions had in its place."""
        for value in (mark, *(mark & ~MARK_MASK | former << 56 for former in former_marks)):
            self.bodies.append(messages.flow_delete_by_cookie(value, messages.COOKIE_EXACT))
            self.blamed.append(blame)
            self.deleted.add(value)

    def take(self) -> tuple[list[bytes], list[Blame]]:
        """Hand over what has been collected and start afresh."""
        taken = self.bodies, self.blamed
        self.bodies, self.blamed = [], []
        return taken


def blamed_for(blame: Blame) -> tuple[Key, Owner]:
    if isinstance(blame, str):
        return Key(Kind.NEIGHBOR, blame), (Feature.NEIGHBOR, blame)
    return blame


class FlowBook:
    """Flows by owner. Not thread safe: the caller's lock guards it."""

    def __init__(self) -> None:
        self._installed: dict[Owner, dict[FlowId, bytes]] = {}
        self._holders: dict[FlowId, Owner] = {}
        self._overridden: dict[FlowId, dict[Owner, None]] = {}
        """Owners that want a flow which another holds, in order of arrival."""
        self._doubtful: set[Owner] = set()
        """Owners of which it is not known that their flows stand, or are gone: sent in full next time."""
        self._by_cookie: dict[int, Owner] = {}
        self.former_marks: Sequence[int] = ()
        """First bytes of the cookies of older versions whose flows stand on the bridge."""
        self.inherited = False
        """Flows of an earlier agent stand on the bridge: what is removed and not known here may be among them."""
        self._met: set[Owner] = set()
        """Owners whose flows have been set since; only kept while `inherited`."""

    def doubt_all(self) -> None:
        """The switch may have forgotten everything."""
        self._doubtful.update(self._installed)

    def doubt(self, owner: Owner) -> None:
        self._doubtful.add(owner)

    def delete(self, transaction: Transaction, owner: Owner, blame: Key) -> None:
        """Take away all flows of an owner, those of an earlier agent as well."""
        if self.inherited and owner not in self._installed:
            self._delete_all(transaction, owner, blame)
        else:
            self.set(transaction, owner, blame, ())
        self._met.discard(owner)

    def set(
        self, transaction: Transaction, owner: Owner, blame: Key, flows: Sequence[Flow], *, whole: bool = False
    ) -> None:
        """Make `flows` the owner's flows: what is new or different is added, what is gone is deleted.

        `whole`: they are all that the owner can have as things are, so other flows of it that an earlier agent may have
        left go too.
        """
        before = self._installed.get(owner, {})
        in_doubt = owner in self._doubtful
        if (in_doubt or (whole and self.inherited and owner not in self._met)) and len(flows) < _MANY:
            # In one bundle with the flows that follow, so nobody notices.
            self._delete_all(transaction, owner, blame)
            known: dict[FlowId, bytes] = {}
        else:
            known = {} if in_doubt else before
        if self.inherited:
            self._met.add(owner)
        # Of two alike the last counts, as on the switch.
        after: dict[FlowId, bytes] = {flow[:3]: flow.instructions for flow in flows}
        mark = cookie(*owner)
        blamed = (blame, owner)
        for identity, instructions in after.items():
            if identity not in before:
                self._take(identity, owner)
            if known.get(identity) != instructions and self._holders[identity] == owner:
                transaction.bodies.append(messages.flow_add(mark, *identity, instructions))
                transaction.blamed.append(blamed)
        for identity in before.keys() - after.keys():
            if self._holders[identity] != owner:
                self._withdraw(identity, owner)
                continue
            heir = self._hand_back(identity)
            if heir is None:
                transaction.delete_strict(mark, identity, blamed)
            else:
                instructions = self._installed[heir][identity]
                transaction.bodies.append(messages.flow_add(cookie(*heir), *identity, instructions))
                transaction.blamed.append((blame, heir))
        self._doubtful.discard(owner)
        if after:
            self._installed[owner] = after
            self._by_cookie[mark] = owner
        else:
            self._installed.pop(owner, None)
            self._by_cookie.pop(mark, None)

    def _delete_all(self, transaction: Transaction, owner: Owner, blame: Key) -> None:
        self._doubtful.discard(owner)
        transaction.delete_owner(cookie(*owner), self.former_marks, (blame, owner))

    def _take(self, identity: FlowId, owner: Owner) -> None:
        holder = self._holders.get(identity)
        if holder is not None:
            self._overridden.setdefault(identity, {})[holder] = None
        self._holders[identity] = owner

    def _hand_back(self, identity: FlowId) -> Owner | None:
        """The holder gives the flow up. Returns who holds it now: of those that want it the last to come."""
        waiting = self._overridden.get(identity)
        if waiting is None:
            del self._holders[identity]
            return None
        heir = next(reversed(waiting))
        self._holders[identity] = heir
        self._withdraw(identity, heir)
        return heir

    def _withdraw(self, identity: FlowId, owner: Owner) -> None:
        waiting = self._overridden[identity]
        del waiting[owner]
        if not waiting:
            del self._overridden[identity]

    def doubtful(self, feature: Feature) -> list[str]:
        """Owners of this kind of which it is not known that their flows stand."""
        return [name for kind, name in self._doubtful if kind is feature]

    def flow_count(self) -> int:
        """How many flows stand if all is as it should be."""
        return len(self._holders)

    # -- for comparing with what stands

    def owners(self) -> list[Owner]:
        return list(self._installed)

    def owner_of(self, mark: int) -> Owner | None:
        """The owner with this cookie, if it has flows."""
        return self._by_cookie.get(mark)

    def is_doubtful(self, owner: Owner) -> bool:
        return owner in self._doubtful

    def doubt_installed(self, owner: Owner) -> None:
        """As `doubt`, unless nothing is wanted of it."""
        if owner in self._installed:
            self._doubtful.add(owner)

    def doubtful_owners(self) -> list[Owner]:
        return list(self._doubtful)

    def expected(self, owner: Owner) -> dict[FlowId, bytes]:
        """What the switch should have with the owner's cookie: its flows but for those that another holds."""
        flows = self._installed.get(owner, {})
        if not self._overridden:
            return flows
        return {identity: flow for identity, flow in flows.items() if self._holders[identity] == owner}
