"""One guest: a namespace with eth0, wired to a host through a tap-like device."""

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.lab.commands import LabError
from tests.lab.guests import GuestSpec, plug
from tests.lab.netns import Namespace
from tests.lab.ping import PingResult, RunningPing, ping, reachable, replies_within
from tests.lab.wire import Capture, resolve, send_frame

if TYPE_CHECKING:
    from tests.lab.host import Host

DEVICE = "eth0"


class Guest:
    """A guest of a host, made by Host.guest() or Host.guests(); gone with its host, or by remove()."""

    def __init__(self, host: "Host", spec: GuestSpec, namespace: Namespace) -> None:
        self.host = host
        self.spec = spec
        self.namespace = namespace
        self._pings: list[RunningPing] = []

    def __repr__(self) -> str:
        return f"Guest({self.spec.port_id!r} on {self.host.name!r})"

    @property
    def port_id(self) -> str:
        return self.spec.port_id

    @property
    def mac(self) -> str:
        return self.spec.mac

    @property
    def ip(self) -> str:
        """The first address, without its length. Raises LabError if it has none."""
        if not self.spec.ips:
            raise LabError(f"{self!r} has no address")
        return self.spec.ips[0].partition("/")[0]

    @property
    def device(self) -> str:
        """Its device in the host's namespace."""
        return self.spec.tap

    # -- the wire to the host

    def attach(self) -> None:
        """Tell the data plane whose its device is, as Nova does. Raises CommandError if there is no bridge."""
        self.host.attach([self])

    def detach(self) -> None:
        """Take its device away from the data plane; fine if it has not got it."""
        self.host.detach(self)

    def unplug(self) -> None:
        """Delete both ends of its wire, as when a virtual machine dies; its bridge port record stays."""
        self.host.namespace.ip(f"link del {self.device}")

    def plug(self) -> None:
        """Make the wire again after unplug(): new devices, same names and addresses.

        A switch in user space goes on listening on the device that is gone: detach() and attach() too.
        """
        plug(self.host.namespace, [(self.spec, self.namespace)])

    def remove(self) -> None:
        """Detach, delete the wire and the namespace."""
        self.host.remove([self])

    def link_down(self) -> None:
        """Take eth0 down: the host's end loses its carrier."""
        self.namespace.ip(f"link set {DEVICE} down")

    def link_up(self) -> None:
        """Take eth0 up. Routes that went with it are not put back."""
        self.namespace.ip(f"link set {DEVICE} up")

    # -- settings

    def run(self, *command: str, timeout: float = 15.0) -> str:
        """Run a program in the guest to its end and return its output. Raises CommandError."""
        return self.namespace.run(*command, timeout=timeout)

    def add_ip(self, cidr: str) -> None:
        self.namespace.ip(f"addr add {cidr} dev {DEVICE}{' nodad' if ':' in cidr else ''}")

    def remove_ip(self, cidr: str) -> None:
        self.namespace.ip(f"addr del {cidr} dev {DEVICE}")

    def add_route(self, prefix: str, via: str) -> None:
        self.namespace.ip(f"route add {prefix} via {via} dev {DEVICE} onlink")

    def add_static_neigh(self, ip: str, mac: str) -> None:
        """A permanent neighbour entry: no ARP or ND is sent for this address."""
        self.namespace.ip(f"neigh replace {ip} lladdr {mac} dev {DEVICE} nud permanent")

    def flush_neighbours(self) -> None:
        """Forget what ARP and ND learned; permanent entries stay."""
        self.namespace.ip(f"neigh flush dev {DEVICE}")

    def set_mac(self, mac: str) -> None:
        """Change eth0's address behind the host's back; spec.mac stays what it was."""
        self.namespace.ip(f"link set {DEVICE} address {mac}")

    # -- reaching others

    def ping(
        self,
        ip: str,
        count: int = 1,
        timeout: float = 1.0,
        *,
        interval: float = 0.05,
        size: int | None = None,
        df: bool = False,
        ttl: int | None = None,
    ) -> PingResult:
        """See tests.lab.ping.ping()."""
        return ping(self.namespace, ip, count=count, timeout=timeout, interval=interval, size=size, df=df, ttl=ttl)

    def can_reach(self, ip: str, within: float = 5.0) -> bool:
        """True as soon as a ping is answered; False if none is within so many seconds."""
        return reachable(lambda timeout: self.ping(ip, timeout=timeout), within)

    def cannot_reach(self, ip: str, for_: float = 1.0) -> bool:
        """True if no ping is answered for so many seconds. Raises LabError if the guest could not even send."""
        result = replies_within(self.namespace, ip, for_)
        if result.sent == 0:
            raise LabError(f"{self!r} sent nothing to {ip}:\n{result.output}")
        return result.received == 0

    def start_ping(self, ip: str, interval: float = 0.01) -> RunningPing:
        """Ping in the background until its stop(); never waits for a reply itself."""
        log = self.host.directory / f"{self.device}-ping{len(self._pings)}.log"
        running = RunningPing(self.namespace, ip, interval, log)
        self._pings.append(running)
        return running

    def arp(self, ip: str, within: float = 1.0) -> str | None:
        """The MAC (lower case, colons) that answers an ARP request for `ip`, or None."""
        own = next((a.partition("/")[0] for a in self.spec.ips if ":" not in a), "0.0.0.0")
        return resolve(self.namespace, DEVICE, self.mac, own, ip, within)

    # -- frames and sockets

    def send_raw(self, frame: bytes) -> None:
        """Send a whole Ethernet frame, without FCS, out of eth0."""
        send_frame(self.namespace, DEVICE, frame)

    def capture(self) -> Capture:
        """What eth0 receives from now on; use it as a context manager."""
        return Capture(self.namespace, DEVICE)

    def sniff(
        self, match: Callable[[bytes], bool] = lambda _: True, *, count: int = 1, within: float = 2.0
    ) -> list[bytes]:
        """Up to `count` matching frames that eth0 receives from now on. To look at the answer to something
        you do yourself, open capture() first."""
        with self.capture() as capture:
            return capture.frames(match, count=count, within=within)

    def socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_DGRAM) -> socket.socket:
        """A socket of the guest's, which this process may use."""
        return self.namespace.socket(family, kind)

    def kill_pings(self) -> None:
        """End what start_ping() started and nobody stopped."""
        for running in self._pings:
            running.kill()
