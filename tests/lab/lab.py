"""The lab: a fabric that joins hosts, and the care that nothing is left behind."""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from tests.lab import registry
from tests.lab.commands import LabError, wait_until
from tests.lab.host import Host
from tests.lab.netns import Namespace, checksum_offload_off, create_namespaces

T = TypeVar("T")

UPLINK_MTU = 1600
FABRIC_IP = "172.16.0.254"
MOST_HOSTS = 250
# sun_path holds 108 bytes; the longest of our sockets is DIRECTORY/HOST/ovs-vswitchd.ctl.
LONGEST_SOCKET = 107


class Lab:
    """Hosts on one machine, joined by an underlay 172.16.0.0/24. A context manager; leaves nothing but logs.

    Labs do not see each other, in one process or in several. Entering one first removes the labs of processes that
    died without cleaning up.
    """

    def __init__(self, tmp_dir: Path, name: str) -> None:
        """`tmp_dir` must exist; the lab's files go to `tmp_dir/name`, which must not."""
        self.name = name
        self.directory = tmp_dir.absolute() / name
        self.hosts: dict[str, Host] = {}
        self._record: registry.Record | None = None
        self._fabric: Namespace | None = None

    @property
    def prefix(self) -> str:
        """What the names of all its namespaces begin with. Raises LabError if it is not open."""
        if self._record is None:
            raise LabError(f"lab {self.name} is not open")
        return self._record.prefix

    @property
    def fabric(self) -> Namespace:
        """The namespace that joins the hosts, itself at 172.16.0.254: a place for controllers and the like."""
        if self._fabric is None:
            raise LabError(f"lab {self.name} is not open")
        return self._fabric

    def __enter__(self) -> Self:
        registry.remove_labs(lambda record: not record.kept)
        self.directory.mkdir()
        self._record = registry.register(self.directory)
        try:
            self._fabric = create_namespaces([f"{self.prefix}-fabric"])[0]
            self._fabric.ip(
                f"link add fabric mtu {UPLINK_MTU} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
                "link set fabric up",
                f"addr add {FABRIC_IP}/24 dev fabric",
            )
            self._fabric.call(lambda: checksum_offload_off("fabric"))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._record is not None and not self._record.kept:
            self.close()

    def host(self, name: str, *, dataplane: str = "ovs") -> Host:
        """Make a host and join it to the others; any data plane but "ovs" gets no Open vSwitch. Raises LabError."""
        number = len(self.hosts) + 1
        directory = self.directory / name
        if name in self.hosts or number > MOST_HOSTS:
            raise LabError(f"host {name} is one too many")
        if len(f"{directory}/ovs-vswitchd.ctl".encode()) > LONGEST_SOCKET:
            raise LabError(f"{directory} is too long a name for sockets in it")
        directory.mkdir()
        namespace = create_namespaces([f"{self.prefix}-{name}"])[0]
        host = Host(self, name, number, namespace, dataplane)
        self.hosts[name] = host
        # arp_ignore: else the kernel answers for br-phy's address on the uplink, with the uplink's MAC.
        namespace.sysctl(ipv4__conf__all__arp_ignore=1, ipv4__ip_forward=0)
        port = f"u{number}"
        self.fabric.ip(
            f"link add {port} mtu {UPLINK_MTU} master fabric type veth"
            f" peer name uplink netns {namespace.name} mtu {UPLINK_MTU}",
            f"link set {port} up",
        )
        self.fabric.call(lambda: checksum_offload_off(port))
        namespace.call(lambda: checksum_offload_off("uplink"))
        namespace.ip("link set lo up", "link set uplink up")
        host.start()
        for other in self.hosts.values():
            if other is not host and other.has_ovs:
                other.know_underlay([host])
        return host

    def keep(self) -> None:
        """Leave everything running when this process ends; `python -m tests.lab clean` removes it later."""
        if self._record is None:
            raise LabError(f"lab {self.name} is not open")
        self._record = registry.keep(self._record)

    def close(self) -> None:
        """End every process, delete every namespace. The directory, with the logs, stays. May be called twice."""
        if self._record is None:
            return
        for host in self.hosts.values():
            host.close()
        registry.remove(self._record)
        self._record = None
        self._fabric = None

    @property
    def logs(self) -> list[Path]:
        """The log files of all its processes, also after close()."""
        return sorted(self.directory.glob("*/*.log"))

    @staticmethod
    def wait(condition: Callable[[], T], within: float, what: str) -> T:
        """See tests.lab.commands.wait_until()."""
        return wait_until(condition, within, what)
