"""Several hosts on one machine: namespaces, one Open vSwitch in user space each, guests, agents.

    with Lab(tmp_dir, "demo") as lab:
        h1, h2 = lab.host("h1"), lab.host("h2")
        h1.vsctl("add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev")
        guest = h1.guest("port-1", mac="02:00:00:00:00:01", ips=("10.0.0.1/24",))
        assert guest.can_reach("10.0.0.2")

Needs root, network namespaces, veth, /dev/net/tun and the Open vSwitch programs; no kernel module of Open vSwitch.
"""

from tests.lab.agent import AgentProcess
from tests.lab.commands import CommandError, LabError, wait_until
from tests.lab.guest import Guest
from tests.lab.guests import GuestSpec
from tests.lab.host import Host
from tests.lab.lab import Lab
from tests.lab.ping import PingResult, PingTrace, RunningPing
from tests.lab.requirements import missing_requirements
from tests.lab.wire import Capture

__all__ = [
    "AgentProcess",
    "Capture",
    "CommandError",
    "Guest",
    "GuestSpec",
    "Host",
    "Lab",
    "LabError",
    "PingResult",
    "PingTrace",
    "RunningPing",
    "missing_requirements",
    "wait_until",
]
