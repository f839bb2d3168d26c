"""The data planes that hosts can have: how they are called here, what stands in them, which tunnels they can make."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import cycle
from typing import Protocol

from deploy.demo.intent import HOSTS, Network, PlannedGuest
from tests.lab import Host
from tests.lab.netns import Namespace, namespaces_of


@dataclass(frozen=True, slots=True)
class Standing:
    """Something that stands in a data plane, in words for people; `missing` names what should be there too."""

    words: str
    missing: tuple[str, ...] = ()

    @property
    def expected(self) -> bool:
        return not self.missing


class Plane(Protocol):
    """What the demonstration must know of a data plane."""

    name: str
    """As [dataplane] kind has it."""
    title: str
    joint: str
    """What guests hang on in the picture, 6 characters."""
    tunnels: frozenset[str]
    """The encapsulations that it can make, named as in alcor.schema.NetworkType."""

    def standing(self, host: Host, network: Network) -> list[Standing]:
        """What the agent has made on the host. Raises LabError."""
        ...

    def commands(self, host: Host) -> list[tuple[str, str]]:
        """How to look at it by hand: (what for, command)."""
        ...


class OvsPlane:
    name = "ovs"
    title = "Open vSwitch"
    joint = "br-int"
    tunnels = frozenset({"VXLAN", "GENEVE"})

    def standing(self, host: Host, network: Network) -> list[Standing]:
        flows = host.flows(host.bridge)
        guests, remote = network.guests_on(host.name), network.neighbours_of(host.name)
        routed = network.routed_on(host.name)
        rows = json.loads(host.vsctl("--format=json", "--columns=name,external_ids", "list", "Interface"))["data"]
        installed = {name for name, (_, ids) in rows if ["aca-installed", "true"] in ids}
        ports = host.vsctl("list-ports", host.bridge).split()
        tunnels = [port for port in ports if not port.startswith("tap")]
        return [
            Standing(
                f"bridge {host.bridge} with {len(ports)} ports: {named(guests)}, tunnels {', '.join(tunnels)}",
                tuple(guest.name for guest in guests if device_of(guest) not in installed),
            ),
            Standing(
                f"flows that send {named(remote)} through a tunnel, each to its host",
                tuple(guest.name for guest in remote if not tunnelled(flows, guest, host)),
            ),
            Standing(
                f"flows that route between {' and '.join(subnet.name for subnet in routed)}",
                tuple(s.name for s in routed if not any(f"nw_dst={s.cidr} " in flow for flow in flows)),
            ),
            Standing(
                f"{len(flows)} flows altogether, among them those that say which addresses guests may use",
                tuple(g.name for g in guests if not any(f"dl_src={g.mac},nw_src={g.ip} " in flow for flow in flows)),
            ),
        ]

    def commands(self, host: Host) -> list[tuple[str, str]]:
        flows = f"OVS_RUNDIR={host.rundir} ovs-ofctl -O OpenFlow14 dump-flows {host.bridge}"
        return [(f"the flows of host {host.name}", flows)]


class NetlinkPlane:
    name = "netlink"
    title = "the kernel's own bridges, routes and nftables"
    joint = "kernel"
    tunnels = frozenset({"VXLAN"})

    def standing(self, host: Host, network: Network) -> list[Standing]:
        guests, remote = network.guests_on(host.name), network.neighbours_of(host.name)
        routed = network.routed_on(host.name)
        links = {link["ifname"]: link for link in json.loads(host.run("ip", "-j", "-d", "link"))}
        kinds = {name: link.get("linkinfo", {}).get("info_kind", "") for name, link in links.items()}
        bridges = [name for name, kind in kinds.items() if kind == "bridge"]
        tunnels = [name for name, kind in kinds.items() if kind == "vxlan"]
        wired = {name for name, link in links.items() if link.get("master") in bridges}
        entries = json.loads(host.run("bridge", "-j", "fdb", "show"))
        behind = {(entry["mac"], entry["dst"]) for entry in entries if "dst" in entry}
        elements = elements_of(json.loads(host.run("nft", "-j", "list", "ruleset")))
        owners = json.dumps(elements.get("owners", []))
        routers = namespaces_of(router_prefix(host))
        addresses = {address for router in routers for address in addresses_in(Namespace(router))}
        return [
            Standing(
                f"{counted(len(bridges), 'bridge')}, one for each tunnel id, with {named(guests)}, and"
                f" {counted(len(tunnels), 'VXLAN device')}",
                tuple(guest.name for guest in guests if device_of(guest) not in wired),
            ),
            Standing(
                f"forwarding entries (FDB) that send {named(remote)} through a tunnel, each to its host",
                tuple(g.name for g in remote if (g.mac, host_address(host, g)) not in behind),
            ),
            Standing(
                f"{counted(len(routers), 'router namespace')} between {' and '.join(s.name for s in routed)}",
                tuple(subnet.name for subnet in routed if subnet.gateway not in addresses),
            ),
            Standing(
                f"{sum(map(len, elements.values()))} elements in nftables sets and maps: who is in which subnet, what"
                " ARP is answered",
                tuple(guest.name for guest in guests if guest.mac not in owners),
            ),
        ]

    def commands(self, host: Host) -> list[tuple[str, str]]:
        inside = f"ip netns exec {host.namespace.name}"
        return [
            (f"the bridges of host {host.name}, and what they forward where", f"{inside} bridge fdb show"),
            (f"the filter of host {host.name}", f"{inside} nft list ruleset"),
            *(
                (f"the routes of a router on host {host.name}", f"ip -n {router} route show table all")
                for router in namespaces_of(router_prefix(host))
            ),
        ]


OVS, NETLINK = OvsPlane(), NetlinkPlane()
CHOICES: Mapping[str, Sequence[Plane]] = {"ovs": (OVS,), "netlink": (NETLINK,), "mixed": (OVS, NETLINK)}


def planes_of_hosts(choice: str) -> dict[str, Plane]:
    """Which data plane each host has; more than one take turns."""
    return dict(zip(HOSTS, cycle(CHOICES[choice]), strict=False))


def first_hosts(planes: Mapping[str, Plane]) -> list[str]:
    """One host of each data plane."""
    found: dict[str, str] = {}
    for host, plane in planes.items():
        found.setdefault(plane.name, host)
    return list(found.values())


def in_words(planes: Mapping[str, Plane]) -> str:
    """What kind of hosts these are."""
    with_ovs = [host for host, plane in planes.items() if plane is OVS]
    if not with_ovs:
        return "two hosts without Open vSwitch, each with an agent"
    if len(with_ovs) == len(planes):
        return "two hosts, each with its own Open vSwitch and agent"
    return f"two hosts, each with an agent; Open vSwitch on {', '.join(with_ovs)} only"


def named(guests: Sequence[PlannedGuest]) -> str:
    return ", ".join(guest.name for guest in guests)


def counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def device_of(guest: PlannedGuest) -> str:
    return f"tap{guest.port_id[:11]}"


def host_address(host: Host, guest: PlannedGuest) -> str:
    """The underlay address of the host that a guest is on."""
    return host.lab.hosts[guest.host].underlay_ip


def tunnelled(flows: Sequence[str], guest: PlannedGuest, host: Host) -> bool:
    """True if a flow says for the guest's MAC which host it is on (register 3, docs/ovs-pipeline.md)."""
    action = f"set_field:{int(IPv4Address(host_address(host, guest))):#x}->reg3"
    return any(f"dl_dst={guest.mac} " in flow and action in flow for flow in flows)


def router_prefix(host: Host) -> str:
    return f"{host.namespace.name}-r"


def addresses_in(namespace: Namespace) -> set[str]:
    links = json.loads(namespace.run("ip", "-j", "-4", "addr") or "[]")
    return {address["local"] for link in links for address in link.get("addr_info", [])}


def elements_of(ruleset: Mapping[str, Sequence[Mapping[str, dict[str, object]]]]) -> dict[str, list[object]]:
    """The elements of each set and map in what `nft -j list ruleset` prints (libnftables-json(5))."""
    found: dict[str, list[object]] = {}
    for entry in ruleset["nftables"]:
        for kind in ("set", "map"):
            elements = entry.get(kind, {}).get("elem", [])
            if isinstance(elements, list) and elements:
                found[str(entry[kind]["name"])] = elements
    return found
