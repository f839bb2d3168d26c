"""Records as no tutorial has them."""

from __future__ import annotations

import random

import pytest

from goalstate_proto.common_pb2 import SUCCESS
from goalstate_proto.goalstate_pb2 import GoalStateV2
from tests.kafka.agents import assigned, compacted, grouped, kafka_status
from tests.kafka.brokers import Brokers, Produced
from tests.kafka.scene import (
    PATIENCE,
    Neighbor,
    base_record,
    base_state,
    final,
    forwarding,
    keyed,
    netlink_host,
    removal_record,
    tombstone,
    wait_forwarding,
    whole_record,
)
from tests.lab import Lab, wait_until

pytestmark = pytest.mark.lab

LARGE = 50_000_000
PADDING = 10_000


def test_a_tombstone_removes_live_and_after_a_restart(kafka: Brokers, kafka_lab: Lab) -> None:
    kafka.create("graves", cleanup_policy="compact")
    host = netlink_host(kafka_lab, "h1")
    some = [Neighbor(number) for number in range(5)]
    kafka.produce("graves", [base_record("h1"), *(keyed("h1", one) for one in some)])
    agent = host.agent(compacted(kafka, "graves"))
    wait_forwarding(host, agent, final(some))
    kafka.produce("graves", [tombstone("h1", some[0])])
    wait_forwarding(host, agent, final(some[1:]))
    agent.kill()
    # While nobody looks, and after that only the tombstone may be left in the log.
    kafka.produce("graves", [tombstone("h1", some[1])])
    agent.start()
    wait_forwarding(host, agent, final(some[2:]))


def test_duplicates_and_records_out_of_order_change_nothing(kafka: Brokers, kafka_lab: Lab) -> None:
    """Revisions decide, whatever comes last."""
    kafka.create("shuffled", partitions=3)
    host = netlink_host(kafka_lab, "h1")
    neighbors = [Neighbor(number, revision) for number in range(20) for revision in (1, 2, 3)]
    records = [whole_record("h1", one, partition) for one in neighbors for partition in (0, 1, 2)]
    random.Random(3).shuffle(records)
    agent = host.agent(assigned(kafka, "shuffled", 3))
    kafka.produce("shuffled", records)
    wait_forwarding(host, agent, final(neighbors))
    kafka.produce("shuffled", records)
    last = Neighbor(30)
    kafka.produce("shuffled", [whole_record("h1", last, partition) for partition in (0, 1, 2)])
    wait_forwarding(host, agent, final([*neighbors, last]))


def test_what_grpc_and_kafka_say_of_one_resource(kafka: Brokers, kafka_lab: Lab) -> None:
    """The higher revision stands, whichever way and in whichever order they come."""
    kafka.create("both")
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(assigned(kafka, "both"))
    agent.wait_ready()
    (reply,) = agent.push_v2(GoalStateV2.FromString(whole_record("h1", Neighbor(1, 5)).value or b""))
    assert all(one.operation_status == SUCCESS for one in reply.operation_statuses)
    kafka.produce("both", [whole_record("h1", Neighbor(1, 4)), whole_record("h1", Neighbor(2, 7))])
    wait_forwarding(host, agent, final([Neighbor(1, 5), Neighbor(2, 7)]))
    agent.push_v2(Neighbor(2, 6).state())
    agent.push_v2(Neighbor(3, 1).state())
    wait_forwarding(host, agent, final([Neighbor(1, 5), Neighbor(2, 7), Neighbor(3, 1)]))


def test_a_deletion_is_a_record_like_others(kafka: Brokers, kafka_lab: Lab) -> None:
    kafka.create("deletions")
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(grouped(kafka, "deletions"))
    kafka.produce("deletions", [whole_record("h1", Neighbor(1)), whole_record("h1", Neighbor(2))])
    wait_forwarding(host, agent, final([Neighbor(1), Neighbor(2)]))
    kafka.produce("deletions", [removal_record("h1", Neighbor(1, 2))])
    wait_forwarding(host, agent, final([Neighbor(2)]))


def test_records_of_other_hosts_are_left_alone(kafka: Brokers, kafka_lab: Lab) -> None:
    kafka.create("cell")
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(assigned(kafka, "cell"))
    foreign = [Produced(b"\xff" * 100, b"h2"), whole_record("h2", Neighbor(1)), whole_record("h3", Neighbor(2))]
    kafka.produce("cell", [*foreign, whole_record("h1", Neighbor(3)), whole_record(host.underlay_ip, Neighbor(4))])
    wait_forwarding(host, agent, final([Neighbor(3), Neighbor(4)]))


def test_a_record_of_50_mb(kafka: Brokers, kafka_lab: Lab) -> None:
    """It is applied, and the records around it are not lost."""
    kafka.create("huge")
    host = netlink_host(kafka_lab, "h1")
    many = [Neighbor(number) for number in range(1000, 1000 + LARGE // PADDING)]
    message = base_state()
    for one in many:
        message.MergeFrom(one.state())
        message.neighbor_states[one.id].configuration.name = "n" * PADDING
    value = message.SerializeToString()
    assert len(value) >= LARGE
    agent = host.agent(assigned(kafka, "huge"))
    before, after = Neighbor(0), Neighbor(1)
    kafka.produce("huge", [whole_record("h1", before), Produced(value, b"h1"), whole_record("h1", after)])
    wait_forwarding(host, agent, final([before, *many, after]))
    kafka.delete("huge")


def test_what_cannot_be_read_is_put_aside_and_the_rest_goes_on(kafka: Brokers, kafka_lab: Lab) -> None:
    for topic in ("poisoned", "poison"):
        kafka.create(topic)
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(grouped(kafka, "poisoned", dead_letter_topic="poison"))
    bad = Produced(b"\xff\xff\xff", b"h1", headers=[("trace", b"7")])
    kafka.produce("poisoned", [whole_record("h1", Neighbor(1)), bad, whole_record("h1", Neighbor(2))])
    wait_forwarding(host, agent, final([Neighbor(1), Neighbor(2)]))
    wait_until(lambda: kafka.committed("aca-poisoned", "poisoned") == [3], PATIENCE, "all three committed")
    (dead,) = wait_until(lambda: kafka.read("poison"), PATIENCE, "the dead letter")
    assert dead.value() == bad.value and dead.key() == b"h1"
    told = b" ".join(value for _, value in dead.headers())
    assert b"poisoned" in told and b"1" in told, dead.headers()
    assert "poison" in str(kafka_status(agent))


def test_a_dead_letter_that_cannot_be_written_holds_up_nothing(kafka: Brokers, kafka_lab: Lab) -> None:
    kafka.create("no-grave")
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(assigned(kafka, "no-grave", dead_letter_topic="never-made"))
    kafka.produce("no-grave", [Produced(b"\xff\xff\xff", b"h1"), whole_record("h1", Neighbor(1))])
    wait_forwarding(host, agent, final([Neighbor(1)]))
    wait_until(lambda: "never-made" in agent.log.read_text(), PATIENCE, "the log names it")
    assert forwarding(host) == final([Neighbor(1)]) and agent.health() == "SERVING"
