"""How brokers for tests are configured: what a properties file says, and what a formatted directory holds. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LARGEST_RECORD = 64 << 20
"""Bytes; what brokers take, and what the producers of tests may send."""
SCRAM = "SCRAM-SHA-512"
DIRECTORY_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class Ports:
    """Where one broker listens. `plain` is always there, for whoever sets the cluster up."""

    controller: int
    plain: int
    secure: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Listener:
    """One more way to a broker: TLS with the certificate and key in `keystore` (PEM), and SASL/SCRAM with `scram`."""

    name: str
    keystore: Path
    protocol: str = "SSL"

    @property
    def scram(self) -> bool:
        return self.protocol.startswith("SASL_")


@dataclass(frozen=True, slots=True)
class Security:
    """TLS listeners besides the plain one. Who comes by the plain one, or by TLS without SCRAM, may do everything;
    who comes by SCRAM may do what ACLs allow."""

    listeners: Sequence[Listener]


def properties(
    number: int, address: str, all_ports: Mapping[int, Ports], data: Path, security: Security | None
) -> dict[str, str]:
    """The configuration of broker `number`, one of `all_ports`, with Kafka's names."""
    ports = all_ports[number]
    ways = {"PLAIN": ports.plain, **ports.secure}
    advertised = ",".join(f"{name}://{address}:{port}" for name, port in ways.items())
    protocols = {"CONTROLLER": "PLAINTEXT", "PLAIN": "PLAINTEXT"}
    replicas = str(min(3, len(all_ports)))
    in_sync = str(min(2, len(all_ports)))
    made = {
        "process.roles": "broker,controller",
        "node.id": str(number),
        "controller.quorum.voters": ",".join(f"{n}@{address}:{p.controller}" for n, p in all_ports.items()),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAIN",
        "listeners": f"{advertised},CONTROLLER://{address}:{ports.controller}",
        "advertised.listeners": advertised,
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "1",
        "message.max.bytes": str(LARGEST_RECORD),
        "replica.fetch.max.bytes": str(LARGEST_RECORD),
        "socket.request.max.bytes": str(2 * LARGEST_RECORD),
        # A test waits for none of these.
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "log.cleaner.backoff.ms": "200",
        "file.delete.delay.ms": "200",
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "250",
        "replica.lag.time.max.ms": "5000",
        "controller.quorum.election.timeout.ms": "500",
        "controller.quorum.fetch.timeout.ms": "1500",
        "initial.broker.registration.timeout.ms": "30000",
        "log.cleaner.dedupe.buffer.size": str(8 << 20),
        "num.network.threads": "2",
        "num.io.threads": "4",
        "num.recovery.threads.per.data.dir": "1",
    }
    if security is not None:
        made |= {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "sasl.enabled.mechanisms": SCRAM,
        }
        for listener in security.listeners:
            protocols[listener.name] = listener.protocol
            prefix = f"listener.name.{listener.name.lower()}"
            made[f"{prefix}.ssl.keystore.type"] = "PEM"
            made[f"{prefix}.ssl.keystore.location"] = str(listener.keystore)
            if listener.scram:
                made[f"{prefix}.{SCRAM.lower()}.sasl.jaas.config"] = (
                    "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                )
    made["listener.security.protocol.map"] = ",".join(f"{name}:{kind}" for name, kind in protocols.items())
    return made


def as_file(settings: Mapping[str, str]) -> str:
    """The text of a properties file."""
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def meta(cluster: str, number: int, directory_id: str) -> str:
    """The text of meta.properties, which makes a directory one of broker `number`; ids are URL-safe base64 of 16
    bytes."""
    return as_file({"version": "1", "cluster.id": cluster, "node.id": str(number), "directory.id": directory_id})
