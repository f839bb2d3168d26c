"""Keeps what stands as it was installed: puts back what others changed, finds and sweeps what nobody wants."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from dataplane.base import Drifted, Event, Leftover, Survey
from dataplane.kernel.namespaces import remove_namespace
from dataplane.kernel.rtnl import Link, delete_route, delete_rule
from dataplane.kernel.wire import KernelError, Request
from dataplane.model import Key
from dataplane.netlink.audit import (
    Findings,
    add_dependents,
    compare_chains,
    compare_elements,
    compare_entries,
    compare_inside,
    compare_links,
    compare_names,
    compare_sending,
    compare_settings,
    dependents,
)
from dataplane.netlink.census import suspects_by_elements, suspects_by_entries
from dataplane.netlink.filter import SETS
from dataplane.netlink.installer import Installer
from dataplane.netlink.items import FloodItem, Item, LegItem, MacItem, SegmentItem, Value
from dataplane.netlink.leftovers import Left, gone_with, hooks_of, leftovers, traces_of, vanished
from dataplane.netlink.names import ALIAS, bridge_name, leg_name, segment_id, tunnel_name
from dataplane.netlink.namespaces import namespaces
from dataplane.netlink.notices import EVERY, Suspicion
from dataplane.netlink.objects import SETS_OF_NEIGHBORS, Objects
from dataplane.netlink.samples import Sampler, compare_one_by_one
from dataplane.netlink.standing import ElementKey, Entries, EntryKey, elements_of, read_inside
from dataplane.netlink.traces import (
    ChainTrace,
    DeviceTrace,
    ElementTrace,
    NamespaceTrace,
    RouteTrace,
    RuleTrace,
    Trace,
    name_of,
    removal_of,
)
from dataplane.netlink.wanted import Wanted

_ROUNDS = 3
_EXAMPLES = 5
_log = logging.getLogger(__name__)

Install = Callable[[], Collection[Key]]
"""Does what the book says is missing; returns who has a problem now."""


class Upkeep:
    """`lock` guards the book and the installer, and is held while anything is compared with them. Any thread."""

    def __init__(
        self,
        lock: threading.RLock,
        book: Objects,
        installer: Installer,
        install: Install,
        tell: Callable[[Event], None],
    ) -> None:
        self._lock = lock
        self._book = book
        self._installer = installer
        self._install = install
        self._tell = tell
        self._sampler = Sampler(installer.reader)
        self._stuck: set[Key] = set()
        """Who lacks something that could not be put back: to be tried with each check."""
        self._unfinished = False
        """Whether something was put back, and not looked at since."""
        self._unheard_from = 0.0
        """When entries whose notices were not heard may be read again (monotonic clock)."""

    # -- what others changed

    def heal(self, suspicion: Suspicion) -> None:
        """Compare what may have been touched, and put it back. Raises KernelError, OSError."""
        healed: dict[Key, None] = {}
        examples: list[str] = []
        # Others take names out of that directory all the time.
        suspicion.names &= {router.path.name for router in list(self._installer.places.routers.values())}
        if suspicion.links and not suspicion.everything and self._links_are_as_they_were(suspicion.links):
            suspicion.links = set()
        if not suspicion:
            return
        with self._lock:
            for _ in range(_ROUNDS):
                found = Findings()
                links = self._look(found, suspicion)
                if found.clean:
                    self._unfinished &= not suspicion.everything
                    break
                unfinished, self._unfinished = self._unfinished, True
                examples += [*found.missing.values(), *found.altered.values(), *found.static]
                self._put_back(found, links, healed)
                # A device made anew has lost what was on it, a table what was in it.
                suspicion = Suspicion(everything=bool(found.static) or any(map(_is_device, found.items)))
                if not suspicion:
                    self._unfinished = unfinished
                    break
        if examples:
            self._tell(Drifted(frozenset(healed), tuple(examples[:_EXAMPLES])))

    def _links_are_as_they_were(self, indexes: Collection[int]) -> bool:
        """What is said of devices most often is this agent's own doing: so that much is read without the lock."""
        with self._lock:
            if not self._know(indexes):
                return True
        links, found = self._installer.reader.links(), Findings()
        with self._lock:
            compare_links(found, self._book.installed, self._installer.places, links, self._installer.settings)
            return found.clean

    def _look(self, found: Findings, suspicion: Suspicion) -> Mapping[int, Link]:
        """Compare as far as suspected, and all if a device is gone. Returns the devices that there are, if looked at.
        """
        installed, places, reader = self._book.installed, self._installer.places, self._installer.reader
        links: Mapping[int, Link] = {}
        if suspicion.everything or self._know(suspicion.links):
            links = reader.links()
            compare_links(found, installed, places, links, self._installer.settings)
        everything = suspicion.everything or bool(found.missing or found.altered)
        if everything or suspicion.tables:
            stands = reader.filter()
            compare_chains(found, installed, places, stands.chains, suspicion.chains)
            self._compare_elements(found, stands.elements, SETS)
        else:
            if suspicion.chains:
                compare_chains(found, installed, places, reader.chains(), suspicion.chains)
            names = suspicion.sets & SETS.keys()
            elements = reader.elements(SETS[name] for name in names)
            self._compare_elements(found, elements, names)
            compare_one_by_one(found, self._named(suspicion), places, reader)
        many = any(not any(mac) for index, mac in suspicion.entries if index in places.devices)
        if everything or many or self._lacks_floods(suspicion.floods):
            self._compare_entries(found, self._entries())
        if everything:
            self._compare_sending(found)
        if everything or suspicion.names:
            compare_names(found, installed, places)
        routers = [name for name in places.routers if everything or name in suspicion.routers]
        insides = {name: read_inside(places.routers[name].channel) for name in routers}
        compare_inside(found, installed, places, insides)
        for name in routers:
            compare_settings(found, places, name)
        return links

    def _compare_elements(self, found: Findings, elements: dict[ElementKey, bytes], names: Collection[str]) -> None:
        """Those of these sets; what is accounted for is taken out."""
        book, places = self._book, self._installer.places
        if not frozenset(names) >= SETS_OF_NEIGHBORS:
            compare_elements(found, book.installed, places, elements, names)
            return
        compare_elements(found, book.of_book, places, elements, names)
        suspects = suspects_by_elements(book.neighbors.by_subnet(), places, elements)
        found.standing += len(SETS_OF_NEIGHBORS) * (len(book.neighbors) - len(suspects))
        compare_elements(found, book.chosen((), suspects), places, elements, names)

    def _compare_entries(self, found: Findings, entries: Entries) -> None:
        """What is accounted for is taken out."""
        book, places = self._book, self._installer.places
        compare_entries(found, book.of_book, places, entries)
        suspects = suspects_by_entries(book.neighbors.by_subnet(), places, entries)
        found.standing += len(book.neighbors) - len(suspects)
        compare_entries(found, book.chosen((), suspects), places, entries)

    def _compare_sending(self, found: Findings) -> None:
        places = self._installer.places
        devices = [at.tunnel for at in places.segments.values() if not at.has_hosts]
        if devices:
            ways = self._installer.reader.ways(places.geneve, devices)
            compare_sending(found, self._book.of_book, places, ways, self._installer.settings)

    def _named(self, suspicion: Suspicion) -> dict[type[Item], dict[Item, Value]]:
        """The MACs and elements that are suspected one by one."""
        installed, places = self._book.installed, self._installer.places
        wanted = Wanted(self._book, places)
        items = {item for key in suspicion.elements for item in wanted.as_items(key, b"")}
        by_device = {index: segment for segment, at in places.segments.items() for index in (at.bridge, at.tunnel)}
        items |= {MacItem(by_device[index], mac) for index, mac in suspicion.entries if index in by_device}
        found: dict[type[Item], dict[Item, Value]] = {}
        for item in items:
            of_kind = installed.get(type(item), {})
            if item in of_kind:
                found.setdefault(type(item), {})[item] = of_kind[item]
        return found

    def _lacks_floods(self, gone: Collection[EntryKey]) -> bool:
        """Whether some of these, of which the last that was heard is that they were removed, should be there."""
        if not gone:
            return False
        tunnels = {at.tunnel: segment for segment, at in self._installer.places.segments.items()}
        floods = self._book.of_book.get(FloodItem, {})
        return any(tunnel in tunnels and FloodItem(tunnels[tunnel], host) in floods for tunnel, host in gone)

    def _know(self, indexes: Collection[int]) -> bool:
        """Whether one of the devices is ours, or a port's."""
        if not indexes:
            return False
        places = self._installer.places
        ours, wanted = places.devices, Wanted(self._book, places)
        return any(index in ours or wanted.has_device(index) for index in indexes)

    def _entries(self) -> Entries:
        places = self._installer.places
        return self._installer.reader.entries(places.bridges, places.tunnels)

    def _put_back(self, found: Findings, links: Mapping[int, Link], healed: dict[Key, None]) -> None:
        installer, items = self._installer, found.items
        if found.static:
            installer.prepare_filter()
        stale = add_dependents(found, self._book.installed, installer.places)
        healed.update(dict.fromkeys(self._owners(found)))
        chains = [ChainTrace(leg.outside) for leg in installer.places.legs.values() if leg.outside in found.lost]
        self._take_away([*chains, *(ElementTrace(*key, b"") for key in stale)])
        installer.inherited.elements.update((key, data) for key, data in found.elements.items() if key not in stale)
        if any(map(_is_device, items)):
            self._keep_devices(items, links or installer.reader.links())
        self._lose(found.items)
        self._try_stuck()
        self._lose_with_devices([item for item in items if _is_device(item)])

    def _lose(self, items: Sequence[Item]) -> None:
        # Whatever becomes of the installation, they are not forgotten.
        self.put_off(key for item in items for key in self._book.owners(item))
        self._book.lose(items)

    def _lose_with_devices(self, devices: Sequence[Item]) -> None:
        """With those of these that could not be made again: what was on them or spoke of them."""
        installed = self._book.installed
        gone = [item for item in devices if item not in installed.get(type(item), {})]
        segments = {item.segment for item in gone if isinstance(item, SegmentItem)}
        subnets = {item.subnet_id for item in gone if isinstance(item, LegItem)}
        if gone:
            self._lose([item for item, _ in dependents(installed, segments, subnets, segments)])

    def put_off(self, owners: Iterable[Key]) -> None:
        """What these want and is not installed is tried with the next check. `lock` held."""
        self._stuck.update(owners)

    def _try_stuck(self) -> None:
        self._book.touch_missing(self._stuck)
        self._stuck.update(self._install())
        self._stuck &= self._book.lacking(self._stuck)

    def _keep_devices(self, items: Iterable[Item], links: Mapping[int, Link]) -> None:
        """What is left of them is taken over when they are made again, whatever it is called now."""
        places, devices = self._installer.places, self._installer.inherited.devices
        for item in items:
            match item:
                case SegmentItem(segment):
                    indexes, alias = places.segments[segment], ALIAS + segment_id(segment)
                    names = {bridge_name(segment): indexes.bridge, tunnel_name(segment): indexes.tunnel}
                case LegItem(subnet_id):
                    names, alias = {leg_name(subnet_id): places.legs[subnet_id].outside}, ALIAS + subnet_id
                case _:
                    continue
            kept = {name: links[index] for name, index in names.items() if index in links}
            devices.update((name, link._replace(name=name, alias=alias)) for name, link in kept.items())

    def _owners(self, found: Findings) -> frozenset[Key]:
        """The resources; what belongs to none is put back here."""
        owners = (key for item in found.items for key in self._book.owners(item))
        return frozenset(key for key in owners if not key.id.startswith("/"))

    # -- looks

    def check(self) -> Survey:
        """Devices, names, rules, counts, and a slice of the rest; what is wrong is put back. Raises KernelError,
        OSError."""
        found = Findings()
        with self._lock:
            installed, places, reader = self._book.installed, self._installer.places, self._installer.reader
            compare_links(found, installed, places, reader.links(), self._installer.settings)
            compare_names(found, installed, places)
            compare_chains(found, installed, places, reader.chains())
            self._compare_sending(found)
            self._sampler.compare(found, self._book, places)
            router_id = self._sampler.next_router(places)
            if router_id is not None:
                compare_inside(found, installed, places, {router_id: read_inside(places.routers[router_id].channel)})
                compare_settings(found, places, router_id)
            expected, counts = self._book.elements_of_sets, reader.counts()
            too_few = {name for name, count in counts.items() if count < expected.get(name, 0) and name in SETS}
            if self._stuck:
                self._try_stuck()
        self._compare_unheard(found)
        with self._lock:
            again = self._owners(found)
        everything = self._unfinished or not found.clean
        if too_few or everything:
            self.heal(Suspicion(everything=everything, sets=too_few))
        return _survey(found, again, ())

    def _compare_unheard(self, found: Findings) -> None:
        """Forwarding entries of tunnels whose notices were not heard while this agent changed many of them."""
        if time.monotonic() < self._unheard_from:
            return
        used_before = time.thread_time()
        unheard = self._installer.take_unheard()
        if not unheard:
            return
        reader, book, places = self._installer.reader, self._book, self._installer.places
        with self._lock:
            chosen = {one: at for one, at in places.segments.items() if at.tunnel in unheard or EVERY in unheard}
            neighbors = [(ref, group) for ref, group in book.neighbors.by_subnet() if ref.segment in chosen]
        macs: dict[tuple[int, int], list[bytes]] = {}
        for ref, group in neighbors:
            bridge, tunnel, _ = chosen[ref.segment]
            macs.setdefault((bridge, tunnel), []).extend(wanted.neighbor.mac for wanted in group)
        suspects = suspects_by_entries(neighbors, places, reader.entries_of(macs))
        with self._lock:
            # They may have been changed while they were read.
            of_book = [item for item in book.of_book.get(MacItem, ()) if isinstance(item, MacItem)]
            items = [item for item in of_book if item.segment in chosen]
            compare_one_by_one(found, book.chosen(items, suspects), places, reader)
        # A tenth of a processor at most.
        self._unheard_from = time.monotonic() + 10 * (time.thread_time() - used_before)

    def survey(self, unsettled: Collection[Key]) -> Survey:
        """Raises KernelError, OSError."""
        # What was not heard so far is read now.
        self._installer.take_unheard()
        found, left = self._read_all(unsettled)
        if found.clean:
            # What was removed while it was read is no leftover of anybody's that a sweep would miss.
            return _survey(found, frozenset(), left)
        # It may be what was changed while it was read: once more while nothing changes.
        with self._lock:
            found, left = self._read_all(unsettled)
            add_dependents(found, self._book.installed, self._installer.places)
            again = self._owners(found)
            # Whoever asked may only have looked: the next check puts back what nobody has by then.
            self.put_off(key for item in found.items for key in self._book.owners(item))
            self._book.distrust(found.items)
            self._installer.inherited.elements.update(found.elements)
            return _survey(found, again, left)

    def _read_all(self, unsettled: Collection[Key]) -> tuple[Findings, list[Trace]]:
        found = Findings()
        reader, places = self._installer.reader, self._installer.places
        prefix = self._installer.settings.namespace_prefix
        with self._lock:
            insides = {name: read_inside(router.channel) for name, router in places.routers.items()}
            bridges, tunnels = places.bridges, places.tunnels
        entries, stands = reader.all_of(bridges, tunnels)
        links = reader.links()
        named = namespaces(prefix)
        with self._lock:
            installed, wanted = self._book.installed, Wanted(self._book, places)
            insides = {name: inside for name, inside in insides.items() if name in places.routers}
            compare_links(found, installed, places, links, self._installer.settings)
            compare_chains(found, installed, places, stands.chains)
            self._compare_elements(found, stands.elements, SETS)
            self._compare_entries(found, entries)
            compare_names(found, installed, places)
            self._compare_sending(found)
            compare_inside(found, installed, places, insides)
            for name in insides:
                compare_settings(found, places, name)
            left = Left(links, entries, stands, insides, named)
            traces = leftovers(left, places, unsettled, prefix, self._book.wants)
            return found, [trace for trace in traces if not wanted.has(trace)]

    # -- removal

    def dismiss(self, removed: Collection[Key]) -> None:
        """Take away what an earlier agent left of resources that are deleted now. `lock` held. Raises KernelError,
        OSError."""
        inherited, places = self._installer.inherited, self._installer.places
        if not removed or not inherited:
            return
        links, wanted = self._installer.reader.links(), Wanted(self._book, places)
        gone = gone_with(removed, links, inherited.namespaces, self._installer.settings.namespace_prefix)
        gone.devices = {index for index in gone.devices if not wanted.has_device(index)}
        entries = Entries()
        for index in gone.devices & links.keys():
            entries.local.update(self._installer.reader.entries([links[index].master], (), index).local)
        traces = traces_of(gone, inherited.elements, entries, links, self._book.wants)
        if gone.devices:
            hooks = hooks_of(self._installer.reader.chains().uses, links)
            traces += [hook for hook in hooks if hook.ifindex in gone.devices]
        self._take_away([trace for trace in traces if not wanted.has(trace)])
        self._installer.release_geneve()

    def dismiss_vanished(self) -> None:
        """Take away what an earlier agent left of devices that are gone by now; what cannot be is left to the sweep."""
        reader = self._installer.reader
        try:
            with self._lock:
                elements = list(self._installer.inherited.elements.items())
                self._take_away(vanished(elements, reader.chains().uses, reader.links()))
        except (KernelError, OSError) as problem:
            _log.warning("what is left of devices that are gone stays: %s", problem)

    def sweep(self, left: Sequence[Leftover]) -> int:
        """Raises KernelError, OSError."""
        with self._lock:
            wanted = Wanted(self._book, self._installer.places)
            traces: list[Trace] = [one.handle for one in left]  # type: ignore[misc]
            return self._take_away([trace for trace in traces if not wanted.has(trace)])

    def _take_away(self, traces: Sequence[Trace]) -> int:
        """Returns how many were there and are gone now."""
        elements = self._standing([trace for trace in traces if isinstance(trace, ElementTrace)])
        others = [trace for trace in traces if not isinstance(trace, ElementTrace)]
        if not elements and not others:
            return 0
        group = int.from_bytes(os.urandom(4), "big") >> 1 | 1
        removal = removal_of([*others, *elements], group)
        refused = self._installer.dismiss(removal.route, removal.filter)
        inherited = self._installer.inherited
        for trace in elements:
            inherited.elements.pop((trace.set_name, trace.key), None)
        for other in others:
            match other:
                case DeviceTrace(_, name):
                    inherited.devices.pop(name, None)
                case NamespaceTrace(name):
                    remove_namespace(name)
                    inherited.namespaces.pop(name, None)
        self._in_routers(others)
        if refused:
            raise refused[min(refused)]
        return len(elements) + len(others)

    def _standing(self, traces: Sequence[ElementTrace]) -> list[ElementTrace]:
        """With their data as it is now."""
        answers = self._installer.reader.look_up_elements([(trace.set_name, trace.key) for trace in traces])
        found = (element for answer in answers if answer is not None for element in elements_of(answer))
        return [ElementTrace(*key, data) for key, data in found]

    def _in_routers(self, traces: Iterable[Trace]) -> None:
        by_router: dict[str, list[Request]] = {}
        for trace in traces:
            if isinstance(trace, RouteTrace):
                by_router.setdefault(trace.router_id, []).append(delete_route(trace.table, trace.destination))
            elif isinstance(trace, RuleTrace):
                by_router.setdefault(trace.router_id, []).append(delete_rule(trace.device, trace.table))
        for router_id, requests in by_router.items():
            router = self._installer.places.routers.get(router_id)
            if router is not None:
                router.channel.submit(requests)


def _is_device(item: Item) -> bool:
    return isinstance(item, SegmentItem | LegItem)


def _survey(found: Findings, again: frozenset[Key], left: Sequence[Trace]) -> Survey:
    examples = [*found.missing.values(), *found.altered.values(), *found.static][:_EXAMPLES]
    return Survey(
        found.standing,
        len(found.missing),
        len(found.altered) + len(found.static),
        tuple(examples),
        again,
        [Leftover(name_of(trace), trace) for trace in left],
    )
