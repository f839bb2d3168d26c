"""What one port is offered, and what the responder gives back."""

from __future__ import annotations

from dataclasses import dataclass, field

from aca.dhcp.options import LEASE_FOREVER, Offer, prepare


@dataclass(frozen=True, slots=True)
class Binding:
    """The DHCPv4 identity of one port; identity is the port, `mac` only tells its client from others behind it.

    `mac` and `server_mac` are 6 bytes, all addresses 4 bytes in network order. `server` is the server identifier
    and the source address of replies: the gateway, or a stable address where there is none. `router` is None
    where the subnet has no gateway. `mtu` is in bytes, 0 if unknown. `host_name` and `domain` may be empty.
    `options` are (name or number, value text) pairs, see `aca.dhcp.options`. A bad text never raises here: it is
    left out of the answers and reported by `option_errors`. `offer` is made from the rest, once, since a guest may
    ask a great many times.

    Raises ValueError if a packed field has the wrong size or a number is out of its range.
    """

    mac: bytes
    address: bytes
    prefix_length: int
    server: bytes
    router: bytes | None
    dns: tuple[bytes, ...]
    mtu: int
    host_name: str
    domain: str
    options: tuple[tuple[str, str], ...]
    server_mac: bytes
    lease_seconds: int = 86_400
    offer: Offer = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, value, size in (
            ("mac", self.mac, 6),
            ("server_mac", self.server_mac, 6),
            ("address", self.address, 4),
            ("server", self.server, 4),
            *(("dns", entry, 4) for entry in self.dns),
        ):
            if len(value) != size:
                raise ValueError(f"{name} must be {size} bytes, not {len(value)}")
        if self.router is not None and len(self.router) != 4:
            raise ValueError(f"router must be 4 bytes, not {len(self.router)}")
        if not 0 <= self.prefix_length <= 32:
            raise ValueError(f"prefix_length must be 0..32, not {self.prefix_length}")
        if not 0 <= self.mtu <= 0xFFFF:
            raise ValueError(f"mtu must be 0..65535, not {self.mtu}")
        if not 1 <= self.lease_seconds <= LEASE_FOREVER:
            raise ValueError(f"lease_seconds must be 1..{LEASE_FOREVER}, not {self.lease_seconds}")
        object.__setattr__(self, "offer", prepare(self))


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: the whole untagged Ethernet frame to give to the port, and its kind "OFFER", "ACK" or "NAK"."""

    frame: bytes
    kind: str


def option_errors(binding: Binding) -> tuple[str, ...]:
    """What in `binding` cannot be used and why, one line each, in the order of the options; empty if all is well."""
    return binding.offer.errors
