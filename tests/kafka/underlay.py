"""Where brokers are that labs come and go around: an underlay of their own, which labs are joined to."""

from __future__ import annotations

from tests.kafka.brokers import Inside
from tests.lab import Lab
from tests.lab.lab import FABRIC_IP, UPLINK_MTU
from tests.lab.netns import checksum_offload_off

BROKER_IP = "172.16.0.253"


class BrokerUnderlay:
    """The fabric of a lab without hosts, at 172.16.0.253; hosts of the labs that join() it reach that address.

    Labs that are joined at the same time must not have hosts of the same address.
    """

    def __init__(self, lab: Lab) -> None:
        """`lab` is open and has nothing else to do."""
        self._lab = lab
        lab.fabric.ip(
            "link set lo up", f"addr del {FABRIC_IP}/24 dev fabric", f"addr add {BROKER_IP}/24 dev fabric"
        )
        self.place = Inside(lab.fabric, BROKER_IP)

    def join(self, lab: Lab) -> None:
        """Until `lab` closes."""
        self._lab.fabric.ip(
            f"link add {lab.prefix} mtu {UPLINK_MTU} master fabric type veth"
            f" peer name brokers netns {lab.fabric.name} mtu {UPLINK_MTU}",
            f"link set {lab.prefix} up",
        )
        self._lab.fabric.call(lambda: checksum_offload_off(lab.prefix))
        lab.fabric.ip("link set brokers master fabric", "link set brokers up")
        lab.fabric.call(lambda: checksum_offload_off("brokers"))
