"""Topics that a controller names while the agent runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from goalstate_proto.common_pb2 import INVALID_ARG, SUCCESS
from goalstate_proto.subscribeinfoprovisioner_pb2 import NodeSubscribeInfo, Subscribe, Unsubscribe
from goalstate_proto.subscribeinfoprovisioner_pb2_grpc import SubscribeInfoProvisionerStub
from tests.kafka.agents import kafka_status, settings
from tests.kafka.brokers import Brokers
from tests.kafka.scene import PATIENCE, Neighbor, base_record, final, netlink_host, wait_forwarding, whole_record
from tests.lab import Lab, wait_until

pytestmark = pytest.mark.lab


def tell(socket: Path, operation: Any, topic: str, key: str = "") -> int:
    """By a connection of its own each time."""
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        stub: Any = SubscribeInfoProvisionerStub(channel)
        request = NodeSubscribeInfo(subscribe_operation=operation, topic=topic, key=key)
        status: int = stub.PushNodeSubscribeInfo(request, timeout=20, wait_for_ready=True).operationStatus
        return status


def test_records_are_programmed_while_the_topic_is_subscribed(
    kafka: Brokers, kafka_lab: Lab, tmp_path: Path
) -> None:
    kafka.create("told-vpc", partitions=2)
    first, second, third = (Neighbor(number) for number in range(3))
    kafka.produce("told-vpc", [base_record("h1"), whole_record("h1", first), whole_record("h9", third)])
    host = netlink_host(kafka_lab, "h1")
    socket = tmp_path / "told.sock"
    agent = host.agent(settings(kafka, told=True, told_listen=f"unix:{socket}"))
    assert tell(socket, Subscribe, "", "") == INVALID_ARG
    assert tell(socket, Unsubscribe, "told-vpc") == SUCCESS
    for _ in range(2):
        assert tell(socket, Subscribe, "told-vpc", "h1") == SUCCESS
    wait_forwarding(host, agent, final([first]))

    assert tell(socket, Unsubscribe, "told-vpc", "h1") == SUCCESS
    wait_until(lambda: "told-vpc" not in str(kafka_status(agent)["consumers"]), PATIENCE, "the topic is left")
    kafka.produce("told-vpc", [whole_record("h1", second)])
    # What is subscribed afterwards is read, so what was published before it would have been.
    kafka.create("told-other")
    kafka.produce("told-other", [whole_record("h1", third)])
    assert tell(socket, Subscribe, "told-other", "h1") == SUCCESS
    wait_forwarding(host, agent, final([first, third]))

    assert tell(socket, Subscribe, "told-vpc", "h1") == SUCCESS
    wait_forwarding(host, agent, final([first, second, third]))
    agent.stop()
