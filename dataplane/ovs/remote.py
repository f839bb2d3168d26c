"""Where a part of Open vSwitch listens: a Unix socket, or an address and a port, in plain TCP or with TLS over it.

Written as in ovsdb(7), "Connection Methods": unix:PATH, tcp:ADDRESS:PORT, ssl:ADDRESS:PORT.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

_ADDRESS_PORT = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<v4>[0-9.]+)):(?P<port>\d{1,5})")
_FORMS = "unix:PATH, tcp:ADDRESS:PORT or ssl:ADDRESS:PORT"


class Scheme(enum.Enum):
    UNIX = "unix"
    TCP = "tcp"
    SSL = "ssl"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of mutual TLS: whom we trust, and who we are. `peer_name` is demanded of the peer, if not empty."""

    ca: Path
    certificate: Path
    key: Path
    peer_name: str = ""


@dataclass(frozen=True, slots=True)
class Remote:
    """`path` for a Unix socket, else the numeric `address` and `port`. As text it is what people write."""

    scheme: Scheme
    path: str = ""
    address: str = ""
    port: int = 0

    @classmethod
    def local(cls, path: Path) -> Remote:
        """A Unix socket."""
        return cls(Scheme.UNIX, str(path))

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is, or may be, on another host."""
        return self.scheme is not Scheme.UNIX and not ip_address(self.address).is_loopback

    @property
    def passive(self) -> str:
        """The same place as a method to listen by: pssl:PORT:ADDRESS, ptcp:PORT:ADDRESS, punix:PATH."""
        if self.scheme is Scheme.UNIX:
            return f"punix:{self.path}"
        return f"p{self.scheme.value}:{self.port}:{self._host}"

    @property
    def _host(self) -> str:
        return f"[{self.address}]" if ":" in self.address else self.address

    def __str__(self) -> str:
        if self.scheme is Scheme.UNIX:
            return f"unix:{self.path}"
        return f"{self.scheme.value}:{self._host}:{self.port}"


def parse_remote(text: str) -> Remote:
    """Raises ValueError saying what is allowed. Names are not: looking one up could take as long as it likes."""
    scheme, _, rest = text.partition(":")
    if scheme == Scheme.UNIX.value and rest:
        return Remote(Scheme.UNIX, rest)
    match = _ADDRESS_PORT.fullmatch(rest)
    if scheme not in (Scheme.TCP.value, Scheme.SSL.value) or match is None:
        raise ValueError(f"must be {_FORMS}, an IPv6 ADDRESS in brackets")
    try:
        address = ip_address(match["v6"] or match["v4"])
    except ValueError:
        raise ValueError("must have an IP address") from None
    port = int(match["port"])
    if (address.version == 6) != bool(match["v6"]) or not 1 <= port <= 65535:
        raise ValueError(f"must be {_FORMS}, PORT from 1 to 65535")
    return Remote(Scheme(scheme), address=str(address), port=port)
