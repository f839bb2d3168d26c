"""What stands in the transit daemon, and the calls that make it what is wanted.

The daemon cannot list what it holds and its GETs are not to be trusted, so that the agent keeps the book. An entry is
the call that puts it there. A change is the difference of two sets of entries, in the order the daemon needs: those
that only write maps before the slow ones, per port the agent program before what it reads and the hosted endpoint
last, deletes in reverse. A hosted endpoint is never put over one that stands (its interface slot would be lost) but
deleted first, and never put again unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from dataplane.mizar import procedures as p
from dataplane.mizar import values as v
from dataplane.mizar.errors import CodeError, ValueRefused
from dataplane.mizar.limits import HOSTED_ENDPOINTS, VNI_BITS
from dataplane.mizar.procedures import Call
from dataplane.mizar.typed import Answer


class EntryKey(NamedTuple):
    """What an entry overwrites: the procedure that puts it, the interface, and the fields that the daemon keys by."""

    procedure: int
    interface: str
    fields: tuple[object, ...]


Entries = Mapping[EntryKey, Call]
_SHARED: Final = ""
"""Stands for the port of what belongs to none: sorts before any interface name."""


def key_of(entry: Call) -> EntryKey:
    """Raises TypeError for a call that puts no entry this book knows."""
    argument = entry.argument
    match argument:
        case v.Vpc():
            fields: tuple[object, ...] = (argument.tunid,)
        case v.Network():
            fields = (argument.tunid, _masked(argument.netip, argument.prefixlen), argument.prefixlen)
        case v.Endpoint():
            fields = (argument.tunid, argument.ip)
        case v.AgentMetadata():
            fields = ()
        case v.XdpIntf() if entry.procedure == p.LOAD_TRANSIT_AGENT_XDP:
            fields = ()
        case _:
            raise TypeError(f"{entry} is not an entry")
    return EntryKey(entry.procedure.number, argument.interface, fields)


def removal(entry: Call) -> Call:
    """The call that takes the entry away. Raises TypeError as `key_of` does."""
    argument = entry.argument
    match argument:
        case v.Vpc():
            return p.DELETE_VPC(v.VpcKey(argument.interface, argument.tunid))
        case v.Network():
            return p.DELETE_NET(v.NetworkKey(argument.interface, argument.prefixlen, argument.tunid, argument.netip))
        case v.Endpoint():
            key = v.EndpointKey(argument.interface, argument.tunid, argument.ip)
            of_agent = entry.procedure == p.UPDATE_AGENT_EP
            return p.DELETE_AGENT_EP(key) if of_agent else p.DELETE_EP(key)
        case v.AgentMetadata():
            return p.DELETE_AGENT_MD(v.Intf(argument.interface))
        case v.XdpIntf() if entry.procedure == p.LOAD_TRANSIT_AGENT_XDP:
            return p.UNLOAD_TRANSIT_AGENT_XDP(v.Intf(argument.interface))
        case _:
            raise TypeError(f"{entry} is not an entry that can be taken away")


def is_hosted(entry: Call) -> bool:
    """Whether the entry takes an interface slot."""
    return (
        entry.procedure == p.UPDATE_EP
        and isinstance(entry.argument, v.Endpoint)
        and bool(entry.argument.hosted_interface)
    )


def entries(calls: Iterable[Call]) -> dict[EntryKey, Call]:
    """By key, checked for what the daemon would take without being able to serve it.

    Raises ValueRefused if two calls put different entries under one key (another one would win by chance), for a
    tunnel id over 24 bits, and for more hosted endpoints than there are interface slots.
    """
    found: dict[EntryKey, Call] = {}
    for call in calls:
        key = key_of(call)
        structure = type(call.argument).__name__
        if found.setdefault(key, call) != call:
            raise ValueRefused(structure, "key", key.fields, f"two entries of one key on {key.interface}")
        tunid = getattr(call.argument, "tunid", 0)
        if tunid >> VNI_BITS:
            raise ValueRefused(structure, "tunid", tunid, f"more than {VNI_BITS} bits: no packet carries it")
    hosted = sum(map(is_hosted, found.values()))
    if hosted > HOSTED_ENDPOINTS:
        raise ValueRefused("Endpoint", "hosted_interface", hosted, f"at most {HOSTED_ENDPOINTS} on one host")
    return found


def changes(standing: Entries, wanted: Entries, doubtful: Mapping[EntryKey, Call]) -> list[Call]:
    """The calls that lead from `standing` to `wanted`, in order; none if they are the same.

    `doubtful` are entries of which it is open whether they stand, by a call that was not confirmed: they are taken
    away or put anew, a hosted one both. First go hosted endpoints not wanted as they are, since their slots may be
    needed; then what is to be put; then what is not wanted any more.
    """
    maybe = {**standing, **doubtful}
    put = [entry for key, entry in wanted.items() if key in doubtful or standing.get(key) != entry]
    replaced = [
        entry for key, entry in maybe.items() if is_hosted(entry) and (key in doubtful or wanted.get(key) != entry)
    ]
    gone = [entry for key, entry in maybe.items() if key not in wanted and not is_hosted(entry)]
    return [
        *map(removal, sorted(replaced, key=_place, reverse=True)),
        *sorted(put, key=_place),
        *map(removal, sorted(gone, key=_place, reverse=True)),
    ]


class Book:
    """What one life of a daemon holds by what it confirmed. Not for several threads."""

    def __init__(self) -> None:
        self._standing: dict[EntryKey, Call] = {}
        self._doubtful: dict[EntryKey, Call] = {}

    @property
    def standing(self) -> Entries:
        return dict(self._standing)

    def changes(self, wanted: Entries) -> list[Call]:
        """What is to be called so that `wanted` stands: pass the answers to `note`."""
        return changes(self._standing, wanted, self._doubtful)

    def note(self, answers: Iterable[Answer]) -> None:
        """Takes up the answers to the calls of `changes`, in their order.

        A load that failed counts as done once the metadata of its interface are taken: the daemon goes on answering
        failure to every load after the first that failed. One that was answered as done is open again if they are not:
        seen once, it had done nothing.
        """
        removed = {removal(entry): key for key, entry in {**self._standing, **self._doubtful}.items()}
        for answer in answers:
            if answer.error is not None and not answer.sent:
                continue
            key = removed.get(answer.call)
            if key is None:
                self._note_put(answer)
            elif _is_gone(answer):
                self._drop(key)
            else:
                self._doubt(key, self._standing.get(key, self._doubtful.get(key)))

    def _note_put(self, answer: Answer) -> None:
        key = key_of(answer.call)
        load = EntryKey(p.LOAD_TRANSIT_AGENT_XDP.number, key.interface, ())
        of_agent = answer.call.procedure == p.UPDATE_AGENT_MD
        if answer.error is not None:
            self._doubt(key, answer.call)
            if of_agent:
                self._doubt(load, self._standing.get(load, self._doubtful.get(load)))
            return
        self._doubtful.pop(key, None)
        self._standing[key] = answer.call
        if of_agent and load in self._doubtful:
            self._standing[load] = self._doubtful.pop(load)

    def _doubt(self, key: EntryKey, entry: Call | None) -> None:
        self._standing.pop(key, None)
        if entry is not None:
            self._doubtful[key] = entry

    def _drop(self, key: EntryKey) -> None:
        """The entry is gone; with an agent program go all that it kept."""
        whole = key.procedure == p.LOAD_TRANSIT_AGENT_XDP.number
        for book in (self._standing, self._doubtful):
            for other in [other for other in book if other == key or (whole and other.interface == key.interface)]:
                del book[other]

    def forget(self) -> None:
        """The daemon is another one: nothing stands, and all that is wanted is to be put."""
        self._standing.clear()
        self._doubtful.clear()


def _masked(address: bytes, length: int) -> bytes:
    shift = max(8 * len(address) - length, 0)
    return (int.from_bytes(address, "big") >> shift << shift).to_bytes(len(address), "big")


def _is_gone(answer: Answer) -> bool:
    """Whether what was to be taken away is not there, be it that it never was."""
    error = answer.error
    return error is None or (isinstance(error, CodeError) and error.code in answer.call.procedure.missing)


def _place(entry: Call) -> tuple[str, int]:
    """Where the entry goes among those put: port by port, what belongs to no port first."""
    argument = entry.argument
    match entry.procedure:
        case p.UPDATE_NET:
            return _SHARED, 2
        case p.UPDATE_VPC:
            return _SHARED, 3
        case p.UPDATE_EP if isinstance(argument, v.Endpoint):
            if argument.hosted_interface:
                return argument.hosted_interface, 4
            return _SHARED, 1 if argument.eptype == v.EndpointType.SUBSTRATE else 4
    steps = {p.LOAD_TRANSIT_AGENT_XDP.number: 1, p.UPDATE_AGENT_EP.number: 2, p.UPDATE_AGENT_MD.number: 3}
    return key_of(entry).interface, steps[entry.procedure.number]
