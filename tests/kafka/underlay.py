"""Where brokers are that labs come and go around: an underlay of their own, which labs are joined to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from tests.kafka.brokers import Inside
from tests.lab import Lab
from tests.lab.lab import FABRIC_IP, UPLINK_MTU
from tests.lab.netns import checksum_offload_off

BROKER_IP = "172.16.0.253"


class BrokerUnderlay:
    """The fabric of a lab without hosts, at 172.16.0.253; hosts of the labs that are joined to it reach that address.

    Labs that are joined at the same time must not have hosts of the same address.
    """

    def __init__(self, lab: Lab) -> None:
        """`lab` is open and has nothing else to do."""
        self._lab = lab
        self._numbers = itertools.count()
        lab.fabric.ip(f"addr del {FABRIC_IP}/24 dev fabric", f"addr add {BROKER_IP}/24 dev fabric")
        self.place = Inside(lab.fabric, BROKER_IP)

    @contextmanager
    def joined(self, lab: Lab) -> Iterator[None]:
        """Join a lab for a while."""
        wire = f"join{next(self._numbers)}"
        self._lab.fabric.ip(
            f"link add {wire} mtu {UPLINK_MTU} master fabric type veth"
            f" peer name {wire} netns {lab.fabric.name} mtu {UPLINK_MTU}",
            f"link set {wire} up",
        )
        try:
            lab.fabric.ip(f"link set {wire} master fabric", f"link set {wire} up")
            for end in (lab.fabric, self._lab.fabric):
                end.call(lambda: checksum_offload_off(wire))
            yield
        finally:
            self._lab.fabric.ip(f"link del {wire}")
