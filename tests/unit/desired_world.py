"""Values and changes for tests of the desired state, in few words, and a host that follows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aca.dispatch.plan import Plan, batches_of, make_plan
from aca.goalstate.changes import Change, RouterPatch, TablePatch
from aca.goalstate.desired import DesiredState
from dataplane.addresses import parse_address, parse_mac, parse_prefix
from dataplane.base import Capabilities, Outcome
from dataplane.model import (
    AddressPair,
    DhcpBinding,
    FixedIp,
    Gateway,
    GatewayKind,
    Key,
    Kind,
    Layer,
    Neighbor,
    NetworkType,
    Port,
    RoutingRule,
    SecurityGroup,
    Subnet,
    Vpc,
    Wanted,
)
from tests.unit.fake_plane import OVERLAYS, SwitchlessOvs, keep

HERE = parse_address("192.0.2.11")
THERE = parse_address("192.0.2.12")
YONDER = parse_address("192.0.2.13")
LATER = 1_000

MAC = parse_mac


def vpc(name: str = "v", *, tunnel: int = 0, revision: int = 1) -> Vpc:
    return Vpc(name, revision, "", "", None, tunnel, ())


def subnet(
    name: str = "s",
    cidr: str = "10.0.0.0/24",
    *,
    vpc: str = "v",
    tunnel: int = 10,
    kind: NetworkType | None = None,
    gateway: str = "",
    gateway_mac: str = "fa:16:3e:00:00:01",
    revision: int = 1,
    **more: Any,
) -> Subnet:
    optional: dict[str, Any] = {"dhcp_enable": True, "dhcp_options": (), "dns": (), "availability_zone": ""} | more
    return Subnet(
        name,
        revision,
        vpc,
        "",
        kind,
        tunnel,
        parse_prefix(cidr),
        parse_address(gateway) if gateway else None,
        MAC(gateway_mac) if gateway else None,
        **optional,
    )


def fixed(*ips: str) -> tuple[FixedIp, ...]:
    """Of texts like 's 10.0.0.5'."""
    return tuple(FixedIp(subnet_id, parse_address(text)) for subnet_id, text in (ip.split() for ip in ips))


def pair(text: str, mac: str | None = None) -> AddressPair:
    return AddressPair(parse_prefix(text), MAC(mac) if mac else None)


def port(
    name: str = "p",
    *ips: str,
    vpc: str = "v",
    mac: str = "fa:16:3e:00:01:01",
    up: bool = True,
    pairs: tuple[AddressPair, ...] = (),
    revision: int = 1,
    **more: Any,
) -> Port:
    return Port(
        name,
        revision,
        vpc,
        more.get("label", ""),
        more.get("device_id", ""),
        more.get("device_owner", ""),
        MAC(mac),
        up,
        fixed(*ips),
        pairs,
        more.get("groups", ()),
    )


def neighbor(
    name: str = "n",
    *ips: str,
    vpc: str = "v",
    mac: str = "fa:16:3e:00:02:01",
    host: bytes = THERE,
    layer: Layer = Layer.L2,
    pairs: tuple[AddressPair, ...] = (),
    revision: int = 1,
) -> Neighbor:
    return Neighbor(name, revision, vpc, MAC(mac), host, fixed(*ips), layer, pairs)


def rule(destination: str, next_hop: str | None, *, name: str = "", priority: int = 0) -> RoutingRule:
    hop = parse_address(next_hop) if next_hop else None
    return RoutingRule(name or destination, "", parse_prefix(destination), hop, priority, True)


def table(subnet_id: str, *rules: RoutingRule, without: tuple[RoutingRule, ...] = ()) -> TablePatch:
    return TablePatch(subnet_id, rules, without)


def router(name: str, *tables: TablePatch | str, mac: str | None = None, revision: int = 1) -> RouterPatch:
    """Tables, or just the ids of subnets."""
    patches = tuple(TablePatch(one, (), ()) if isinstance(one, str) else one for one in tables)
    return RouterPatch(name, revision, MAC(mac) if mac else None, patches)


def dhcp(
    subnet_id: str = "s",
    ipv4: str | None = "10.0.0.5",
    *,
    mac: str = "fa:16:3e:00:01:01",
    host_name: str = "",
    revision: int = 1,
) -> DhcpBinding:
    return DhcpBinding(subnet_id, revision, MAC(mac), parse_address(ipv4) if ipv4 else None, None, host_name)


def group(name: str, *, revision: int = 1) -> SecurityGroup:
    return SecurityGroup(name, revision, "v", "", ())


def gateway(name: str, *, kind: GatewayKind = GatewayKind.ZETA, revision: int = 1) -> Gateway:
    return Gateway(name, revision, kind, (), "v", "s", 0, 0)


KINDS: Mapping[type, Kind] = {
    Vpc: Kind.VPC,
    Subnet: Kind.SUBNET,
    Port: Kind.PORT,
    Neighbor: Kind.NEIGHBOR,
    RouterPatch: Kind.ROUTER,
    DhcpBinding: Kind.DHCP,
    SecurityGroup: Kind.SECURITYGROUP,
    Gateway: Kind.GATEWAY,
}


def upsert(value: Any, *, full: bool = True) -> Change:
    return Change(KINDS[type(value)], value.id, value.id, 2, value.revision, False, full, value, "")


def delete(kind: Kind, resource_id: str, revision: int = LATER) -> Change:
    return Change(kind, resource_id, resource_id, 4, revision, True, False, None, "")


def new_state(**capabilities: Any) -> DesiredState:
    can = Capabilities(**({"network_types": OVERLAYS} | capabilities))
    return DesiredState(frozenset({HERE}), NetworkType.VXLAN, can)


class FollowingHost:
    """A desired state and what is programmed of it: the wanted values, what is said of them, and OVS flows."""

    def __init__(self, state: DesiredState | None = None, ofports: Mapping[str, int] | None = None) -> None:
        self.state = state or new_state()
        self.wanted: dict[Key, Wanted] = {}
        self.verdicts: dict[Key, Outcome] = {}
        self.ovs = SwitchlessOvs(ofports or {})
        self.now = 0.0

    def merge(self, *messages: Iterable[Change] | Any) -> list[Outcome | None]:
        """Merge values or changes; nothing is programmed."""
        changes = [one if isinstance(one, Change) else upsert(one) for one in messages]
        return self.state.merge(changes, self.now)

    def program(self) -> Plan:
        """Plan what has changed and make it so, every lane in turn."""
        dirty = self.state.take_dirty()
        plan = make_plan(self.state, dirty)
        for kind, marked in dirty.items():
            for resource_id in marked:
                self.verdicts.pop(Key(kind, resource_id), None)
        self.verdicts |= plan.verdicts
        self.verdicts |= {key: outcome for key, outcome in plan.settled.items() if outcome.reason}
        for work in plan.lanes.values():
            batches = batches_of(work)
            keep(self.wanted, batches)
            self.ovs.apply(batches)
        return plan

    def push(self, *messages: Any) -> Plan:
        """Merge and program; every change must be accepted."""
        settled = self.merge(*messages)
        assert settled == [None] * len(settled)
        return self.program()

    def verdict(self, kind: Kind, resource_id: str) -> str:
        """The status and the reason in one text; empty if there is nothing to say."""
        outcome = self.verdicts.get(Key(kind, resource_id))
        return f"{outcome.status.value}: {outcome.reason}" if outcome else ""

    def assert_empty(self) -> None:
        """After everything was deleted, nothing is left in memory or programmed."""
        state = self.state
        for kind in Kind:
            assert not state.store(kind), kind
        assert not state.index and not state.resolved and not state.next_hops
        assert not state.vpc_subnets and not state.router_lanes
        assert not self.wanted
        assert not self.verdicts
        self.ovs.assert_empty()
