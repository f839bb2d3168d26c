"""Agents that share a group: gateways or relays, which program whatever they are given."""

from __future__ import annotations

import pytest

from tests.kafka.agents import grouped
from tests.kafka.brokers import Brokers
from tests.kafka.load import Load
from tests.kafka.scene import PATIENCE, Neighbor, final, forwarding, netlink_host, wait_forwarding, whole_record
from tests.lab import Lab, LabError, wait_until

pytestmark = pytest.mark.lab

SESSION = {"session.timeout.ms": "3000", "heartbeat.interval.ms": "500"}


def test_of_three_one_is_killed_and_one_is_added(kafka: Brokers, kafka_lab: Lab) -> None:
    """Every record is programmed by a member; what the killed one did not finish, another does."""
    kafka.create("shared", partitions=6)
    hosts = [netlink_host(kafka_lab, f"h{number}") for number in range(1, 5)]
    config = grouped(kafka, "shared", properties=SESSION, group_id="relays", shared_group=True)
    agents = [host.agent(config) for host in hosts[:3]]
    with Load(kafka, "shared", "nobody", partitions=6) as load:
        wait_until(lambda: all(forwarding(host) for host in hosts[:3]), PATIENCE, "each has its share")
        agents[0].kill()
        before = load.written
        agents.append(hosts[3].agent(config))
        wait_until(lambda: bool(forwarding(hosts[3])), PATIENCE, "the fourth has a share")
        wait_until(lambda: load.written > before + 100, PATIENCE, "more records")

    def everywhere() -> set[tuple[str, str]]:
        return {entry for host in hosts for entry in forwarding(host).items()}

    wanted = set(load.outcome.items())
    wait_until(lambda: wanted <= everywhere(), PATIENCE, "everything stands somewhere")
    ends = [sum(m.partition() == number for m in kafka.read("shared")) for number in range(6)]
    wait_until(lambda: kafka.committed("relays", "shared", 6) == ends, PATIENCE, f"{ends} committed")


def test_two_agents_with_one_static_id(kafka: Brokers, kafka_lab: Lab) -> None:
    """The one that is fenced says so and ends with a status of its own; the other goes on."""
    kafka.create("twins")
    hosts = [netlink_host(kafka_lab, name) for name in ("h1", "h2")]
    config = grouped(kafka, "twins", group_id="aca-twin") | {"host": {"id": "twin"}}
    first = hosts[0].agent(config)
    kafka.produce("twins", [whole_record("twin", Neighbor(1))])
    wait_forwarding(hosts[0], first, final([Neighbor(1)]))
    second = hosts[1].agent(config)
    wait_until(lambda: not (first.running and second.running), PATIENCE, "one of them ends")
    fenced, alive, where = (second, first, hosts[0]) if first.running else (first, second, hosts[1])
    with pytest.raises(LabError, match="exit status 3"):
        fenced.wait_ready()
    assert "fenced" in fenced.log_tail() and "twin" in fenced.log_tail()
    kafka.produce("twins", [whole_record("twin", Neighbor(2))])
    wait_until(lambda: Neighbor(2).mac in forwarding(where), PATIENCE, "the other goes on")
    assert alive.health() == "SERVING"


def test_an_agent_that_comes_back_with_other_topics_reads_those(kafka: Brokers, kafka_lab: Lab) -> None:
    """A broker gives a static member that is back in time what it had before, whatever it asks for now: it comes back
    as another member, which has its turn when the session of the one before is over."""
    for number, topic in enumerate(("asked-first", "asked-then")):
        kafka.create(topic)
        kafka.produce(topic, [whole_record("h1", Neighbor(number))])
    host = netlink_host(kafka_lab, "h1")
    agent = host.agent(grouped(kafka, "asked-first", group_id="aca-changing", properties=SESSION))
    wait_forwarding(host, agent, final([Neighbor(0)]))
    agent.kill()
    agent.config["kafka"]["group_topics"] = ["asked-then"]
    agent.start()
    wait_until(lambda: Neighbor(1).mac in forwarding(host), PATIENCE, "what the other topic says")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_data_plane_is_slower_than_the_session(kafka: Brokers, kafka_lab: Lab, protocol: str) -> None:
    """The member stays: heartbeats do not wait for the data plane, and nothing is done twice or lost."""
    topic = f"slow-{protocol}"
    kafka.create(topic)
    host = netlink_host(kafka_lab, "h1")
    session = SESSION if protocol == "classic" else {}
    longest = {"max.poll.interval.ms": "6000"} | session
    config = grouped(kafka, topic, properties=longest, group_protocol=protocol)
    rules = ["delay at apply.neighbor by 8", "delay at apply.neighbor 2 by 4"]
    agent = host.agent(config | {"faults": {"rules": rules}})
    kafka.produce(topic, [whole_record("h1", Neighbor(number)) for number in range(50)])
    wait_forwarding(host, agent, final(map(Neighbor, range(50))))
    wait_until(lambda: kafka.committed(f"aca-{topic}", topic) == [50], PATIENCE, "50 committed")
    assert "fenced" not in agent.log.read_text()
