"""Ports whose devices the agent makes: what the tests of them share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from goalstate_proto import common_pb2
from tests.conformance.network import Nic, State, Subnet, neighbor_state, port_state, router_state, subnet_state, v2
from tests.lab import AgentProcess, Host
from tests.lab.netns import Namespace
from tests.lab.ping import ping, reachable

BLUE = Subnet("made-blue", "made-vpc", "10.9.0.0/24", "aa:ff:00:00:09:01", 7100)
GREEN = Subnet("made-green", "made-vpc", "10.9.8.0/24", "aa:ff:00:00:09:02", 7101)
ROUTER = router_state("made-router", (BLUE, GREEN))
NETWORK: tuple[State, ...] = (subnet_state(BLUE), subnet_state(GREEN), ROUTER)
SUCCESS, FAILURE, PENDING = common_pb2.SUCCESS, common_pb2.FAILURE, common_pb2.PENDING


def nic(host: Host, number: int, subnet: Subnet = BLUE, name: str = "") -> Nic:
    """The interface with this number in its subnet."""
    port_id = name or f"{number:08d}-77aa-4ade-8000-000000000000"
    return Nic(port_id, subnet.vpc_id, f"aa:bb:00:00:09:{number:02x}", host.underlay_ip, ((subnet, subnet.at(number)),))


def device_of(port: Nic) -> str:
    return f"tap{port.id[:11]}"


def namespace_of(host: Host, port: Nic) -> Namespace:
    """By name, as people find it."""
    return Namespace(f"{host.namespace.name}-p-{port.id}")


def made_agent(host: Host, how: str = "veth") -> AgentProcess:
    """A ready agent that makes devices."""
    agent = host.agent({"dataplane": {"make_devices": how}})
    agent.wait_ready()
    return agent


def statuses(agent: AgentProcess, *states: State) -> set[int]:
    (reply,) = agent.push_v2(v2(*states))
    return {one.operation_status for one in reply.operation_statuses}


def ports(*nics: Nic) -> list[State]:
    return [port_state(one) for one in nics]


def neighbors(*nics: Nic, layer: int) -> list[State]:
    return [neighbor_state(one, layer=layer) for one in nics]


def reaches(host: Host, port: Nic, ip: str, within: float = 5.0) -> bool:
    """Whether the port's guest, in its namespace, gets an answer to a ping."""
    return reachable(lambda timeout: ping(namespace_of(host, port), ip, timeout=timeout), within)


@dataclass(frozen=True, slots=True)
class End:
    """What `ip` tells of the guest's end."""

    mac: str
    mtu: int
    index: int
    addresses: frozenset[str]
    gateways: frozenset[str]


def inside(host: Host, port: Nic) -> End:
    """Raises CommandError if there is no such namespace or no eth0 in it."""
    namespace = namespace_of(host, port)
    (link,) = _json(namespace, "addr", "show", "dev", "eth0")
    routes = [*_json(namespace, "route", "show", "default"), *_json(namespace, "-6", "route", "show", "default")]
    addresses = {f"{one['local']}/{one['prefixlen']}" for one in link["addr_info"] if one["scope"] == "global"}
    return End(
        link["address"], link["mtu"], link["ifindex"], frozenset(addresses), frozenset(one["gateway"] for one in routes)
    )


def near_index(host: Host, port: Nic) -> int:
    """The index of the host's end. Raises CommandError."""
    (link,) = json.loads(host.run("ip", "-j", "link", "show", "dev", device_of(port)))
    return int(link["ifindex"])


def _json(namespace: Namespace, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(namespace.run("ip", "-j", *arguments) or "[]")
    return found
