"""How agents of tests are told about Kafka: the one place that knows names of settings and of status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.kafka.brokers import Brokers
from tests.lab import AgentProcess

# What takes its time in production is not to take a test's.
QUICK = {
    "reconnect.backoff.ms": "100",
    "reconnect.backoff.max.ms": "500",
    "topic.metadata.refresh.interval.ms": "1000",
    "fetch.wait.max.ms": "100",
}


def settings(brokers: Brokers, properties: Mapping[str, str] | None = None, **kafka: Any) -> dict[str, Any]:
    """An agent's configuration with a section [kafka]."""
    section = {"bootstrap_servers": brokers.bootstrap, "properties": QUICK | dict(properties or {})} | kafka
    return {"kafka": section}


def assigned(brokers: Brokers, topic: str, partitions: int = 1, **more: Any) -> dict[str, Any]:
    """Partitions from 0 of a topic, without a group."""
    return settings(brokers, assigned=[f"{topic}:{number}" for number in range(partitions)], **more)


def compacted(brokers: Brokers, topic: str, **more: Any) -> dict[str, Any]:
    """A compacted topic of one partition, which tells everything."""
    return settings(brokers, assigned=[f"{topic}:0"], compacted=[topic], **more)


def grouped(brokers: Brokers, topic: str, **more: Any) -> dict[str, Any]:
    """A member of a group, by default one named for the topic: brokers outlive tests, and so do groups."""
    return settings(brokers, group_topics=[topic], **{"group_id": f"aca-{topic}"} | more)


def kafka_status(agent: AgentProcess) -> dict[str, Any]:
    """What `aca status --json` says of Kafka."""
    found: dict[str, Any] = agent.status()["kafka"]
    return found
