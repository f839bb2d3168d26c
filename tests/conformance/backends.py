"""What scenarios must know of each data plane from outside."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol

from tests.lab import Guest, Host, LabError
from tests.lab.commands import attempt
from tests.lab.netns import Namespace, delete_namespaces, namespaces_of

PORT_CHAIN = re.compile(r"chain (port-\d+) \{\s*type filter hook ingress device \"?([^\s\"]+)")


class Backend(Protocol):
    """What scenarios must know of a data plane from outside."""

    name: str

    @property
    def lacks(self) -> Mapping[str, str]:
        """What it cannot do, each with the reason: e.g. geneve, crash."""
        ...

    def footprint(self, host: Host) -> object:
        """Everything the agent has made on the host, comparable: equal means nothing was added, lost or changed."""
        ...

    def serves(self, device: str) -> bool:
        """Whether it is the data plane that keeps guests off this device of the host."""
        ...

    def attach_by_name(self, guest: Guest) -> None:
        """Hand the guest's device to the data plane with nothing but its name to tell whose it is."""
        ...

    def crash(self, host: Host) -> None:
        """Kill what forwards and start it again, without anything it had been told."""
        ...

    def cut_tunnels(self, host: Host) -> None:
        """Take away what carries frames to other hosts, behind the agent's back."""
        ...

    def wipe(self, host: Host) -> None:
        """Take away all that the agent has made on the host, behind its back."""
        ...

    def attached(self, guest: Guest) -> bool:
        """Try to hand the guest's device to the data plane again. False if that cannot be done yet."""
        ...


NOT_YET = {
    "ipv6": "guests' IPv6 addresses are not programmed",
    "gateways": "gateways outside the host are remembered, not programmed",
}


class OvsBackend:
    name = "ovs"
    lacks: Mapping[str, str] = NOT_YET

    def serves(self, device: str) -> bool:
        """The lab's switch is in user space and only listens on devices that the kernel has: not on those is it the
        switch that decides what the host itself gets."""
        return not device.startswith("tap") and device != "uplink"

    def attach_by_name(self, guest: Guest) -> None:
        guest.host.vsctl("add-port", guest.host.bridge, guest.device)

    def crash(self, host: Host) -> None:
        host.ovs.vswitchd.kill()
        host.ovs.vswitchd.start()

    def cut_tunnels(self, host: Host) -> None:
        host.vsctl("del-port", host.bridge, "vxlan-aca", "--", "del-port", host.bridge, "geneve-aca")

    def wipe(self, host: Host) -> None:
        host.vsctl("del-br", host.bridge)

    def attached(self, guest: Guest) -> bool:
        if guest.host.bridge not in guest.host.vsctl("list-br").split():
            return False
        if guest.device not in guest.host.vsctl("list-ports", guest.host.bridge).split():
            guest.attach()
        return True

    def footprint(self, host: Host) -> object:
        """Flows with their cookies, groups, meters, and whose rows in OVSDB carry marks of ours."""
        tables = host.vsctl(
            *("--format=json", "--", "--columns=name,type,options,external_ids", "list", "Interface"),
            *("--", "--columns=name,external_ids,other_config", "list", "Bridge"),
        )
        rows, bridges = map(json.loads, tables.splitlines())
        return {
            "flows": host.flows(host.bridge, cookies=True),
            "groups": sorted(host.ofctl("dump-groups", host.bridge).splitlines()[1:]),
            "meters": sorted(host.ofctl("dump-meters", host.bridge).splitlines()[1:]),
            "interfaces": sorted(json.dumps(_lasting(row)) for row in rows["data"]),
            "bridges": sorted(json.dumps(_lasting(row)) for row in bridges["data"]),
        }


