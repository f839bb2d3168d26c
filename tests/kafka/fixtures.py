"""Fixtures of tests that need Kafka. Brokers are shared: every test has topics of its own."""

from collections.abc import Iterator

import pytest

from tests.kafka.broker import missing
from tests.kafka.brokers import Brokers
from tests.kafka.certificates import PASSWORD, USER, security_in
from tests.kafka.underlay import BrokerUnderlay
from tests.lab import Lab


@pytest.fixture(scope="session")
def broker_underlay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerUnderlay]:
    """Where brokers are, and what labs join."""
    if missing():
        pytest.skip(missing())
    with Lab(tmp_path_factory.mktemp("underlay"), "brokers") as lab:
        yield BrokerUnderlay(lab)


@pytest.fixture(scope="session")
def shared_broker(broker_underlay: BrokerUnderlay, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """For kafka."""
    with Brokers(tmp_path_factory.mktemp("kafka") / "one", broker_underlay.place) as brokers:
        yield brokers


@pytest.fixture
def kafka(shared_broker: Brokers) -> Brokers:
    """One plain broker, the same for all tests of this process; it runs, whatever the test before did to it."""
    shared_broker.start()
    return shared_broker


@pytest.fixture(scope="module")
def shared_three(broker_underlay: BrokerUnderlay, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """For three_brokers."""
    with Brokers(tmp_path_factory.mktemp("kafka") / "three", broker_underlay.place, count=3) as brokers:
        yield brokers


@pytest.fixture
def three_brokers(shared_three: Brokers) -> Brokers:
    """Three plain brokers, the same for the tests of a module; all run, whatever the test before did to them."""
    shared_three.start()
    return shared_three


@pytest.fixture(scope="module")
def secure_kafka(broker_underlay: BrokerUnderlay, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """One broker with the listeners of tests.kafka.certificates, and one user, who may do nothing yet."""
    directory = tmp_path_factory.mktemp("kafka")
    security = security_in(directory, broker_underlay.place.address)
    with Brokers(directory / "secure", broker_underlay.place, security=security) as brokers:
        brokers.add_user(USER, PASSWORD)
        yield brokers


@pytest.fixture
def kafka_lab(lab: Lab, broker_underlay: BrokerUnderlay) -> Iterator[Lab]:
    """An empty lab for one test, whose hosts reach the brokers."""
    with broker_underlay.joined(lab):
        yield lab
