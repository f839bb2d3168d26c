"""One host: a namespace with an uplink, its own Open vSwitch, its guests and its agent."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab.agent import AgentProcess
from tests.lab.commands import LabError
from tests.lab.guest import Guest
from tests.lab.guests import GuestSpec, attach_arguments, detach_arguments, plug
from tests.lab.netns import Namespace, create_namespaces, delete_namespaces
from tests.lab.ovs import Ovs
from tests.lab.wire import Capture

if TYPE_CHECKING:
    from tests.lab.lab import Lab

LEAVING = 1017
"""The device group of wires that are being deleted; the number means nothing."""
FLOW_COOKIE = re.compile(r"\bcookie=[^ ,]*,? ?")


class Host:
    """A host of a lab; made by Lab.host()."""

    bridge = "br-int"

    def __init__(self, lab: "Lab", name: str, number: int, namespace: Namespace, dataplane: str) -> None:
        self.lab = lab
        self.name = name
        self.namespace = namespace
        self.dataplane = dataplane
        self.directory = lab.directory / name
        self.underlay_ip = f"172.16.0.{number}"
        self.underlay_mac = f"02:00:00:00:01:{number:02x}"
        self.grpc_target = f"unix:{self.directory}/grpc.sock"
        self.admin_socket = self.directory / "admin.sock"
        self.has_ovs = dataplane == "ovs"
        self._guests: list[Guest] = []
        self._agents: list[AgentProcess] = []
        self._ovs = Ovs(self.directory, namespace, self._underlay_up) if self.has_ovs else None

    def __repr__(self) -> str:
        return f"Host({self.name!r})"

    # -- Open vSwitch

    @property
    def ovs(self) -> Ovs:
        """Its Open vSwitch; `.ovsdb` and `.vswitchd` can be stopped, killed, paused, restarted. Raises LabError."""
        if self._ovs is None:
            raise LabError(f"{self!r} has no Open vSwitch")
        return self._ovs

    @property
    def rundir(self) -> Path:
        """Where the sockets, logs, pid files and the database of Open vSwitch are."""
        return self.directory

    @property
    def db_socket(self) -> str:
        """The database's address: unix:/..."""
        return self.ovs.db_socket

    @property
    def vswitchd_pid(self) -> int:
        return self.ovs.vswitchd.pid

    def vsctl(self, *args: str) -> str:
        """Run ovs-vsctl on this host's database. Raises CommandError."""
        return self.ovs.vsctl(*args)

    def ofctl(self, *args: str, stdin: str = "", timeout: float = 15.0) -> str:
        """Run ovs-ofctl with OpenFlow 1.4, e.g. ofctl("dump-flows", "br-int"). Raises CommandError."""
        return self.ovs.ofctl(*args, stdin=stdin, timeout=timeout)

    def appctl(self, method: str, *args: str) -> str:
        """What `ovs-appctl METHOD ARGS` of ovs-vswitchd prints. Raises LabError, OSError."""
        return self.ovs.appctl(method, *args)

    def flows(self, bridge: str = "br-int", *, names: bool = False, cookies: bool = False) -> list[str]:
        """The flows, sorted, without ages and counters; ports by name if `names`, with cookies
        (those that are not 0) if asked for."""
        style = "--names" if names else "--no-names"
        lines = self.ofctl("--no-stats", style, "dump-flows", bridge, timeout=60.0).splitlines()
        flows = (line.strip() for line in lines if "actions=" in line)
        return sorted(flows if cookies else (FLOW_COOKIE.sub("", flow) for flow in flows))

    def know_underlay(self, others: Sequence["Host"]) -> None:
        """Tell the switch the MACs of other hosts, so that no first packet waits for ARP (and is dropped)."""
        for other in others:
            if other is not self:
                self.appctl("tnl/neigh/set", "br-phy", other.underlay_ip, other.underlay_mac)

    # -- the namespace

    def run(self, *command: str, timeout: float = 15.0) -> str:
        """Run a program in the host's namespace to its end and return its output. Raises CommandError."""
        return self.namespace.run(*command, timeout=timeout)

    def devices(self) -> set[str]:
        """The names of the network devices in the host's namespace."""
        lines = self.namespace.call(Path("/proc/thread-self/net/dev").read_text).splitlines()[2:]
        return {line.partition(":")[0].strip() for line in lines}

    def capture(self, device: str = "uplink", *, outgoing: bool = False) -> Capture:
        """What a device of the host receives from now on, e.g. tunnel packets on the uplink."""
        return Capture(self.namespace, device, outgoing=outgoing)

    def underlay_down(self) -> None:
        """Cut the host off the others."""
        self.namespace.ip("link set uplink down")

    def underlay_up(self) -> None:
        self.namespace.ip("link set uplink up")

    @property
    def underlay_device(self) -> str:
        """The device that has the underlay address."""
        return "br-phy" if self.has_ovs else "uplink"

    def move_underlay(self, address: str) -> None:
        """Take another underlay address (172.16.0.0/24); the old one is gone. The others' switches know its MAC."""
        device = self.underlay_device
        self.namespace.ip(f"addr del {self.underlay_ip}/24 dev {device}", f"addr add {address}/24 dev {device}")
        self.underlay_ip = address
        others = [other for other in self.lab.hosts.values() if other is not self]
        for other in others:
            if other.has_ovs:
                other.know_underlay([self])
        if self.has_ovs:
            self.know_underlay(others)

    # -- guests

    def guest(
        self,
        port_id: str,
        *,
        mac: str,
        ips: Sequence[str] = ("10.0.0.5/24",),
        gateway: str | None = None,
        mtu: int = 1450,
        ipv6: bool = False,
        attach: bool = True,
    ) -> Guest:
        """Make one guest and, unless told otherwise, attach it. Raises CommandError."""
        spec = GuestSpec(port_id, mac, tuple(ips), gateway, mtu, ipv6)
        return self.guests([spec], attach=attach)[0]

    def guests(self, specs: Sequence[GuestSpec], *, attach: bool = True) -> list[Guest]:
        """Make many guests at once, in the order given. Raises CommandError."""
        prefix = f"{self.namespace.name}-"
        namespaces = create_namespaces(f"{prefix}{spec.port_id[:11]}" for spec in specs)
        made = [Guest(self, spec, namespace) for spec, namespace in zip(specs, namespaces, strict=True)]
        self._guests += made
        plug(self.namespace, list(zip(specs, namespaces, strict=True)))
        if attach:
            self.attach(made)
        return made

    def attach(self, guests: Sequence[Guest]) -> None:
        """Tell the data plane whose the guests' devices are, as the compute service does. Raises CommandError.

        Open vSwitch: all to the integration bridge, in one transaction. Netlink: the port id as interface alias.
        """
        if guests and self.has_ovs:
            self.vsctl(*attach_arguments(self.bridge, [guest.spec for guest in guests])[1:])
        elif self.dataplane == "netlink":
            self.namespace.ip(*(f"link set {guest.device} alias {guest.port_id}" for guest in guests))

    def detach(self, guest: Guest) -> None:
        """Take back what attach() told; fine if it was not told."""
        if self.has_ovs:
            self.vsctl(*detach_arguments(self.bridge, [guest.spec])[1:])
        elif self.dataplane == "netlink" and guest.device in self.devices():
            self.namespace.ip(f"link set {guest.device} alias nobody")

    def remove(self, guests: Sequence[Guest]) -> None:
        """Detach guests, delete their wires and namespaces, all at once. Raises CommandError."""
        for guest in guests:
            guest.kill_pings()
            self._guests.remove(guest)
        if guests and self.has_ovs:
            self.vsctl(*detach_arguments(self.bridge, [guest.spec for guest in guests])[1:])
        here = self.devices()
        lines = [f"link set {guest.device} group {LEAVING}" for guest in guests if guest.device in here]
        if lines:
            # One by one each would wait for the kernel's grace period (16 ms).
            self.namespace.ip(*lines, f"link del group {LEAVING}")
        delete_namespaces(guest.namespace.name for guest in guests)

    # -- the agent

    def agent(self, config: dict[str, Any] | None = None) -> AgentProcess:
        """A started agent; `config` is laid over the usual one, section by section."""
        agent = AgentProcess(self, config or {})
        agent.start()
        return agent

    def owns(self, agent: AgentProcess) -> None:
        """For AgentProcess: it ends with the host."""
        self._agents.append(agent)

    def close(self) -> None:
        """End the processes that this host's guests and agents run as. For Lab, which ends the rest."""
        for guest in self._guests:
            guest.kill_pings()
        for agent in self._agents:
            agent.close()

    # -- making it

    def start(self) -> None:
        """Bring up the switch and the underlay address; the uplink is there already. For Lab."""
        if self._ovs is None:
            self.namespace.ip(
                f"link set uplink address {self.underlay_mac}", f"addr add {self.underlay_ip}/24 dev uplink"
            )
            return
        self._ovs.create()
        self._add_underlay_bridge()

    def wipe_database(self) -> None:
        """Lose the switch's database. What the host itself needs of the switch is set up again, as at boot."""
        self.ovs.wipe()
        self._add_underlay_bridge()

    def _add_underlay_bridge(self) -> None:
        self.vsctl(
            *("add-br", "br-phy", "--", "set", "bridge", "br-phy", "datapath_type=netdev"),
            *("fail_mode=standalone", f"other_config:hwaddr={self.underlay_mac}"),
            *("--", "add-port", "br-phy", "uplink"),
        )
        self._underlay_up()

    def _underlay_up(self) -> None:
        """Whatever a restart of the switch loses: the underlay address and the other hosts' MACs."""
        if "br-phy" in self.devices():
            self.namespace.ip(f"addr replace {self.underlay_ip}/24 dev br-phy", "link set br-phy up")
            self.know_underlay(list(self.lab.hosts.values()))
