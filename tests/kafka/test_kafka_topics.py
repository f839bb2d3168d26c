"""Topics that change under an agent."""

from __future__ import annotations

import pytest

from tests.kafka.agents import assigned, compacted, grouped, settings
from tests.kafka.brokers import Brokers
from tests.kafka.scene import Neighbor, base_record, final, keyed, netlink_host, wait_forwarding, whole_record
from tests.lab import Lab

pytestmark = pytest.mark.lab

FIRST, SECOND = Neighbor(1), Neighbor(2)


@pytest.mark.parametrize("mode", [assigned, grouped])
def test_a_topic_is_deleted_and_made_again(kafka: Brokers, kafka_lab: Lab, mode: object) -> None:
    """What the second one says comes too, from its first record, though the first one was longer."""
    topic = f"again-{getattr(mode, '__name__', '')}"
    host = netlink_host(kafka_lab, "h1")
    kafka.create(topic)
    agent = host.agent(mode(kafka, topic))  # type: ignore[operator]
    kafka.produce(topic, [whole_record("h1", FIRST)] * 5)
    wait_forwarding(host, agent, final([FIRST]))
    kafka.delete(topic)
    kafka.create(topic)
    kafka.produce(topic, [whole_record("h1", SECOND)])
    wait_forwarding(host, agent, final([FIRST, SECOND]))
    assert agent.health() == "SERVING"


def test_a_topic_is_made_after_the_agent_has_started(kafka: Brokers, kafka_lab: Lab) -> None:
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(assigned(kafka, "later"))
    agent.wait_ready()
    kafka.create("later")
    kafka.produce("later", [whole_record("h1", FIRST)])
    wait_forwarding(host, agent, final([FIRST]))


def test_partitions_that_a_group_gets_later_are_read_from_the_beginning(kafka: Brokers, kafka_lab: Lab) -> None:
    host = netlink_host(kafka_lab, "h1")
    kafka.create("grown")
    agent = host.agent(grouped(kafka, "grown"))
    kafka.produce("grown", [whole_record("h1", FIRST)])
    wait_forwarding(host, agent, final([FIRST]))
    kafka.grow("grown", 4)
    kafka.produce("grown", [whole_record("h1", Neighbor(number), partition=number) for number in (1, 2, 3)])
    wait_forwarding(host, agent, final(map(Neighbor, (1, 2, 3))))


def test_a_compacted_topic_is_deleted_and_made_again(kafka: Brokers, kafka_lab: Lab) -> None:
    """An agent that starts then has what the second one says, and nothing of the first."""
    host = netlink_host(kafka_lab, "h1")
    kafka.create("state-again", cleanup_policy="compact")
    kafka.produce("state-again", [base_record("h1"), keyed("h1", FIRST)])
    agent = host.agent(compacted(kafka, "state-again"))
    wait_forwarding(host, agent, final([FIRST]))
    kafka.delete("state-again")
    kafka.create("state-again", cleanup_policy="compact")
    kafka.produce("state-again", [base_record("h1"), keyed("h1", SECOND)])
    agent.kill()
    agent.start()
    wait_forwarding(host, agent, final([SECOND]))


def test_several_ways_at_once(kafka: Brokers, kafka_lab: Lab) -> None:
    host = netlink_host(kafka_lab, "h1")
    for topic in ("way-cell", "way-group"):
        kafka.create(topic, partitions=2)
    agent = host.agent(settings(kafka, assigned=["way-cell:1"], group_topics=["way-group"]))
    kafka.produce("way-cell", [whole_record("h1", Neighbor(9), 0), whole_record("h1", Neighbor(1), 1)])
    kafka.produce("way-group", [whole_record("h1", Neighbor(2), 0), whole_record("h1", Neighbor(3), 1)])
    wait_forwarding(host, agent, final(map(Neighbor, (1, 2, 3))))
