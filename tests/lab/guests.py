"""Making guests' namespaces and wires, many at once: one `ip` process per namespace, no device is ever moved."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.lab.netns import Namespace, checksum_offload_off, in_namespaces, write_sysctls


@dataclass(frozen=True, slots=True)
class GuestSpec:
    """A guest to be: `ips` with prefix lengths, may be empty; `gateway` for the default route; `mtu` in bytes.

    IPv6 is on only if an address is IPv6, or `ipv6` is set.
    """

    port_id: str
    mac: str
    ips: tuple[str, ...] = ("10.0.0.5/24",)
    gateway: str | None = None
    mtu: int = 1450
    ipv6: bool = False

    @property
    def tap(self) -> str:
        """The name of the device on the host, as OpenStack names it."""
        return f"tap{self.port_id[:11]}"

    @property
    def wants_ipv6(self) -> bool:
        return self.ipv6 or any(":" in ip for ip in self.ips)


def plug(host: Namespace, guests: Sequence[tuple[GuestSpec, Namespace]]) -> None:
    """Make each guest's pair of devices, set up and up. Raises CommandError, OSError."""
    specs = {namespace.name: spec for spec, namespace in guests}
    namespaces = [namespace for _, namespace in guests]
    lines = []
    for spec, namespace in guests:
        lines.append(
            f"link add {spec.tap} mtu {spec.mtu} type veth"
            f" peer name eth0 netns {namespace.name} address {spec.mac} mtu {spec.mtu}"
        )
        lines.append(f"link set {spec.tap} up")

    def before(namespace: Namespace) -> None:
        off = 0 if specs[namespace.name].wants_ipv6 else 1
        write_sysctls({"ipv6__conf__default__disable_ipv6": off, "ipv6__conf__all__disable_ipv6": off})

    def after(_: Namespace) -> None:
        checksum_offload_off("eth0")
        # A request that is lost while the network is being made costs 0.1 s, not 1 s.
        write_sysctls({"ipv4__neigh__eth0__retrans_time_ms": 100})

    in_namespaces(namespaces, before)
    host.ip(*lines)
    in_namespaces(namespaces, after)
    for spec, namespace in guests:
        namespace.ip(*address_lines(spec))


def address_lines(spec: GuestSpec) -> list[str]:
    """What `ip` does inside the guest."""
    lines = [f"addr add {ip} dev eth0{' nodad' if ':' in ip else ''}" for ip in spec.ips]
    lines += ["link set lo up", "link set eth0 up"]
    if spec.gateway is not None:
        lines.append(f"route add default via {spec.gateway} dev eth0 onlink")
    return lines


def attach_arguments(bridge: str, specs: Sequence[GuestSpec]) -> list[str]:
    """The arguments of ovs-vsctl that give the guests' devices to a bridge, as Nova does."""
    arguments: list[str] = []
    for spec in specs:
        arguments += ["--", "--may-exist", "add-port", bridge, spec.tap]
        arguments += ["--", "set", "Interface", spec.tap, f"external_ids:iface-id={spec.port_id}"]
        arguments += [f"external_ids:attached-mac={spec.mac}", "external_ids:iface-status=active"]
    return arguments


def detach_arguments(bridge: str, specs: Sequence[GuestSpec]) -> list[str]:
    """The arguments of ovs-vsctl that take the guests' devices from a bridge; those that are not on it are ignored."""
    return [word for spec in specs for word in ("--", "--if-exists", "del-port", bridge, spec.tap)]
