"""From wanted values to kernel objects. All pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dataplane.addresses import Prefix, host_prefix
from dataplane.kernel.rtnl import MAIN_TABLE
from dataplane.model import (
    AddressPair,
    NeighborWanted,
    NetworkType,
    PortWanted,
    RoutedSubnet,
    RouterWanted,
    Segment,
    SubnetWanted,
)
from dataplane.netlink.filter import is_apart, number, port_elements, port_rules
from dataplane.netlink.items import (
    ElementItem,
    FloodItem,
    Items,
    Leg,
    LegItem,
    MacItem,
    RouteItem,
    RouterItem,
    RouteValue,
    RuleItem,
    SegmentItem,
    Tap,
    TapItem,
    Via,
    element,
)
from dataplane.netlink.names import host_number, mark_of
from dataplane.netlink.nft import key_bytes, mac_key


def _in_subnet(set_name: str, mark: bytes, *parts: bytes) -> ElementItem:
    return ElementItem(set_name, key_bytes(mark, *parts))


def shared_macs(port_mac: bytes, pairs: Iterable[AddressPair]) -> list[bytes]:
    """MACs of allowed pairs that are not the port's own: several ports may own one (VRRP), so frames to it flood."""
    return sorted({pair.mac for pair in pairs if pair.mac is not None and pair.mac != port_mac})


def subnet_items(wanted: SubnetWanted) -> Items:
    """The gateway's answers."""
    subnet, segment = wanted.subnet, wanted.ref.segment
    items: Items = {SegmentItem(segment): None}
    if subnet.gateway_mac is None:
        return items
    mark = number(mark_of(wanted.id))
    items[ElementItem("senders", subnet.gateway_mac, segment)] = mark
    if subnet.gateway_address is not None and len(subnet.gateway_address) == 4:
        items[_in_subnet("addresses", mark, subnet.gateway_address)] = subnet.gateway_mac
        items[_in_subnet("gateways", mark, subnet.gateway_mac, subnet.gateway_address)] = None
    return items


def port_items(wanted: PortWanted, index: int, name: str, *, hands_up_dhcp: bool) -> Items:
    """A port whose device is there. The subnets must be of one segment."""
    port, first = wanted.port, wanted.subnets[0]
    segment, device = first.ref.segment, number(index)
    apart = is_apart(wanted)
    items: Items = {
        SegmentItem(segment): None,
        TapItem(index): Tap(segment, name, port_rules(wanted, hands_up_dhcp=hands_up_dhcp) if apart else ()),
        element("ports", device): None,
    }
    if apart:
        items[element("apart", device)] = None
    else:
        for set_name, key, data in port_elements(wanted, device, hands_up_dhcp=hands_up_dhcp):
            items[element(set_name, key)] = data or None
    if not port.admin_state_up:
        return items
    mac = port.mac
    shared = shared_macs(mac, port.allowed_pairs) if port.allowed_pairs else []
    items[MacItem(segment, mac)] = Via(ifindex=index)
    items[element("owners", mac_key(device, mac))] = None
    for other in shared:
        items[element("owners", mac_key(device, other))] = None
    for subnet in wanted.subnets:
        mark = number(mark_of(subnet.id))
        items[element("members", mac_key(mark, mac))] = None
        items[element("listeners", mark + device)] = None
        for other in shared:
            items[element("shared", mac_key(mark, other))] = None
    for subnet_id, address in wanted.held:
        if len(address) == 4:
            items[element("addresses", number(mark_of(subnet_id)) + address)] = mac
    gateway_mac = first.subnet.gateway_mac
    if gateway_mac is not None:
        items[element("own_gateway", device)] = gateway_mac
    return items


def neighbor_items(wanted: NeighborWanted) -> Items:
    neighbor = wanted.neighbor
    items: Items = {}
    shared = shared_macs(neighbor.mac, neighbor.allowed_pairs) if neighbor.allowed_pairs else ()
    for ref in wanted.mac_subnets:
        segment, mark = ref.segment, number(mark_of(ref.subnet_id))
        items[SegmentItem(segment)] = None
        items[FloodItem(segment, neighbor.host)] = None
        items[MacItem(segment, neighbor.mac)] = Via(neighbor.host)
        if segment.network_type is NetworkType.GENEVE:
            items[ElementItem("hosts", neighbor.mac, segment)] = number(host_number(neighbor.host))
        items[_in_subnet("members", mark, neighbor.mac)] = None
        items[ElementItem("senders", neighbor.mac, segment)] = mark
        for mac in shared:
            items[_in_subnet("shared", mark, mac)] = None
            items[ElementItem("senders", mac, segment)] = mark
    for ref, address in wanted.addresses:
        if len(address) == 4:
            items[_in_subnet("addresses", number(mark_of(ref.subnet_id)), address)] = neighbor.mac
    return items


