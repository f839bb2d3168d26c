"""`aca push --kafka` against a real broker."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from google.protobuf import text_format

from aca.cli import main
from goalstate_proto import common_pb2
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2
from tests.kafka.broker import missing
from tests.kafka.brokers import Brokers, Loopback


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """One broker on this process's own loopback: the command runs in this process."""
    if missing():
        pytest.skip(missing())
    with Brokers(tmp_path_factory.mktemp("kafka") / "push", Loopback()) as made:
        yield made


def goal_state(update: common_pb2.UpdateType = common_pb2.FULL, name: str = "") -> GoalStateV2:
    message = GoalStateV2()
    message.subnet_states["s1"].configuration.id = "s1"
    message.subnet_states["s1"].configuration.update_type = update
    message.subnet_states["s1"].configuration.name = name
    return message


@pytest.fixture
def full(tmp_path: Path) -> Path:
    return saved(tmp_path / "full.v2.txtpb", goal_state())


def saved(path: Path, message: GoalState | GoalStateV2) -> Path:
    path.write_text(text_format.MessageToString(message))
    return path


def push(brokers: str, *arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["push", "--kafka", brokers, "--timeout", "20", *map(str, arguments)])


def test_files_are_published_in_order_with_key_and_version(brokers: Brokers, tmp_path: Path) -> None:
    brokers.create("order", partitions=3)
    first = GoalState()
    first.vpc_states.add().configuration.id = "v1"
    files = [
        saved(tmp_path / "a.v1.txtpb", first),
        saved(tmp_path / "b.v2.txtpb", goal_state(common_pb2.DELTA)),
        saved(tmp_path / "c.v2.txtpb", goal_state(name="c")),
    ]
    result = push(brokers.bootstrap, "--topic", "order", "--key", "10.0.0.1", "--json", *files)
    assert result.exit_code == 0, result.output
    assert [(one["record"], one["offset"]) for one in json.loads(result.stdout)] == [
        (str(file), number) for number, file in enumerate(files)
    ]
    read = brokers.read("order")
    assert [message.key() for message in read] == [b"10.0.0.1"] * 3
    versions = [dict(message.headers())["goalstate-version"] for message in read]
    assert versions == [b"1", b"2", b"2"]
    assert GoalState.FromString(read[0].value()) == first
    assert GoalStateV2.FromString(read[2].value()) == goal_state(name="c")


def test_the_partition_given_is_the_one_written(brokers: Brokers, full: Path) -> None:
    brokers.create("cell", partitions=4)
    assert push(brokers.bootstrap, "--topic", "cell", "--partition", "2", "--repeat", "2", full).exit_code == 0
    assert [(message.partition(), message.key()) for message in brokers.read("cell")] == [(2, None)] * 2


def test_a_compacted_topic_takes_full_updates_and_tombstones_of_a_key(brokers: Brokers, full: Path) -> None:
    brokers.create("state", cleanup_policy="compact")
    key = ("--topic", "state", "--key", "h1|SUBNET|s1")
    assert push(brokers.bootstrap, *key, full).exit_code == 0
    assert push(brokers.bootstrap, *key, "--tombstone").exit_code == 0
    value, deletion = brokers.read("state")
    assert (value.key(), GoalStateV2.FromString(value.value())) == (b"h1|SUBNET|s1", goal_state())
    assert (deletion.key(), deletion.value()) == (b"h1|SUBNET|s1", None)


def test_a_compacted_topic_is_not_given_what_compaction_would_lose(
    brokers: Brokers, full: Path, tmp_path: Path
) -> None:
    brokers.create("kept", cleanup_policy="compact,delete")
    delta = saved(tmp_path / "delta.v2.txtpb", goal_state(common_pb2.DELTA))
    for arguments, words in (
        (("--key", "k", delta), "subnet_states s1: update_type is DELTA"),
        ((full,), "--key is needed"),
        (("--key", "k", full, full), "of 2 records with one key, one would stay"),
    ):
        result = push(brokers.bootstrap, "--topic", "kept", *arguments)
        assert result.exit_code == 2
        assert words in result.stderr
    assert not brokers.read("kept")


def test_a_topic_or_partition_that_is_not_there_is_named(brokers: Brokers, full: Path) -> None:
    result = push(brokers.bootstrap, "--topic", "nowhere", full)
    assert (result.exit_code, "topic nowhere" in result.stderr) == (2, True), result.output
    brokers.create("single")
    result = push(brokers.bootstrap, "--topic", "single", "--partition", "5", full)
    assert result.exit_code == 2
    assert "0 of 1 written" in result.stderr or "partition" in result.stderr.lower()


def test_a_record_that_the_brokers_refuse_is_an_error(brokers: Brokers, tmp_path: Path) -> None:
    brokers.create("small", max_message_bytes="2000")
    large = saved(tmp_path / "large.v2.txtpb", goal_state(name="x" * 5000))
    result = push(brokers.bootstrap, "--topic", "small", large)
    assert result.exit_code == 2
    assert "0 of 1 written" in result.stderr
    assert str(large) in result.stderr


def test_brokers_that_are_away_are_an_error_that_says_so(full: Path) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{reserved.getsockname()[1]}"
        result = push(address, "--topic", "t", "--timeout", "2", full)
    assert result.exit_code == 2
    assert address in result.stderr
    assert "refused" in result.stderr
