"""Flows of a router: longest prefix match over its connected subnets and its rules."""

from __future__ import annotations

from collections.abc import Iterator

from dataplane.addresses import host_prefix
from dataplane.model import Route, RoutedSubnet, RouterWanted, SubnetRef
from dataplane.ovs.openflow import actions, oxm
from dataplane.ovs.pipeline import parts
from dataplane.ovs.pipeline.layout import REG_ADDRESS, XREG_ROUTER, Flag, Flow, Table, router_key

_PRIORITY_BASE = 1000
_PRIORITY_STEP = 10
_CONNECTED = 5
_RULE = 2


def router_flows(wanted: RouterWanted) -> list[Flow]:
    """All flows of the router. Subnets without a gateway (address and MAC) cannot take part and get none."""
    usable = [routed for routed in wanted.subnets if has_gateway(routed)]
    macs = {routed.subnet.id: routed.subnet.subnet.gateway_mac for routed in usable}
    flows: list[Flow] = []
    for routed in usable:
        flows += _entry(wanted, routed)
        flows += _gateway(wanted, routed)
        flows += _connected(wanted, routed)
        for route in routed.routes:
            gateway_mac = macs.get(route.next_hop_subnet.subnet_id)
            if gateway_mac is not None:
                flows.append(_rule(wanted, routed, route, gateway_mac))
    return flows


def has_gateway(routed: RoutedSubnet) -> bool:
    subnet = routed.subnet.subnet
    return subnet.gateway_mac is not None and subnet.gateway_address is not None and len(subnet.gateway_address) == 4


def _mac(routed: RoutedSubnet) -> bytes:
    mac = routed.subnet.subnet.gateway_mac
    assert mac is not None
    return mac


def _match_router(wanted: RouterWanted) -> bytes:
    return oxm.xreg(XREG_ROUTER, router_key(wanted.id))


def _entry(wanted: RouterWanted, routed: RoutedSubnet) -> Iterator[Flow]:
    yield Flow(
        Table.FORWARD,
        90,
        parts.match_subnet(routed.subnet.ref) + oxm.eth_dst(_mac(routed)),
        actions.apply_actions(actions.set_field(oxm.xreg(XREG_ROUTER, router_key(wanted.id))))
        + actions.goto_table(Table.ROUTE),
    )


def _gateway(wanted: RouterWanted, routed: RoutedSubnet) -> Iterator[Flow]:
    """The gateway of any connected subnet can be pinged from all of them; nothing else is delivered to it."""
    address = routed.subnet.subnet.gateway_address
    assert address is not None
    to_gateway = _match_router(wanted) + parts.ETH_IPV4
    yield Flow(
        Table.ROUTE,
        65000,
        to_gateway + oxm.ip_proto(1) + oxm.ipv4_dst(address) + oxm.icmpv4_type(8),
        actions.apply_actions(
            actions.move(oxm.ETH_SRC, oxm.XREG3, bits=parts.MAC_BITS),
            actions.move(oxm.ETH_DST, oxm.ETH_SRC),
            actions.move(oxm.XREG3, oxm.ETH_DST, bits=parts.MAC_BITS),
            actions.move(oxm.IPV4_SRC, oxm.IPV4_DST),
            actions.set_field(oxm.ipv4_src(address)),
            actions.set_field(oxm.ip_ttl(64)),
            actions.set_field(oxm.icmpv4_type(0)),
            actions.in_port_output(),
        ),
    )
    yield Flow(Table.ROUTE, 64900, to_gateway + oxm.ipv4_dst(address), b"")


def _toward(wanted: RouterWanted, ref: SubnetRef, gateway_mac: bytes) -> bytes:
    """Actions that carry the frame over into the destination's subnet."""
    return (
        parts.enter_subnet(ref)
        + actions.set_field(oxm.eth_src(gateway_mac))
        + parts.set_wire_source(wanted.router.host_dvr_mac or gateway_mac)
        + parts.raise_flag(Flag.ROUTED)
    )


def _connected(wanted: RouterWanted, routed: RoutedSubnet) -> Iterator[Flow]:
    cidr = routed.subnet.subnet.cidr
    resolve = actions.apply_actions(
        _toward(wanted, routed.subnet.ref, _mac(routed)), actions.move(oxm.IPV4_DST, oxm.REG8)
    ) + actions.goto_table(Table.RESOLVE)
    prefixes = [cidr] if cidr.is_ipv4 else []
    prefixes += [host_prefix(address) for address in routed.outliers if len(address) == 4]
    for prefix in prefixes:
        yield Flow(
            Table.ROUTE,
            _PRIORITY_BASE + prefix.length * _PRIORITY_STEP + _CONNECTED,
            _match_router(wanted) + parts.match_ipv4_prefix(prefix),
            resolve,
        )


def _rule(wanted: RouterWanted, routed: RoutedSubnet, route: Route, gateway_mac: bytes) -> Flow:
    return Flow(
        Table.ROUTE,
        _PRIORITY_BASE + route.destination.length * _PRIORITY_STEP + _RULE,
        # Register order: metadata names the subnet that the frame came from, whose table this rule is in.
        parts.match_subnet(routed.subnet.ref) + _match_router(wanted) + parts.match_ipv4_prefix(route.destination),
        actions.apply_actions(
            _toward(wanted, route.next_hop_subnet, gateway_mac),
            actions.set_field(oxm.reg(REG_ADDRESS, int.from_bytes(route.next_hop, "big"))),
        )
        + actions.goto_table(Table.RESOLVE),
    )
