"""Makes, keeps up to date and removes the devices of ports: a tap, or a veth pair whose other end is in a namespace.

What is ours says the device's alias: `aca-port:` and the port's id. So a fresh agent takes over what an earlier one
made, as it is, and nothing of anybody else is touched.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dataplane.devices.places import Place, close_places, marks_of, open_places, place_exists, remove_places
from dataplane.devices.requests import (
    add_pair,
    delete_devices,
    finish_near,
    furnish,
    port_of,
    refurnish,
)
from dataplane.devices.settings import DeviceSettings, MakeDevices
from dataplane.devices.spares import Spares
from dataplane.devices.spec import INSIDE, DeviceSpec, device_names, namespace_name, spec_of
from dataplane.devices.tap import NewTap
from dataplane.kernel import rtnl
from dataplane.kernel.channel import ROUTE, Channel
from dataplane.kernel.wire import KernelError, Request
from dataplane.model import PortWanted

_AT_ONCE = 50
"""Namespaces that are open at a time: each is two descriptors."""
_KINDS = {MakeDevices.TAP: "tun", MakeDevices.VETH: "veth"}


class Made(NamedTuple):
    """The host's end of a port's device. `fresh`: it was made just now."""

    ifindex: int
    name: str
    fresh: bool


class Ensured(NamedTuple):
    """By port id: what is there, and what went wrong, for people. A device may be there that could not be changed."""

    made: Mapping[str, Made]
    problems: Mapping[str, str]


@dataclass(slots=True)
class _Job:
    """One port on its way through a call."""

    spec: DeviceSpec
    names: list[str]
    near: rtnl.Link | None = None
    name: str = ""
    place: Place | None = None
    fresh: bool = False
    problem: str = ""

    @property
    def about(self) -> str:
        return f"device {self.name or self.names[0]}"


class PortDevices:
    """In the network namespace of the calling threads. Thread safe, but never for one port in two threads at once."""

    def __init__(self, settings: DeviceSettings) -> None:
        self._settings = settings
        self._spares = Spares()
        self._lock = threading.Lock()
        self._gate = threading.Lock()
        """Of what is wanted; held while strays are swept."""
        self._wanted: set[str] = set()
        """Ids of ports that this agent was asked to make devices for."""
        self._known: dict[str, tuple[DeviceSpec, Made]] = {}
        self._inherited: dict[str, rtnl.Link] | None = None

    def open(self) -> None:
        """In the host's network namespace."""
        if self._settings.how is MakeDevices.VETH:
            self._spares.start()

    def close(self) -> None:
        """What was made stays."""
        self._spares.close()

    @property
    def active(self) -> bool:
        return self._settings.how is not MakeDevices.NO

    def index_of(self, port_id: str) -> int:
        """The device made for the port, 0 if none was."""
        known = self._known.get(port_id)
        return known[1].ifindex if known is not None else 0

    def ensure(self, ports: Iterable[PortWanted]) -> Ensured:
        """Make devices as these ports want them. What is so already costs nothing. Raises OSError, KernelError if the
        kernel cannot be asked at all."""
        made: dict[str, Made] = {}
        jobs: list[_Job] = []
        specs = [spec_of(port) for port in ports] if self.active else []
        with self._gate:
            self._wanted.update(spec.port_id for spec in specs)
        for spec in specs:
            known = self._known.get(spec.port_id)
            if known is not None and known[0] == spec and _stands(known[1]):
                made[spec.port_id] = known[1]
            else:
                jobs.append(_Job(spec, device_names(spec.port_id)))
        if not jobs:
            return Ensured(made, {})
        host = Channel(ROUTE)
        try:
            self._find(host, jobs)
            for start in range(0, len(jobs), _AT_ONCE):
                part = [job for job in jobs[start : start + _AT_ONCE] if not job.problem]
                if self._settings.how is MakeDevices.TAP:
                    self._taps(host, part)
                else:
                    self._pairs(host, part)
        finally:
            host.close()
        problems = {job.spec.port_id: job.problem for job in jobs if job.problem}
        with self._lock:
            for job in jobs:
                if job.near is None or job.problem:
                    self._known.pop(job.spec.port_id, None)
                if job.near is not None:
                    made[job.spec.port_id] = Made(job.near.ifindex, job.near.name, job.fresh)
                    if not job.problem:
                        self._known[job.spec.port_id] = job.spec, Made(job.near.ifindex, job.near.name, fresh=False)
        return Ensured(made, problems)

    def remove(self, port_ids: Iterable[str]) -> dict[str, str]:
        """Remove what was made for these ports, by this agent or an earlier one; returns what went wrong, by port id.

        Raises OSError, KernelError.
        """
        gone = list(port_ids)
        wrong = self._remove(gone)
        with self._gate:
            self._wanted.difference_update(gone)
        return wrong

    def _remove(self, port_ids: Iterable[str]) -> dict[str, str]:
        jobs = [_Job(DeviceSpec(one, b"", (), ()), device_names(one)) for one in port_ids] if self.active else []
        if not jobs:
            return {}
        host = Channel(ROUTE)
        try:
            self._find(host, jobs)
            requests = delete_devices(job.near.ifindex for job in jobs if job.near is not None)
            refused = host.submit(requests)
        finally:
            host.close()
        wrong = {}
        if refused:
            wrong = {job.spec.port_id: f"not removed: {refused[min(refused)]}" for job in jobs if job.near is not None}
        places = {self._namespace(job): job.spec.alias for job in jobs}
        stuck = remove_places(places)
        with self._lock:
            for job in jobs:
                if (problem := stuck.get(self._namespace(job))) is not None:
                    wrong.setdefault(job.spec.port_id, f"network namespace not removed: {problem}")
                self._known.pop(job.spec.port_id, None)
        return wrong

    def standing(self) -> frozenset[str]:
        """Ids of all ports for which a device or namespace stands that was made by this agent or an earlier one.

        Raises OSError, KernelError.
        """
        host = Channel(ROUTE)
        try:
            found = {port_of(rtnl.link_of(message).alias) for message in host.dump(rtnl.list_links())} - {""}
        finally:
            host.close()
        prefix = self._settings.namespace_prefix
        marks = marks_of(prefix, {namespace_name(prefix, port_id) for port_id in found})
        return frozenset(found | {port_of(mark) for mark in marks.values()} - {""})

    def strays(self, spared: Collection[str]) -> list[str]:
        """Ids of the ports of which something stands that this agent was never asked for, but for those that are
        spared. None if no devices are made: whoever turned that off is left what has been made. Raises OSError,
        KernelError."""
        if not self.active:
            return []
        standing = self.standing()
        with self._gate:
            return sorted(standing - self._wanted - frozenset(spared))

    def sweep(self, port_ids: Iterable[str]) -> dict[str, str]:
        """remove() of those that are still strays; returns what became of them by port id, in words that are empty if
        it is gone. Raises OSError, KernelError."""
        # Held so that none of them is made meanwhile.
        with self._gate:
            strays = [port_id for port_id in port_ids if port_id not in self._wanted]
            return {**dict.fromkeys(strays, ""), **self._remove(strays)}

    def _namespace(self, job: _Job) -> str:
        return namespace_name(self._settings.namespace_prefix, job.spec.port_id)

    # -- what is there

    def _find(self, host: Channel, jobs: Sequence[_Job]) -> None:
        """Find the ports' devices, and names for those that have none."""
        inherited = self._inheritance(host)
        indexes: list[int] = []
        for job in jobs:
            known = self._known.get(job.spec.port_id)
            link = inherited.pop(job.spec.port_id, None)
            indexes.append(known[1].ifindex if known is not None else link.ifindex if link is not None else 0)
        answers = iter(host.look_up([rtnl.get_link(index) for index in indexes if index]))
        for job, index in zip(jobs, indexes, strict=True):
            link = _link_of(next(answers)) if index else None
            if link is not None and link.alias == job.spec.alias:
                job.near, job.name = link, link.name
        taken: set[str] = set()
        for job in jobs:
            if job.near is None:
                self._name(host, job, taken)
                taken.add(job.name)

    def _inheritance(self, host: Channel) -> dict[str, rtnl.Link]:
        """Devices that an earlier agent made, by port id."""
        with self._lock:
            if self._inherited is None:
                links = map(rtnl.link_of, host.dump(rtnl.list_links()))
                self._inherited = {port_of(link.alias): link for link in links if port_of(link.alias)}
            return self._inherited

    def _name(self, host: Channel, job: _Job, taken: set[str]) -> None:
        """A name that no device has; or a device of ours that has it."""
        for name in job.names:
            if name in taken:
                continue
            index = host.index_of(name)
            (answer,) = host.look_up([rtnl.get_link(index)]) if index else (None,)
            link = _link_of(answer)
            if link is None:
                job.name = name
                return
            if link.alias == job.spec.alias:
                job.near, job.name = link, name
                return
            if not link.alias and link.kind == "veth" and place_exists(self._namespace(job)):
                # Perhaps one that was interrupted: its other end tells.
                job.name = name
                return
            if not port_of(link.alias):
                job.problem = f"cannot make device {name}: the name is taken by a device that is not ours"
                return
        job.problem = f"cannot make a device: {' and '.join(job.names)} are devices of other ports"

    # -- taps

    def _taps(self, host: Channel, jobs: Sequence[_Job]) -> None:
        for job in jobs:
            try:
                self._replace_other_kind(host, job)
                if job.near is None:
                    job.near = self._new_tap(host, job)
                    job.fresh = True
                elif job.near.mtu != self._settings.mtu or not job.near.up:
                    index = job.near.ifindex
                    host.demand([rtnl.set_mtu(index, self._settings.mtu, job.about), rtnl.set_up(index, job.about)])
            except (KernelError, OSError) as problem:
                job.problem = f"cannot make {job.about}: {problem}"

    def _new_tap(self, host: Channel, job: _Job) -> rtnl.Link:
        tap = NewTap(job.name)
        try:
            index = host.index_of(job.name)
            change = rtnl.set_mtu(index, self._settings.mtu, job.about)
            host.demand([change, *finish_near(index, job.spec.alias, job.about)])
            tap.keep()
        finally:
            tap.close()
        return _near(index, job, "tun", self._settings.mtu)

    def _replace_other_kind(self, host: Channel, job: _Job) -> None:
        """A device made by an agent that was set otherwise."""
        if job.near is not None and job.near.kind != _KINDS[self._settings.how]:
            host.demand(delete_devices([job.near.ifindex]))
            job.near = None

    # -- veth pairs, each with a namespace

    def _pairs(self, host: Channel, jobs: Sequence[_Job]) -> None:
        places = open_places({self._namespace(job): job.spec.alias for job in jobs}, self._spares)
        opened = [place for place in places.values() if isinstance(place, Place)]
        try:
            new: list[_Job] = []
            for job in jobs:
                place = places[self._namespace(job)]
                if isinstance(place, OSError):
                    job.near, job.problem = None, f"cannot make {job.about}: {place}"
                    continue
                job.place = place
                try:
                    if not self._take_over(host, job, place):
                        new.append(job)
                except (KernelError, OSError) as problem:
                    job.problem = f"cannot make {job.about}: {problem}"
            self._new_pairs(host, new)
            self._undo(host, [job for job in new if job.problem])
        finally:
            close_places(opened)

    def _take_over(self, host: Channel, job: _Job, place: Place) -> bool:
        """Make what is there as it should be. False: there is no pair, or no longer a whole one."""
        self._replace_other_kind(host, job)
        if place.made:
            if job.near is not None:
                # Its other end is in a namespace that has lost its name.
                host.demand(delete_devices([job.near.ifindex]))
                job.near = None
            return False
        inside = place.read()
        far = inside.counterpart(job.near.ifindex) if job.near is not None else None
        if job.near is None and (found := inside.named(INSIDE)) is not None:
            (answer,) = host.look_up([rtnl.get_link(found[1])])
            near = _link_of(answer)
            if near is None or near.kind != "veth" or near.alias not in ("", job.spec.alias):
                raise FileExistsError(f"{INSIDE} of network namespace {place.name} is not ours")
            job.near, job.name, far = near, near.name, found[0]
        if job.near is None:
            return False
        if far is None:
            host.demand(delete_devices([job.near.ifindex]))
            job.near = None
            return False
        index = job.near.ifindex
        wrong = job.near.alias != job.spec.alias or not job.near.up
        changes = finish_near(index, job.spec.alias, job.about) if wrong else []
        if job.near.mtu != self._settings.mtu:
            changes.append(rtnl.set_mtu(index, self._settings.mtu, job.about))
        host.demand(changes)
        place.channel.demand(refurnish(job.spec, far, self._settings.mtu, inside, f"{far.name} of {job.about}"))
        if not self._settings.checksum_offload:
            place.finish_checksums(far.name)
        return True

    def _new_pairs(self, host: Channel, jobs: Sequence[_Job]) -> None:
        """All pairs in one request's time, then each namespace in one."""
        pairs = [
            add_pair(job.name, job.spec.mac, job.place.fd, self._settings.mtu, job.about)
            for job in jobs
            if job.place is not None
        ]
        for number, problem in host.submit(pairs).items():
            jobs[number].problem = f"cannot make {problem}"
        finish: list[tuple[_Job, Request]] = []
        for job in jobs:
            if not job.problem:
                job.near = _near(host.index_of(job.name), job, "veth", self._settings.mtu)
                job.fresh = True
                finish += [(job, one) for one in finish_near(job.near.ifindex, job.spec.alias, job.about)]
        for number, problem in host.submit([request for _, request in finish]).items():
            finish[number][0].problem = f"cannot make {problem}"
        for job in jobs:
            if not job.problem and job.place is not None:
                try:
                    self._furnish(job, job.place)
                except (KernelError, OSError) as problem:
                    job.problem = f"cannot make {job.about}: {problem}"

    def _furnish(self, job: _Job, place: Place) -> None:
        born = place.channel.index_of(INSIDE)
        if not born:
            raise FileNotFoundError(f"{INSIDE} is not in network namespace {place.name}")
        if not self._settings.checksum_offload:
            place.finish_checksums(INSIDE)
        place.channel.demand(furnish(job.spec, born, f"{INSIDE} of {job.about}"))

    def _undo(self, host: Channel, jobs: Sequence[_Job]) -> None:
        """Nothing is left half-made."""
        host.submit(delete_devices(job.near.ifindex for job in jobs if job.near is not None))
        new = [job for job in jobs if job.place is not None and job.place.made]
        remove_places({self._namespace(job): job.spec.alias for job in new})
        for job in jobs:
            job.near = None


def _near(index: int, job: _Job, kind: str, mtu: int) -> rtnl.Link:
    return rtnl.Link(index, job.name, job.spec.alias, 0, b"", kind, True, mtu)


def _link_of(answer: object) -> rtnl.Link | None:
    return rtnl.link_of(answer) if answer is not None else None  # type: ignore[arg-type]


def _stands(made: Made) -> bool:
    try:
        socket.if_indextoname(made.ifindex)
    except OSError:
        return False
    return True
