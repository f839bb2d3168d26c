"""Brokers that do not let an agent in: it says why, without secrets, serves gRPC, and goes on when it is let in."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from tests.kafka.agents import QUICK, kafka_status
from tests.kafka.brokers import Brokers
from tests.kafka.certificates import EXPIRED, PASSWORD, SCRAM_TLS, TLS, USER, authority_file
from tests.kafka.scene import PATIENCE, Neighbor, final, netlink_host, wait_forwarding, whole_record
from tests.kafka.settings import SCRAM
from tests.lab import AgentProcess, Lab, wait_until

pytestmark = pytest.mark.lab

WRONG = "wrong-horse"


def config(brokers: Brokers, listener: str, **section: Any) -> dict[str, Any]:
    properties = QUICK | {"security.protocol": "SSL", "ssl.ca.location": str(authority_file(brokers.directory.parent))}
    properties |= section.pop("properties", {})
    return {"kafka": {"bootstrap_servers": brokers.bootstrap_of(listener), "properties": properties} | section}


def login(password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": SCRAM,
        "sasl.username": USER,
        "sasl.password": password,
    }


def wait_told(agent: AgentProcess, *words: str) -> None:
    """Until status and log name the trouble."""
    agent.wait_ready()
    wait_until(lambda: all(word in str(kafka_status(agent)).lower() for word in words), PATIENCE, f"status: {words}")
    log = agent.log.read_text().lower()
    assert all(word in log for word in words), log[-2000:]


def test_tls(secure_kafka: Brokers, kafka_lab: Lab) -> None:
    secure_kafka.create("tls")
    secure_kafka.produce("tls", [whole_record("h1", Neighbor(1))])
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(config(secure_kafka, TLS, assigned=["tls:0"]))
    wait_forwarding(host, agent, final([Neighbor(1)]))


def test_an_expired_certificate(secure_kafka: Brokers, kafka_lab: Lab) -> None:
    secure_kafka.create("expired")
    secure_kafka.produce("expired", [whole_record("h1", Neighbor(1))])
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(config(secure_kafka, EXPIRED, assigned=["expired:0"]))
    wait_told(agent, "certificate", "expired")
    assert agent.stop(within=6.0) == 0


def test_a_wrong_password_and_then_the_right_one(secure_kafka: Brokers, kafka_lab: Lab) -> None:
    secure_kafka.create("password")
    secure_kafka.produce("password", [whole_record("h1", Neighbor(1))])
    secure_kafka.allow(USER, AclOperation.READ, ResourceType.TOPIC, "password")
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(config(secure_kafka, SCRAM_TLS, assigned=["password:0"], properties=login(WRONG)))
    wait_told(agent, "authentication")
    assert WRONG not in agent.log.read_text() and WRONG not in str(agent.status())
    agent.stop()
    agent.config["kafka"]["properties"]["sasl.password"] = PASSWORD
    agent.start()
    wait_forwarding(host, agent, final([Neighbor(1)]))
    assert PASSWORD not in agent.log.read_text() and PASSWORD not in str(agent.status())


@pytest.mark.parametrize("way", [{"assigned": ["acl-0:0"]}, {"group_topics": ["acl-1"]}])
def test_what_an_acl_denies_is_said_and_taken_up_when_it_is_allowed(
    secure_kafka: Brokers, kafka_lab: Lab, way: dict[str, list[str]]
) -> None:
    ((mode, (name,)),) = way.items()
    topic = name.partition(":")[0]
    secure_kafka.create(topic)
    secure_kafka.produce(topic, [whole_record("h1", Neighbor(1))])
    secure_kafka.allow(USER, AclOperation.READ, ResourceType.GROUP, f"aca-{mode}")
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(
        config(secure_kafka, SCRAM_TLS, group_id=f"aca-{mode}", properties=login(PASSWORD), **way)
    )
    wait_told(agent, topic, "authorization")
    secure_kafka.allow(USER, AclOperation.READ, ResourceType.TOPIC, topic)
    wait_forwarding(host, agent, final([Neighbor(1)]))


def test_a_group_that_an_acl_denies(secure_kafka: Brokers, kafka_lab: Lab) -> None:
    secure_kafka.create("acl-group")
    secure_kafka.produce("acl-group", [whole_record("h1", Neighbor(1))])
    secure_kafka.allow(USER, AclOperation.READ, ResourceType.TOPIC, "acl-group")
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(
        config(secure_kafka, SCRAM_TLS, group_topics=["acl-group"], group_id="denied", properties=login(PASSWORD))
    )
    wait_told(agent, "group authorization")
    secure_kafka.allow(USER, AclOperation.READ, ResourceType.GROUP, "denied")
    wait_forwarding(host, agent, final([Neighbor(1)]))