class NetlinkBackend:
    name = "netlink"
    _always_lacks: Mapping[str, str] = {
        "crash": "the kernel forwards, there is no process to crash",
        "two tunnels": "a port's subnets must have one tunnel id, since its device is in one bridge",
        **NOT_YET,
    }

    @cached_property
    def lacks(self) -> Mapping[str, str]:
        if kernel_has_geneve():
            return self._always_lacks
        return {**self._always_lacks, "geneve": "this kernel has no Geneve devices, and the data plane says so"}

    def serves(self, device: str) -> bool:
        return True

    def attach_by_name(self, guest: Guest) -> None:
        """The device is there: nothing else is needed."""

    def crash(self, host: Host) -> None:
        raise LabError(self.lacks["crash"])

    def cut_tunnels(self, host: Host) -> None:
        _delete_devices(host, ("acv",))

    def wipe(self, host: Host) -> None:
        delete_namespaces(namespaces_of(f"{host.namespace.name}-r"))
        _delete_devices(host, ("acb", "acv", "acl"))
        host.run("nft", "flush", "ruleset")

    def attached(self, guest: Guest) -> bool:
        """The agent attaches it."""
        return True

    def footprint(self, host: Host) -> object:
        """Devices with their masters, forwarding entries, addresses, neighbours and routes of bridges and routers,
        namespaces, and the nftables ruleset. Guests' devices and the underlay are not the agent's."""
        links = json.loads(host.run("ip", "-j", "-d", "link") or "[]")
        guests = {link["ifname"] for link in links if link["ifname"].startswith("tap")}
        names = {link["ifname"] for link in links} - {"lo", "uplink"} - guests
        fdb = json.loads(host.run("bridge", "-j", "fdb") or "[]")
        prefix = f"{host.namespace.name}-r-"
        return {
            "links": sorted(names),
            "ports": sorted((link["ifname"], link["master"]) for link in links if "master" in link),
            "fdb": sorted(
                (one["ifname"], one["mac"], one.get("dst", ""), one.get("master", ""))
                for one in fdb
                # What the kernel itself adds for multicast, and for the addresses of the devices.
                if (not one["mac"].startswith(("33:33:", "01:00:5e:")) and one.get("state") != "permanent")
                or "dst" in one
            ),
            "routers": {name: _router_footprint(name) for name in namespaces_of(prefix.removesuffix("-"))},
            "nft": sorted(_without_handles(host.run("nft", "list", "ruleset"))),
        }


def _delete_devices(host: Host, prefixes: tuple[str, ...]) -> None:
    for name in sorted(host.devices()):
        # With one device another may go; `ip` says so and is not asked twice.
        if name.startswith(prefixes) and name in host.devices():
            host.namespace.ip(f"link del {name}")


def kernel_has_geneve() -> bool:
    """Whether the kernel makes devices of the kinds that Geneve tunnels of the netlink data plane are made of."""
    make = "ip link add gv0 type geneve external && ip link add gv1 type dummy"
    return attempt(["unshare", "--net", "sh", "-c", make]).returncode == 0


def _router_footprint(namespace: str) -> object:
    router = Namespace(namespace)
    addresses = json.loads(router.run("ip", "-j", "addr") or "[]")
    return (
        sorted((link["ifname"], link.get("address", "")) for link in addresses),
        sorted((one["local"], one["prefixlen"]) for link in addresses for one in link["addr_info"]),
        sorted(router.run("ip", "route", "show", "table", "all").splitlines()),
        sorted(router.run("ip", "rule").splitlines()),
    )


def _without_handles(ruleset: str) -> list[str]:
    """The lines of a ruleset, the elements of sets one by one, which have no order; a port's chain is called by its
    device, since its number only says how many there were before."""
    for chain, device in PORT_CHAIN.findall(ruleset):
        ruleset = re.sub(rf"\b{chain}\b", f"port of {device}", ruleset)
    lines = ruleset.replace(" = {", "\n").replace(",", "\n").replace("}", "\n").splitlines()
    return [line.strip() for line in lines if line.strip()]


def _lasting(row: list[Any]) -> list[Any]:
    """A row without the moment at which an interface was wired, and without the agent's name, which each has anew."""
    return [
        ["map", [one for one in cell[1] if one[0] not in ("aca-installed-ts", "aca-agent")]]
        if isinstance(cell, list) and cell[:1] == ["map"]
        else cell
        for cell in row
    ]
