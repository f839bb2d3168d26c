"""Addresses that guests and routers look for and nobody here has.

A known address is answered before a request reaches the bridge (chain `serve`). So an ARP request that leaves by a
segment's tunnel device asks for what is not known. Who asks is told by its sender's MAC, which has been checked.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from dataplane.base import Punt, PuntReason, Unresolved
from dataplane.model import PortWanted, RouterWanted, Segment
from dataplane.netlink.filter import allowed_pairs
from dataplane.netlink.names import leg_name, tunnel_name
from dataplane.netlink.sockets import LEAVING_ARP_REQUESTS, PacketSockets, send_frame

RATE = 200
"""Requests a second that the agent is handed of one asker; as many at once."""
_ARP_LENGTH = 42
_log = logging.getLogger(__name__)


class _Leg(NamedTuple):
    router: RouterWanted
    vpc_id: str
    subnet_id: str


class _Allowance:
    """A token bucket."""

    __slots__ = ("_left", "_since")

    def __init__(self, now: float) -> None:
        self._left, self._since = float(RATE), now

    def take(self, now: float) -> bool:
        self._left = min(float(RATE), self._left + (now - self._since) * RATE)
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


_Asker = tuple[str, bytes]
"""A tunnel device's name and a MAC."""


class UnknownTargets:
    """Who may ask in which segment, and a socket on each segment's tunnel device. Thread safe.

    `address_of` gives the MAC that is installed for an address in a subnet.
    """

    def __init__(
        self,
        listener: Callable[[Punt], None],
        address_of: Callable[[str, bytes], bytes | None],
        active: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listener = listener
        self._address_of = address_of
        self._active = active
        self._clock = clock
        self._lock = threading.Lock()
        self._sockets = PacketSockets("netlink-unknown", LEAVING_ARP_REQUESTS, self._asked)
        self._ports: dict[str, PortWanted] = {}
        self._askers: dict[_Asker, str | _Leg] = {}
        self._asked_by: dict[str, tuple[_Asker, ...]] = {}
        self._in_tunnel: dict[str, set[_Asker]] = {}
        self._in_subnet: dict[str, dict[str, None]] = {}
        self._allowances: dict[_Asker, _Allowance] = {}
        self._listening: dict[str, int] = {}
        """The index of each device that has a socket."""
        self._opening = threading.Lock()
        self.dropped = 0

    def start(self) -> None:
        if self._active:
            self._sockets.start()

    def close(self) -> None:
        self._sockets.close()

    # -- who is there

    def set_port(self, wanted: PortWanted) -> None:
        """A wired port; its subnets are of one segment."""
        if not self._active:
            return
        up = wanted.port.admin_state_up
        tunnel = tunnel_name(wanted.subnets[0].ref.segment)
        with self._lock:
            self._forget(wanted.id)
            if up:
                self._ports[wanted.id] = wanted
                for subnet in wanted.subnets:
                    self._in_subnet.setdefault(subnet.id, {})[wanted.id] = None
                macs = dict.fromkeys(mac for mac, _ in allowed_pairs(wanted))
                self._enter(wanted.id, {(tunnel, mac): wanted.id for mac in macs})

    def set_router(self, wanted: RouterWanted) -> None:
        if not self._active:
            return
        legs: dict[_Asker, str | _Leg] = {}
        for routed in wanted.subnets:
            subnet, segment = routed.subnet.subnet, routed.subnet.ref.segment
            if subnet.gateway_mac is not None:
                legs[_asker(segment, subnet.gateway_mac)] = _Leg(wanted, subnet.vpc_id, subnet.id)
        with self._lock:
            self._forget("/" + wanted.id)
            self._enter("/" + wanted.id, legs)

    def forget_port(self, port_id: str) -> None:
        with self._lock:
            self._forget(port_id)

    def forget_router(self, router_id: str) -> None:
        with self._lock:
            self._forget("/" + router_id)

    def _enter(self, name: str, askers: dict[_Asker, str | _Leg]) -> None:
        self._askers.update(askers)
        self._asked_by[name] = tuple(askers)
        for asker in askers:
            self._in_tunnel.setdefault(asker[0], set()).add(asker)

    def _forget(self, name: str) -> None:
        wanted = self._ports.pop(name, None)
        for subnet in wanted.subnets if wanted is not None else ():
            ports = self._in_subnet.get(subnet.id, {})
            ports.pop(name, None)
            if not ports:
                self._in_subnet.pop(subnet.id, None)
        for asker in self._asked_by.pop(name, ()):
            self._askers.pop(asker, None)
            self._allowances.pop(asker, None)
            others = self._in_tunnel.get(asker[0], set())
            others.discard(asker)
            if not others:
                self._in_tunnel.pop(asker[0], None)

    def device_changed(self, name: str) -> None:
        """A device has come, gone or been made anew."""
        with self._lock:
            concerned = name in self._in_tunnel
        if concerned:
            self.listen()

    def listen(self) -> None:
        """Listen where somebody may ask, on the devices that are there now, and nowhere else.

        A device that was made anew under its name is another one.
        """
        if not self._active:
            return
        with self._opening:
            with self._lock:
                wanted = set(self._in_tunnel)
            for name in wanted | self._listening.keys():
                self._listen_on(name, _index_of(name) if name in wanted else 0)

    def _listen_on(self, name: str, index: int) -> None:
        if index == self._listening.get(name, 0):
            return
        self._sockets.ignore(name)
        self._listening.pop(name, None)
        if index:
            try:
                self._sockets.listen(name, index, name)
            except OSError as problem:
                _log.warning("cannot listen on %s for unknown addresses: %s", name, problem)
                return
            self._listening[name] = index

    # -- questions and answers

    def _asked(self, tunnel: str, frame: bytes) -> None:
        sender_mac, sender, target = frame[22:28], frame[28:32], frame[38:42]
        if len(frame) < _ARP_LENGTH or sender in (bytes(4), target):
            return
        asker = (tunnel, sender_mac)
        with self._lock:
            who = self._askers.get(asker)
            if who is None:
                return
            now = self._clock()
            allowance = self._allowances.get(asker) or self._allowances.setdefault(asker, _Allowance(now))
            if not allowance.take(now):
                self.dropped += 1
                return
            found = self._of_leg(who, target) if isinstance(who, _Leg) else self._of_port(who, target)
        if found is not None:
            port_id, unresolved = found
            self._listener(Punt(PuntReason.UNKNOWN_DESTINATION, port_id, frame[:_ARP_LENGTH], unresolved))

    def _of_port(self, port_id: str, target: bytes) -> tuple[str, Unresolved] | None:
        wanted = self._ports[port_id]
        if any(prefix.contains(target) for _, prefix in allowed_pairs(wanted)):
            return None
        holding = (subnet for subnet in wanted.subnets if subnet.subnet.cidr.contains(target))
        subnet = next(holding, wanted.subnets[0]).subnet
        return port_id, Unresolved(subnet.vpc_id, subnet.id, target)

    def _of_leg(self, leg: _Leg, target: bytes) -> tuple[str, Unresolved] | None:
        """On behalf of a port that the router serves: one in the subnet itself, if there is any."""
        others = (routed.subnet.id for routed in leg.router.subnets)
        for subnet_id in (leg.subnet_id, *others):
            for port_id in self._in_subnet.get(subnet_id, ()):
                return port_id, Unresolved(leg.vpc_id, leg.subnet_id, target)
        return None

    def answer(self, punt: Punt, port_device: str | None) -> None:
        """Answer the request, if its target is known now. Raises OSError."""
        unresolved = punt.unresolved
        if unresolved is None:
            return
        mac = self._address_of(unresolved.subnet_id, unresolved.address)
        sender_mac = punt.frame[22:28]
        with self._lock:
            own = self._ports.get(punt.port_id)
        of_port = own is not None and any(sender_mac == known for known, _ in allowed_pairs(own))
        device = port_device if of_port else leg_name(unresolved.subnet_id)
        if mac is not None and device is not None:
            send_frame(device, _arp_reply(punt.frame, mac))


def _index_of(device: str) -> int:
    """0 if there is no such device."""
    try:
        return socket.if_nametoindex(device)
    except OSError:
        return 0


def _asker(segment: Segment, mac: bytes) -> _Asker:
    return tunnel_name(segment), mac


def _arp_reply(request: bytes, mac: bytes) -> bytes:
    """The answer to an ARP request (RFC 826) as its target would give it."""
    sender, target = request[22:32], request[38:42]
    return request[22:28] + mac + request[12:20] + b"\0\2" + mac + target + sender
