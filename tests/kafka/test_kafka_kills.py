"""Agents and brokers that die under load: in the end the kernel has what the log comes to."""

from __future__ import annotations

import random
import threading

import pytest

from tests.kafka.agents import assigned, compacted, grouped, kafka_status
from tests.kafka.brokers import Brokers
from tests.kafka.load import Load
from tests.kafka.scene import (
    PATIENCE,
    Neighbor,
    base_record,
    final,
    forwarding,
    keyed,
    netlink_host,
    tombstone,
    wait_forwarding,
)
from tests.lab import Lab, wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

LIVES_S = (0.3, 1.5)
"""How long an agent lives: it needs 0.7 s to serve, so some die before, some in the middle of their first records."""
FEW, MANY = 5, 50
COUNTS = [FEW, pytest.param(MANY, marks=[pytest.mark.long, pytest.mark.timeout(1200)])]
AWAY_S, LONG_AWAY_S = 5.0, 60.0


@pytest.mark.parametrize("kills", COUNTS)
def test_an_agent_that_is_killed_again_and_again_misses_no_record(kafka: Brokers, kafka_lab: Lab, kills: int) -> None:
    topic, dice = f"killed-{kills}", random.Random(kills)
    kafka.create(topic, partitions=3)
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(grouped(kafka, topic))
    with Load(kafka, topic, host, partitions=3) as load:
        for _ in range(kills):
            threading.Event().wait(dice.uniform(*LIVES_S))
            agent.kill()
            agent.start()
    wait_forwarding(host, agent, load.outcome)
    # What stands is also what has been committed: nothing is left to be told.
    ends = [len([m for m in kafka.read(topic) if m.partition() == number]) for number in range(3)]
    wait_until(lambda: kafka.committed(f"aca-{topic}", topic, 3) == ends, PATIENCE, f"{ends} committed")


@pytest.mark.parametrize("kills", COUNTS)
def test_of_a_compacted_topic_the_final_state_stands(kafka: Brokers, kafka_lab: Lab, kills: int) -> None:
    topic, dice = f"state-{kills}", random.Random(kills)
    kafka.create(topic, cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0.01")
    kafka.produce(topic, [base_record("h1")])
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(compacted(kafka, topic))
    wanted: dict[int, Neighbor] = {}
    for turn in range(1, kills + 1):
        records = []
        for number in dice.sample(range(60), 30):
            if number in wanted and dice.random() < 0.3:
                records.append(tombstone("h1", wanted.pop(number)))
            else:
                wanted[number] = Neighbor(number, turn)
                records.append(keyed("h1", wanted[number]))
        kafka.produce(topic, records)
        threading.Event().wait(dice.uniform(*LIVES_S))
        agent.kill()
        agent.start()
    wait_forwarding(host, agent, final(wanted.values()))


def test_one_of_three_brokers_is_killed_and_comes_back(three_brokers: Brokers, kafka_lab: Lab) -> None:
    three_brokers.create("of-three", partitions=3)
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(assigned(three_brokers, "of-three", 3))
    with Load(three_brokers, "of-three", host, partitions=3) as load:
        for number in (1, 2):
            before = load.written
            three_brokers[number].kill()
            wait_until(lambda before=before: load.written > before + 50, PATIENCE, "records meanwhile")
            three_brokers[number].start()
    wait_forwarding(host, agent, load.outcome)


@pytest.mark.parametrize("seconds", [AWAY_S, pytest.param(LONG_AWAY_S, marks=pytest.mark.long)])
def test_all_brokers_are_away_for_a_while(kafka: Brokers, kafka_lab: Lab, seconds: float) -> None:
    topic = f"away-{seconds:.0f}"
    kafka.create(topic)
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(assigned(kafka, topic))
    with Load(kafka, topic, host) as load:
        wait_until(lambda: len(forwarding(host)) > 10, PATIENCE, "the first records")
    wait_forwarding(host, agent, load.outcome)
    kafka.stop()
    wait_until(lambda: not kafka_status(agent)["connected"], PATIENCE, "it says that it is disconnected")
    threading.Event().wait(seconds)
    # Traffic and gRPC go on meanwhile.
    assert forwarding(host) == load.outcome
    assert agent.health() == "SERVING"
    lines = [line for line in agent.log.read_text().splitlines() if "disconnected" in line]
    assert len(lines) == 1, lines
    kafka.start()
    with Load(kafka, topic, host, after=load) as more:
        wait_until(lambda: more.written > 50, PATIENCE, "records")
    wait_forwarding(host, agent, more.outcome)
    wait_until(lambda: kafka_status(agent)["connected"], PATIENCE, "it says that it is connected")


def test_an_agent_ends_in_time_while_brokers_are_away(kafka: Brokers, kafka_lab: Lab) -> None:
    kafka.create("no-end")
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(grouped(kafka, "no-end"))
    with Load(kafka, "no-end", host) as load:
        wait_until(lambda: len(forwarding(host)) > 10, PATIENCE, "the first records")
    kafka.stop()
    try:
        assert agent.stop(within=6.0) == 0
        # And it starts without them.
        agent.start()
        agent.wait_ready()
    finally:
        kafka.start()
    wait_forwarding(host, agent, load.outcome)
