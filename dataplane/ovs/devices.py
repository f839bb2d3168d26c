"""Making the devices of ports, where no compute service does: a persistent tap, or a veth pair, on the bridge.

Never `type=internal`: such a device dies with the switch (design facts). What is ours carries `aca:<port id>` as its
interface alias and `aca-made` in the database, so a fresh agent knows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from dataplane.addresses import format_mac
from dataplane.model import PortWanted
from dataplane.ovs.ovsdb import Device, Ovsdb, OvsdbError
from dataplane.ovs.settings import MakeDevices

MADE = "aca-made"
_ALIAS = "aca:"
PEER_PREFIX = "veth"


class DeviceMaker:
    """Makes and removes devices in the agent's network namespace. Thread safe: each call has its own netlink socket."""

    def __init__(self, how: MakeDevices, ovsdb: Ovsdb, mtu: int, timeout_s: float) -> None:
        self._how = how
        self._ovsdb = ovsdb
        self._mtu = mtu
        self._timeout_s = timeout_s

    @property
    def active(self) -> bool:
        return self._how is not MakeDevices.NO

    def make(self, ports: Iterable[PortWanted]) -> dict[str, str]:
        """Make and attach the devices of ports that have none. Returns what went wrong, by port id."""
        wrong: dict[str, str] = {}
        attached: dict[str, Future[int]] = {}
        with IPRoute() as netlink:
            for wanted in ports:
                try:
                    self._make_link(netlink, wanted)
                except (NetlinkError, OSError) as error:
                    wrong[wanted.id] = f"cannot make device {wanted.port.device_name}: {error}"
                    continue
                attached[wanted.id] = self._ovsdb.add_port(
                    wanted.port.device_name, wanted.id, mtu=self._mtu, external_ids={MADE: "true"}
                )
        for port_id, future in attached.items():
            try:
                future.result(self._timeout_s)
            except (OvsdbError, FutureTimeout) as error:
                wrong[port_id] = f"cannot attach the device: {error or 'no answer in time'}"
        return wrong

    def remove(self, devices: Iterable[Device]) -> None:
        """Take devices that were made here off the bridge and away. What is not ours is left alone."""
        ours = [device for device in devices if device.external_ids.get(MADE) == "true"]
        if not ours:
            return
        waits = [self._ovsdb.del_port(device.name) for device in ours]
        for wait in waits:
            wait.result(self._timeout_s)
        with IPRoute() as netlink:
            for device in ours:
                for link in netlink.link_lookup(ifname=device.name):
                    if _alias(netlink, link) == _ALIAS + device.iface_id:
                        netlink.link("del", index=link)

    def _make_link(self, netlink: IPRoute, wanted: PortWanted) -> None:
        """Raises NetlinkError, or OSError if the name is taken by something that is not ours."""
        name = wanted.port.device_name
        alias = _ALIAS + wanted.id
        known = netlink.link_lookup(ifname=name)
        if known:
            if _alias(netlink, known[0]) != alias:
                raise OSError("the name is taken by a device that is not ours")
        elif self._how is MakeDevices.TAP:
            netlink.link("add", ifname=name, kind="tuntap", mode="tap")
        else:
            peer = {
                "ifname": PEER_PREFIX + wanted.id[:11],
                "address": format_mac(wanted.port.mac),
                "mtu": self._mtu,
            }
            netlink.link("add", ifname=name, kind="veth", peer=peer)
        index = netlink.link_lookup(ifname=name)[0]
        netlink.link("set", index=index, ifalias=alias, mtu=self._mtu, state="up")


def _alias(netlink: IPRoute, index: int) -> str:
    alias = netlink.get_links(index)[0].get_attr("IFLA_IFALIAS")
    return alias if isinstance(alias, str) else ""
