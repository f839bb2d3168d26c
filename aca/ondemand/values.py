"""What is asked of a controller, and what it says."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Protocol(enum.IntEnum):
    """The numbers are those of alcor.schema.Protocol."""

    TCP = 0
    UDP = 1
    ICMP = 2
    ARP = 4


class Destination(NamedTuple):
    """An address in a subnet: what questions are about. Equal, as a tuple, to a `FixedIp`."""

    subnet_id: str
    address: bytes


@dataclass(frozen=True, slots=True)
class Inquiry:
    """The packet that a controller is asked about, as alcor.schema.HostRequest.ResourceStateRequest wants it.

    `tunnel_id` is that of the asking port's subnet; addresses are packed; ports are 0 where the protocol has none.
    """

    tunnel_id: int
    source: bytes
    destination: bytes
    protocol: Protocol
    source_port: int = 0
    destination_port: int = 0


class Verdict(enum.Enum):
    """A controller's answer to one inquiry."""

    ROUTABLE = "routable"
    """The state is pushed, before or after this answer."""
    UNROUTABLE = "unroutable"
    UNANSWERED = "unanswered"
    """No controller could be reached in time, or it said nothing that helps."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Verdicts by request id; what is not in there is UNANSWERED. `trouble` says why, for people; empty if all is well.
    """

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    trouble: str = ""

    def verdict(self, request_id: str) -> Verdict:
        return self.verdicts.get(request_id, Verdict.UNANSWERED)