def only_items(segment: Segment, subnet_ids: Iterable[str]) -> Items:
    """With one subnet in a segment, group frames of senders that are not known are for it."""
    subnets = list(subnet_ids)
    if len(subnets) != 1:
        return {}
    return {ElementItem("only", b"", segment): number(mark_of(subnets[0])), SegmentItem(segment): None}


def router_items(wanted: RouterWanted, local: Mapping[str, Iterable[bytes]], tunnel_mtu: int) -> Items:
    """A router's namespace, its legs and tables; `local` are the addresses on this host by subnet."""
    legs = [routed for routed in wanted.subnets if routed.subnet.subnet.gateway_mac is not None]
    if not legs:
        return {}
    items: Items = {RouterItem(wanted.id): None}
    for routed in legs:
        items.update(_leg(wanted.id, routed))
    served = {routed.subnet.id for routed in legs}
    items.update(_table(wanted.id, MAIN_TABLE, None, legs, local, tunnel_mtu))
    for routed in legs:
        if any(route.next_hop_subnet.subnet_id in served for route in routed.routes):
            table = mark_of(routed.subnet.id)
            items[RuleItem(wanted.id, routed.subnet.id, table)] = None
            items.update(_table(wanted.id, table, routed, legs, local, tunnel_mtu))
    return items


def _leg(router_id: str, routed: RoutedSubnet) -> Items:
    subnet, segment = routed.subnet.subnet, routed.subnet.ref.segment
    mac = subnet.gateway_mac or b""
    mark = mark_of(subnet.id)
    return {
        SegmentItem(segment): None,
        LegItem(subnet.id): Leg(router_id, segment, mark, mac, subnet.gateway_address or b""),
        MacItem(segment, mac): Via(leg=subnet.id),
        _in_subnet("members", number(mark), mac): None,
        ElementItem("ports", b"", subnet.id): None,
        ElementItem("listeners", number(mark), subnet.id): None,
    }


def _table(
    router_id: str,
    table: int,
    asking: RoutedSubnet | None,
    legs: Iterable[RoutedSubnet],
    local: Mapping[str, Iterable[bytes]],
    tunnel_mtu: int,
) -> Items:
    """Connected subnets, addresses on this host (no tunnel on the way, so no limit), and the asking subnet's rules."""
    items: Items = {}
    rules = {route.destination: route for route in asking.routes} if asking is not None else {}
    by_id = {routed.subnet.id: routed for routed in legs}
    for routed in by_id.values():
        subnet = routed.subnet.subnet
        source = subnet.gateway_address or b""
        for destination in (subnet.cidr, *(host_prefix(address) for address in routed.outliers)):
            if len(source) == len(destination.address):
                items[RouteItem(router_id, table, destination)] = RouteValue(subnet.id, b"", source, tunnel_mtu)
        for address in local.get(subnet.id, ()):
            if len(source) == len(address) and not _covered(address, subnet.cidr, rules):
                items[RouteItem(router_id, table, host_prefix(address))] = RouteValue(subnet.id, b"", source, 0)
    connected = {routed.subnet.subnet.cidr for routed in by_id.values()}
    for destination, route in rules.items():
        leg = route.next_hop_subnet.subnet_id
        if leg in by_id and destination not in connected and destination.is_ipv4:
            near = route.next_hop in local.get(leg, ())
            items[RouteItem(router_id, table, destination)] = RouteValue(
                leg, route.next_hop, b"", 0 if near else tunnel_mtu
            )
    return items


def _covered(address: bytes, cidr: Prefix, rules: Iterable[Prefix]) -> bool:
    """Whether a rule is longer than the connected subnet's prefix and has the address."""
    return any(rule.length > cidr.length and rule.contains(address) for rule in rules)
