"""Brokers for tests do what tests ask of them."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AclOperation, ResourceType

from tests.kafka.broker import missing
from tests.kafka.brokers import Brokers, Inside, Produced
from tests.kafka.certificates import EXPIRED, PASSWORD, SCRAM_TLS, TLS, USER, authority_file
from tests.kafka.settings import SCRAM
from tests.lab import Lab, LabError, wait_until
from tests.lab.lab import FABRIC_IP

pytestmark = [pytest.mark.lab, pytest.mark.skipif(bool(missing()), reason=missing())]

MAKER = """
import sys
from pathlib import Path
from tests.kafka.brokers import Brokers, Loopback
brokers = Brokers(Path(sys.argv[1]), Loopback())
brokers.start()
print(brokers[1].pid, flush=True)
sys.stdin.read()
"""


def values(brokers: Brokers, topic: str) -> list[bytes]:
    return [message.value() for message in brokers.read(topic)]


def first_error(brokers: Brokers, listener: str, **settings: object) -> KafkaError | None:
    """The first error in reading the topic "guarded"; None if there is a record first."""
    ca = {"ssl.ca.location": str(authority_file(brokers.directory.parent))}
    errors: list[KafkaError] = []
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    usual = {"bootstrap.servers": brokers.bootstrap_of(listener), "group.id": "guards", "log_level": 0}
    consumer = brokers.place.call(lambda: Consumer(usual | ca | dotted | {"error_cb": errors.append}))
    try:
        consumer.assign([TopicPartition("guarded", 0, 0)])
        found: list[KafkaError | None] = []

        def polled() -> bool:
            message = consumer.poll(0.1)
            if message is not None:
                found.append(message.error())
            elif not errors:
                # Of a topic that we may not see, polling says nothing.
                with suppress(KafkaException):
                    denied = consumer.list_topics("guarded", timeout=1.0).topics["guarded"].error
                    errors.extend([denied] if denied else [])
            return bool(found or errors)

        wait_until(polled, 20.0, "a record or an error")
        return found[0] if found else errors[0]
    finally:
        consumer.close()


def test_a_broker_that_is_killed_has_its_records_when_it_is_back(kafka: Brokers) -> None:
    kafka.create("kept", partitions=2)
    kafka.produce("kept", [Produced(b"a", partition=0), Produced(None, key=b"k", partition=1)])
    kafka[1].kill()
    kafka[1].start()
    assert values(kafka, "kept") == [b"a", None]


def test_topics_grow_and_go(kafka: Brokers) -> None:
    kafka.create("brief")
    kafka.grow("brief", 3)
    kafka.produce("brief", [Produced(b"x", partition=2)])
    assert values(kafka, "brief") == [b"x"]
    kafka.delete("brief")
    kafka.create("brief")
    assert values(kafka, "brief") == []


def test_a_record_of_50_mb_is_taken(kafka: Brokers) -> None:
    kafka.create("large")
    kafka.produce("large", [Produced(b"x" * 50_000_000)])
    assert [len(value) for value in values(kafka, "large")] == [50_000_000]
    kafka.delete("large")


def test_hosts_of_a_lab_reach_the_broker(kafka: Brokers, kafka_lab: Lab) -> None:
    host = kafka_lab.host("h1", dataplane="netlink")
    address, port = kafka.bootstrap.split(":")
    host.run(sys.executable, "-c", f"import socket; socket.create_connection(({address!r}, {port}), 5)")


def test_of_three_brokers_one_may_die(three_brokers: Brokers) -> None:
    three_brokers.create("safe")
    three_brokers[2].kill()
    three_brokers.produce("safe", [Produced(b"meanwhile")])
    three_brokers[2].start()
    assert values(three_brokers, "safe") == [b"meanwhile"]


def test_who_may_do_what(secure_kafka: Brokers) -> None:
    secure_kafka.create("guarded")
    secure_kafka.produce("guarded", [Produced(b"secret")])
    assert first_error(secure_kafka, TLS, security_protocol="SSL") is None
    expired = first_error(secure_kafka, EXPIRED, security_protocol="SSL")
    assert expired is not None and expired.code() == KafkaError._SSL and "certificate" in expired.str()

    login = {"security_protocol": "SASL_SSL", "sasl_mechanism": SCRAM, "sasl_username": USER}
    secure_kafka.allow(USER, AclOperation.READ, ResourceType.GROUP, "guards")
    wrong = first_error(secure_kafka, SCRAM_TLS, **login, sasl_password="wrong")
    assert wrong is not None and wrong.code() == KafkaError._AUTHENTICATION
    denied = first_error(secure_kafka, SCRAM_TLS, **login, sasl_password=PASSWORD)
    assert denied is not None and denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    secure_kafka.allow(USER, AclOperation.READ, ResourceType.TOPIC, "guarded")
    assert first_error(secure_kafka, SCRAM_TLS, **login, sasl_password=PASSWORD) is None


def test_a_broker_dies_with_who_started_it(kafka: Brokers, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MAKER, str(tmp_path / "kafka")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as maker:
        assert maker.stdout is not None
        broker = psutil.Process(int(maker.stdout.readline()))
        os.kill(maker.pid, signal.SIGKILL)
        wait_until(lambda: not broker.is_running() or broker.status() == psutil.STATUS_ZOMBIE, 10.0, "its end")


def test_brokers_that_outlive_who_started_them_end_with_their_lab(lab: Lab) -> None:
    brokers = Brokers(lab.directory / "kafka", Inside(lab.fabric, FABRIC_IP), tether=())
    brokers.start()
    broker = psutil.Process(brokers[1].pid)
    lab.close()
    assert not broker.is_running() or broker.status() == psutil.STATUS_ZOMBIE
    brokers.close()


def test_what_kafka_refuses_is_said(kafka: Brokers) -> None:
    with pytest.raises(LabError, match="UNKNOWN_TOPIC_OR_PART"):
        kafka.delete("never-made")
