"""Settings of the Kafka consumer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic.config import JsonDict

from aca.settingtypes import Listens, Section

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_ASSIGNED = re.compile(rf"{_TOPIC.pattern}(?::\d{{1,9}})?")
_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:,\[\]/]+):\d{1,5}")
_PROPERTY = re.compile(r"[a-z0-9]+(?:\.[a-z0-9]+)+")
_OURS = frozenset({
    "bootstrap.servers", "metadata.broker.list", "group.id", "enable.auto.commit", "enable.auto.offset.store",
    "enable.partition.eof", "group.protocol", "group.instance.id",
})
"""Properties that this agent sets itself: settings of their own, or what its guarantees rest on."""


class KafkaError(Exception):
    """The settings cannot be used; the message says why, without secrets."""


def properties_in_files(files: Mapping[str, Path]) -> dict[str, str]:
    """librdkafka's properties whose values, secrets mostly, are in these files. Raises KafkaError."""
    values = {}
    for name, path in files.items():
        try:
            values[name] = path.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is no text"
            raise KafkaError(f"{name}: {path}: {reason}") from None
    return values


def check_topic(text: str) -> str:
    """Raises ValueError for what is no topic's name."""
    if not _TOPIC.fullmatch(text) or text in (".", ".."):
        raise ValueError("must be the name of a topic: 1 to 249 letters, digits, '.', '_' and '-'")
    return text


def _split(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _pairs(value: object) -> object:
    """NAME=VALUE with commas where only text can be given. Numbers and truths of the file become texts."""
    if isinstance(value, str):
        given: dict[object, object] = {}
        for part in filter(None, value.split(",")):
            name, equals, text = part.partition("=")
            if not equals:
                raise ValueError("must be NAME=VALUE, several with commas")
            given[name.strip()] = text.strip()
        return given
    if isinstance(value, Mapping):
        return {
            name: str(one).lower() if isinstance(one, bool) else str(one) if isinstance(one, int | float) else one
            for name, one in value.items()
        }
    return value


def _check_names(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if not _PROPERTY.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a property")
        if name in _OURS:
            raise ValueError(f"{name} cannot be set here: the agent sets it")
    return value


def _check_server(text: str) -> str:
    if not _SERVER.fullmatch(text):
        raise ValueError("must be HOST:PORT or [IPv6 ADDRESS]:PORT")
    return text


def _check_assigned(text: str) -> str:
    if not _ASSIGNED.fullmatch(text):
        raise ValueError("must be TOPIC or TOPIC:PARTITION")
    return text


Topic = Annotated[str, AfterValidator(check_topic)]
Topics = Annotated[tuple[Topic, ...], BeforeValidator(_split)]
OptionalTopic = Annotated[Topic | None, BeforeValidator(lambda value: value or None)]
Properties = Annotated[dict[str, str], BeforeValidator(_pairs), AfterValidator(_check_names)]
_NONE: JsonDict = {"shown_default": "none"}


class KafkaSettings(Section):
    """Goal states from Kafka"""

    bootstrap_servers: Annotated[
        tuple[Annotated[str, AfterValidator(_check_server)], ...], BeforeValidator(_split)
    ] = Field(
        default=(), description="Brokers to begin with: HOST:PORT, several with commas (a list in the file). Without "
        "any Kafka is not used.", json_schema_extra=_NONE,
    )
    assigned: Annotated[tuple[Annotated[str, AfterValidator(_check_assigned)], ...], BeforeValidator(_split)] = Field(
        default=(), description="What is read without a group, from the beginning at every start: TOPIC:PARTITION, or "
        "TOPIC for all its partitions.", json_schema_extra=_NONE,
    )
    compacted: Topics = Field(
        default=(), description="Topics that tell the whole state: merged to their end before anything is programmed. "
        "All partitions are read, or those that kafka.assigned names.", json_schema_extra=_NONE,
    )
    group_topics: Topics = Field(
        default=(), description="Topics that are read as a member of a consumer group.", json_schema_extra=_NONE
    )
    group_id: str = Field(
        default="", description="Name of that group.", json_schema_extra={"shown_default": "aca-<host.id>"}
    )
    shared_group: bool = Field(
        default=False, description="Several agents are members of the group (gateways, relays): each programs whatever "
        "it is given, for whichever host it is.",
    )
    group_protocol: Literal["classic", "consumer"] = Field(
        default="classic", description="'consumer' is KIP-848, of brokers from 4.0 on."
    )
    told: bool = Field(default=False, description="Read the topics that controllers name while the agent runs.")
    told_listen: Listens = Field(
        default=("0.0.0.0:50002",), description="Where controllers name them, if kafka.told: ADDRESS:PORT or "
        "unix:/PATH, several with commas (a list in the file).",
    )
    v1_topics: Topics = Field(
        default=(), description="Topics whose records are GoalState (V1) where neither header nor structure tells.",
        json_schema_extra=_NONE,
    )
    dead_letter_topic: OptionalTopic = Field(
        default=None, description="Where records go that cannot be read.", json_schema_extra=_NONE
    )
    reply_topic: OptionalTopic = Field(
        default=None, description="Where the reply to every record goes.", json_schema_extra=_NONE
    )
    max_records: int = Field(default=4000, ge=1, le=1_000_000, description="Records in hand at once.")
    max_mib: int = Field(default=32, ge=1, le=4096, description="Their size in MiB, beyond which no more are read.")
    properties: Properties = Field(
        default={}, description="Any property of librdkafka, for TLS, SASL and the like.",
        json_schema_extra={"shown_default": "none", "secret": True},
    )
    property_files: Annotated[dict[str, Path], BeforeValidator(_pairs)] = Field(
        default={}, description="Properties whose values are in files, as secrets are.", json_schema_extra=_NONE
    )

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """(setting, what is wrong with it) for what does not go together."""
        if both := sorted(set(self.compacted) & set(self.group_topics)):
            yield (
                "kafka.compacted",
                f"must not have {', '.join(both)}, which kafka.group_topics has too: a compacted topic is read from "
                "its beginning, a group goes on where it was",
            )
        if named := sorted(set(self.property_files) & _OURS):
            yield "kafka.property_files", f"must not have {', '.join(named)}: the agent sets it"
        if not self.bootstrap_servers and (self.assigned or self.compacted or self.group_topics or self.told):
            yield "kafka.bootstrap_servers", "must be set, as there are topics to read"

    def group_of(self, host_id: str) -> str:
        return self.group_id or f"aca-{host_id}"

    @property
    def incomplete(self) -> bool:
        """Something is read that may be no whole state: nobody knows what was told before."""
        plain = {one.partition(":")[0] for one in self.assigned} - set(self.compacted)
        return bool(self.group_topics or self.told or plain)
