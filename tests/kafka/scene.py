"""What a controller writes to a log in tests, what it comes to, and what of it a host's kernel has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from goalstate_proto.common_pb2 import DELETE
from goalstate_proto.goalstate_pb2 import GoalStateV2
from tests.bench.goalstates import (
    VPC,
    add_neighbor,
    add_port,
    add_subnet,
    neighbor_addresses,
    port_id,
    port_ip,
    port_mac,
)
from tests.kafka.brokers import Produced
from tests.lab import AgentProcess, Host, Lab, LabError, wait_until

REMOTE_HOSTS = 200
PATIENCE = 40.0
"""Seconds for what comes by Kafka to stand on a host."""


@dataclass(frozen=True, slots=True)
class Neighbor:
    """Neighbour `number` as of a revision: every revision moves it to the next host."""

    number: int
    revision: int = 1

    @property
    def id(self) -> str:
        return f"{0xA0000000 + self.number:08x}-91c4-4000-8000-{self.number:012x}"

    @property
    def mac(self) -> str:
        return neighbor_addresses(self.number, 1)[0][1]

    @property
    def remote(self) -> str:
        return f"172.16.1.{1 + (self.number + self.revision) % REMOTE_HOSTS}"

    def state(self) -> GoalStateV2:
        message = GoalStateV2()
        ip, mac = neighbor_addresses(self.number, 1)[0]
        add_neighbor(message, self.id, ip, mac, self.remote)
        message.neighbor_states[self.id].configuration.revision_number = self.revision
        return message


def base_state() -> GoalStateV2:
    """VPC, subnet and a port of the host, without which no neighbour is programmed."""
    return add_port(add_subnet(GoalStateV2()), 0)


def neighbor_record(host: str, neighbor: Neighbor, partition: int | None = None) -> Produced:
    """The neighbour alone."""
    return Produced(neighbor.state().SerializeToString(), host.encode(), partition)


def whole_record(host: str, neighbor: Neighbor, partition: int | None = None) -> Produced:
    """The neighbour and all that it needs, so that any agent can program it that knows nothing else."""
    message = base_state()
    message.MergeFrom(neighbor.state())
    return Produced(message.SerializeToString(), host.encode(), partition)


def removal_record(host: str, neighbor: Neighbor, partition: int | None = None) -> Produced:
    message = neighbor.state()
    message.neighbor_states[neighbor.id].operation_type = DELETE
    return Produced(message.SerializeToString(), host.encode(), partition)


def base_record(host: str) -> Produced:
    return Produced(base_state().SerializeToString(), f"{host}|VPC|{VPC}".encode())


def keyed(host: str, neighbor: Neighbor) -> Produced:
    """For a compacted topic: under the resource's own key."""
    return Produced(neighbor.state().SerializeToString(), f"{host}|NEIGHBOR|{neighbor.id}".encode())


def tombstone(host: str, neighbor: Neighbor) -> Produced:
    return Produced(None, f"{host}|NEIGHBOR|{neighbor.id}".encode())


def final(neighbors: Iterable[Neighbor]) -> dict[str, str]:
    """MAC to remote host: the newest revision of each."""
    newest: dict[int, Neighbor] = {}
    for one in neighbors:
        if one.number not in newest or newest[one.number].revision <= one.revision:
            newest[one.number] = one
    return {one.mac: one.remote for one in newest.values()}


def netlink_host(lab: Lab, name: str) -> Host:
    """A host with the device of the port of base_state()."""
    host = lab.host(name, dataplane="netlink")
    host.guest(port_id(0), mac=port_mac(0), ips=(f"{port_ip(0)}/8",))
    return host


def forwarding(host: Host) -> dict[str, str]:
    """MAC to remote host, as the kernel has it."""
    found = {}
    for line in host.run("bridge", "fdb").splitlines():
        entry = re.match(r"(\S+) dev acv\S+ dst (\S+)", line)
        if entry is not None and entry[1] != "00:00:00:00:00:00":
            found[entry[1]] = entry[2]
    return found


def wait_forwarding(host: Host, agent: AgentProcess, wanted: dict[str, str], within: float = PATIENCE) -> None:
    """Until the kernel forwards to exactly these. Raises AssertionError with the difference, at once if the
    agent is gone."""

    def settled() -> bool:
        return forwarding(host) == wanted or not agent.running

    # What differs says more than that it does.
    with suppress(LabError):
        wait_until(settled, within, "the log's final state in the kernel")
    assert forwarding(host) == wanted, agent.log_tail()
