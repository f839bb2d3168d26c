"""Match fields as OXM/NXM type-length-value bytes (OpenFlow 1.4, 7.2.3; field numbers of Open vSwitch).

Each function returns the bytes of one field; a match is their concatenation, prerequisites first.
Numbers are host integers, addresses packed bytes in network order. A mask that covers everything gives the
unmasked form, one that covers nothing gives ``b""``, and value bits outside the mask are cleared, since the
bridge refuses them. ``ValueError`` is raised for an address of the wrong length or a prefix length outside
the address, ``OverflowError`` for a number that does not fit its field.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from dataplane.ovs.openflow.errors import DecodeError

_NXM_0: Final = 0x0000
_NXM_1: Final = 0x0001
_ERICSSON: Final = 0x1000
_BASIC: Final = 0x8000
_PACKET_REGS: Final = 0x8001
_EXPERIMENTER: Final = 0xFFFF

_REGISTERS: Final = 16
_XXREG_BASE: Final = 111


@dataclass(frozen=True, slots=True)
class Field:
    """A field that actions read or write: its unmasked OXM/NXM header (32 bits) and its width in bits."""

    header: int
    bits: int

    @property
    def nicira(self) -> int:
        """The header that Nicira actions are reported with (ovs-fields(7)): an older name, where there is one."""
        return _NICIRA_NAMES.get(self.header, self.header)


_NICIRA_NAMES: Final = MappingProxyType(
    {
        0x80000606: 0x00000206,  # eth_dst
        0x80000806: 0x00000406,  # eth_src
        0x80001604: 0x00000E04,  # ipv4_src
        0x80001804: 0x00001004,  # ipv4_dst
        0x80002A02: 0x00001E02,  # arp_op
        0x80002C04: 0x00002004,  # arp_spa
        0x80002E04: 0x00002204,  # arp_tpa
        0x80003006: 0x00012206,  # arp_sha
        0x80003206: 0x00012406,  # arp_tha
        0x80003410: 0x00012610,  # ipv6_src
        0x80003610: 0x00012810,  # ipv6_dst
        0x80003E10: 0x00012E10,  # nd_target
        0x80004006: 0x00013006,  # nd_sll
        0x80004206: 0x00013206,  # nd_tll
    }
)


def _header(oxm_class: int, field: int, size: int) -> int:
    return oxm_class << 16 | field << 9 | size


def _exact(oxm_class: int, field: int, size: int) -> bytes:
    return _header(oxm_class, field, size).to_bytes(4, "big")


def _wild(oxm_class: int, field: int, size: int) -> bytes:
    return (_header(oxm_class, field, size * 2) | 1 << 8).to_bytes(4, "big")


def _field(oxm_class: int, field: int, bits: int) -> Field:
    return Field(_header(oxm_class, field, (bits + 7) // 8), bits)


REG0, REG1, REG2, REG3, REG4, REG5, REG6, REG7 = (_field(_NXM_1, n, 32) for n in range(8))
REG8, REG9, REG10, REG11, REG12, REG13, REG14, REG15 = (_field(_NXM_1, n, 32) for n in range(8, 16))
XREG0, XREG1, XREG2, XREG3, XREG4, XREG5, XREG6, XREG7 = (_field(_PACKET_REGS, n, 64) for n in range(8))
XXREG0, XXREG1, XXREG2, XXREG3 = (_field(_NXM_1, _XXREG_BASE + n, 128) for n in range(4))
IN_PORT = _field(_NXM_0, 0, 16)
METADATA = _field(_BASIC, 2, 64)
ETH_DST = _field(_BASIC, 3, 48)
ETH_SRC = _field(_BASIC, 4, 48)
IPV4_SRC = _field(_BASIC, 11, 32)
IPV4_DST = _field(_BASIC, 12, 32)
ICMPV4_TYPE = _field(_BASIC, 19, 8)
ICMPV4_CODE = _field(_BASIC, 20, 8)
ARP_OP = _field(_BASIC, 21, 16)
ARP_SPA = _field(_BASIC, 22, 32)
ARP_TPA = _field(_BASIC, 23, 32)
ARP_SHA = _field(_BASIC, 24, 48)
ARP_THA = _field(_BASIC, 25, 48)
IPV6_SRC = _field(_BASIC, 26, 128)
IPV6_DST = _field(_BASIC, 27, 128)
ICMPV6_TYPE = _field(_BASIC, 29, 8)
ICMPV6_CODE = _field(_BASIC, 30, 8)
ND_TARGET = _field(_BASIC, 31, 128)
ND_SLL = _field(_BASIC, 32, 48)
ND_TLL = _field(_BASIC, 33, 48)
TUN_ID = _field(_NXM_1, 16, 64)
IP_TTL = _field(_NXM_1, 29, 8)
TUN_IPV4_SRC = _field(_NXM_1, 31, 32)
TUN_IPV4_DST = _field(_NXM_1, 32, 32)
ND_RESERVED = _field(_ERICSSON, 1, 32)
ND_OPTIONS_TYPE = _field(_ERICSSON, 2, 8)

_IN_PORT = _exact(_BASIC, 0, 4)
_ETH_TYPE = _exact(_BASIC, 5, 2)
_VLAN_NONE = _exact(_BASIC, 6, 2) + b"\0\0"
_IP_PROTO = _exact(_BASIC, 10, 1)
_TCP_SRC = _exact(_BASIC, 13, 2)
_TCP_DST = _exact(_BASIC, 14, 2)
_UDP_SRC = _exact(_BASIC, 15, 2)
_UDP_DST = _exact(_BASIC, 16, 2)
_ICMPV4_TYPE = _exact(_BASIC, 19, 1)
_ICMPV4_CODE = _exact(_BASIC, 20, 1)
_ARP_OP = _exact(_BASIC, 21, 2)
_ARP_SHA = _exact(_BASIC, 24, 6)
_ARP_THA = _exact(_BASIC, 25, 6)
_ICMPV6_TYPE = _exact(_BASIC, 29, 1)
_ICMPV6_CODE = _exact(_BASIC, 30, 1)
_ND_SLL = _exact(_BASIC, 32, 6)
_ND_TLL = _exact(_BASIC, 33, 6)
_TUNNEL_ID = _exact(_BASIC, 38, 8)
_IP_FRAG = _exact(_NXM_1, 26, 1)
_IP_FRAG_WILD = _wild(_NXM_1, 26, 1)
_IP_TTL = _exact(_NXM_1, 29, 1)
_TUN_IPV4_DST = _exact(_NXM_1, 32, 4)
_METADATA = (_exact(_BASIC, 2, 8), _wild(_BASIC, 2, 8))
_ETH_DST = (_exact(_BASIC, 3, 6), _wild(_BASIC, 3, 6))
_ETH_SRC = (_exact(_BASIC, 4, 6), _wild(_BASIC, 4, 6))
_IPV4_SRC = (_exact(_BASIC, 11, 4), _wild(_BASIC, 11, 4))
_IPV4_DST = (_exact(_BASIC, 12, 4), _wild(_BASIC, 12, 4))
_ARP_SPA = (_exact(_BASIC, 22, 4), _wild(_BASIC, 22, 4))
_ARP_TPA = (_exact(_BASIC, 23, 4), _wild(_BASIC, 23, 4))
_IPV6_SRC = (_exact(_BASIC, 26, 16), _wild(_BASIC, 26, 16))
_IPV6_DST = (_exact(_BASIC, 27, 16), _wild(_BASIC, 27, 16))
_ND_TARGET = (_exact(_BASIC, 31, 16), _wild(_BASIC, 31, 16))
_REG = tuple((_exact(_NXM_1, n, 4), _wild(_NXM_1, n, 4)) for n in range(_REGISTERS))
_XREG = tuple((_exact(_PACKET_REGS, n, 8), _wild(_PACKET_REGS, n, 8)) for n in range(_REGISTERS // 2))
_XXREG = tuple(
    (_exact(_NXM_1, _XXREG_BASE + n, 16), _wild(_NXM_1, _XXREG_BASE + n, 16)) for n in range(_REGISTERS // 4)
)

_FRAG_BITS: Final = 3


def _number(heads: tuple[bytes, bytes], value: int, mask: int | None, size: int) -> bytes:
    if mask is None or mask == (1 << size * 8) - 1:
        return heads[0] + value.to_bytes(size, "big")
    if mask == 0:
        return b""
    return heads[1] + (value & mask).to_bytes(size, "big") + mask.to_bytes(size, "big")


def _address(head: bytes, value: bytes, size: int) -> bytes:
    if len(value) != size:
        raise ValueError(f"{size} bytes wanted, got {len(value)}")
    return head + value


def _masked(heads: tuple[bytes, bytes], value: bytes, mask: bytes, size: int) -> bytes:
    if len(value) != size or len(mask) != size:
        raise ValueError(f"{size} bytes wanted, got {len(value)} and a mask of {len(mask)}")
    return _number(heads, int.from_bytes(value, "big"), int.from_bytes(mask, "big"), size)


def _prefix(heads: tuple[bytes, bytes], address: bytes, length: int, size: int) -> bytes:
    bits = size * 8
    if len(address) != size:
        raise ValueError(f"{size} bytes wanted, got {len(address)}")
    if length == bits:
        return heads[0] + address
    if not 0 <= length < bits:
        raise ValueError(f"a prefix length of 0 to {bits} wanted, got {length}")
    return _number(heads, int.from_bytes(address, "big"), (1 << bits) - (1 << bits - length), size)


def in_port(n: int) -> bytes:
    """Port the packet came in by, an OpenFlow port number (32 bits)."""
    return _IN_PORT + n.to_bytes(4, "big")


def eth_type(n: int) -> bytes:
    """Ethernet type (16 bits)."""
    return _ETH_TYPE + n.to_bytes(2, "big")


def eth_dst(mac: bytes, mask: bytes | None = None) -> bytes:
    """Destination MAC (6 bytes), any bits of it."""
    return _address(_ETH_DST[0], mac, 6) if mask is None else _masked(_ETH_DST, mac, mask, 6)


def eth_src(mac: bytes, mask: bytes | None = None) -> bytes:
    """Source MAC (6 bytes), any bits of it."""
    return _address(_ETH_SRC[0], mac, 6) if mask is None else _masked(_ETH_SRC, mac, mask, 6)


def vlan_none() -> bytes:
    """Untagged frames only (OFPVID_NONE)."""
    return _VLAN_NONE


def ip_proto(n: int) -> bytes:
    """IP protocol or IPv6 next header (8 bits); needs eth_type."""
    return _IP_PROTO + n.to_bytes(1, "big")


def ip_ttl(n: int) -> bytes:
    """TTL or hop limit (8 bits); needs eth_type."""
    return _IP_TTL + n.to_bytes(1, "big")


def ip_frag(value: int, mask: int) -> bytes:
    """Fragment state: bit 0 = is a fragment, bit 1 = is not the first one; needs eth_type."""
    if not 0 <= value <= _FRAG_BITS or not 0 <= mask <= _FRAG_BITS:
        raise OverflowError(f"two bits wanted, got {value}/{mask}")
    if mask == 0:
        return b""
    return _IP_FRAG + bytes((value,)) if mask == _FRAG_BITS else _IP_FRAG_WILD + bytes((value & mask, mask))


def ipv4_src(addr: bytes, length: int = 32) -> bytes:
    """IPv4 source (4 bytes) or prefix; needs eth_type 0x0800."""
    return _prefix(_IPV4_SRC, addr, length, 4)


def ipv4_dst(addr: bytes, length: int = 32) -> bytes:
    """IPv4 destination (4 bytes) or prefix; needs eth_type 0x0800."""
    return _prefix(_IPV4_DST, addr, length, 4)


def tcp_src(n: int) -> bytes:
    """TCP source port; needs ip_proto 6."""
    return _TCP_SRC + n.to_bytes(2, "big")


def tcp_dst(n: int) -> bytes:
    """TCP destination port; needs ip_proto 6."""
    return _TCP_DST + n.to_bytes(2, "big")


def udp_src(n: int) -> bytes:
    """UDP source port; needs ip_proto 17."""
    return _UDP_SRC + n.to_bytes(2, "big")


def udp_dst(n: int) -> bytes:
    """UDP destination port; needs ip_proto 17."""
    return _UDP_DST + n.to_bytes(2, "big")


def icmpv4_type(n: int) -> bytes:
    """ICMP type; needs ip_proto 1."""
    return _ICMPV4_TYPE + n.to_bytes(1, "big")


def icmpv4_code(n: int) -> bytes:
    """ICMP code; needs ip_proto 1."""
    return _ICMPV4_CODE + n.to_bytes(1, "big")


def arp_op(n: int) -> bytes:
    """ARP operation (16 bits); needs eth_type 0x0806."""
    return _ARP_OP + n.to_bytes(2, "big")


def arp_spa(addr: bytes, length: int = 32) -> bytes:
    """ARP sender address (4 bytes) or prefix; needs eth_type 0x0806."""
    return _prefix(_ARP_SPA, addr, length, 4)


def arp_tpa(addr: bytes, length: int = 32) -> bytes:
    """ARP target address (4 bytes) or prefix; needs eth_type 0x0806."""
    return _prefix(_ARP_TPA, addr, length, 4)


def arp_sha(mac: bytes) -> bytes:
    """ARP sender MAC (6 bytes); needs eth_type 0x0806."""
    return _address(_ARP_SHA, mac, 6)


def arp_tha(mac: bytes) -> bytes:
    """ARP target MAC (6 bytes); needs eth_type 0x0806."""
    return _address(_ARP_THA, mac, 6)


def ipv6_src(addr: bytes, length: int = 128) -> bytes:
    """IPv6 source (16 bytes) or prefix; needs eth_type 0x86dd."""
    return _prefix(_IPV6_SRC, addr, length, 16)


def ipv6_dst(addr: bytes, length: int = 128) -> bytes:
    """IPv6 destination (16 bytes) or prefix; needs eth_type 0x86dd."""
    return _prefix(_IPV6_DST, addr, length, 16)


def icmpv6_type(n: int) -> bytes:
    """ICMPv6 type; needs ip_proto 58."""
    return _ICMPV6_TYPE + n.to_bytes(1, "big")


def icmpv6_code(n: int) -> bytes:
    """ICMPv6 code; needs ip_proto 58."""
    return _ICMPV6_CODE + n.to_bytes(1, "big")


def nd_target(addr: bytes, length: int = 128) -> bytes:
    """Neighbour discovery target (16 bytes) or prefix; needs icmpv6_type 135 or 136 and icmpv6_code 0."""
    return _prefix(_ND_TARGET, addr, length, 16)


def nd_sll(mac: bytes) -> bytes:
    """Source link-layer option of a solicitation (6 bytes); needs icmpv6_type 135, icmpv6_code 0."""
    return _address(_ND_SLL, mac, 6)


def nd_tll(mac: bytes) -> bytes:
    """Target link-layer option of an advertisement (6 bytes); needs icmpv6_type 136, icmpv6_code 0."""
    return _address(_ND_TLL, mac, 6)


def metadata(value: int, mask: int | None = None) -> bytes:
    """The pipeline's metadata (64 bits)."""
    return _number(_METADATA, value, mask, 8)


def tunnel_id(value: int) -> bytes:
    """Key of the tunnel the packet came by (64 bits, 24 used by VXLAN and Geneve)."""
    return _TUNNEL_ID + value.to_bytes(8, "big")


def tun_ipv4_dst(addr: bytes) -> bytes:
    """Outer IPv4 destination (4 bytes): the far tunnel end when set, our own address when matched."""
    return _address(_TUN_IPV4_DST, addr, 4)


def reg(n: int, value: int, mask: int | None = None) -> bytes:
    """Register n (0..15), 32 bits."""
    return _number(_REG[n], value, mask, 4)


def xreg(n: int, value: int, mask: int | None = None) -> bytes:
    """Double register n (0..7), 64 bits: registers 2n (high half) and 2n+1."""
    return _number(_XREG[n], value, mask, 8)


def xxreg(n: int, value: bytes, mask: bytes | None = None) -> bytes:
    """Quadruple register n (0..3), 16 bytes: registers 4n (highest) to 4n+3."""
    return _address(_XXREG[n][0], value, 16) if mask is None else _masked(_XXREG[n], value, mask, 16)


def split(match: bytes) -> Iterator[tuple[int, bytes, bytes | None]]:
    """The fields of a match: (unmasked 32 bit header, value, mask or None). Raises DecodeError."""
    offset, end = 0, len(match)
    while offset < end:
        if end - offset < 4:
            raise DecodeError(f"{end - offset} stray bytes after the last field")
        header = int.from_bytes(match[offset : offset + 4], "big")
        size = header & 0xFF
        payload = match[offset + 4 : offset + 4 + size]
        if len(payload) != size:
            raise DecodeError(f"field {header:#010x} is cut off")
        offset += 4 + size
        if not header >> 8 & 1:
            yield header, payload, None
            continue
        # An experimenter field repeats its 4 byte vendor id neither in value nor in mask.
        head = 4 if header >> 16 == _EXPERIMENTER else 0
        half, odd = divmod(size - head, 2)
        if odd or half < 0:
            raise DecodeError(f"masked field {header:#010x} has an odd length")
        bare = (header & 0xFFFFFE00) | (head + half)
        yield bare, payload[: head + half], payload[head + half :]


def canonical(match: bytes) -> bytes:
    """The same match in one fixed spelling, to compare what was sent with what the bridge reports.

    Fields are sorted; wide registers become single ones, as the bridge reports them; masks that cover
    everything or nothing vanish. Raises DecodeError for bytes that are no match.
    """
    return b"".join(sorted(_respell(match)))


def _respell(match: bytes) -> Iterator[bytes]:
    for header, value, mask in split(match):
        first = first_register(header)
        if first is None:
            yield _spell(header, value, mask)
            continue
        for n in range(len(value) // 4):
            part = slice(4 * n, 4 * n + 4)
            yield _spell(REG0.header + (first + n << 9), value[part], mask and mask[part])


def first_register(header: int) -> int | None:
    """Number of the first 32 bit register that a register field of any width covers, None for other fields."""
    oxm_class, field = header >> 16, header >> 9 & 0x7F
    size = header & 0xFF
    if oxm_class == _NXM_1 and field < _REGISTERS and size == 4:
        return field
    if oxm_class == _PACKET_REGS and field < _REGISTERS // 2 and size == 8:
        return field * 2
    if oxm_class == _NXM_1 and size == 16 and _XXREG_BASE <= field < _XXREG_BASE + _REGISTERS // 4:
        return (field - _XXREG_BASE) * 4
    return None


def _spell(header: int, value: bytes, mask: bytes | None) -> bytes:
    if mask is None or mask.count(0xFF) == len(mask):
        return header.to_bytes(4, "big") + value
    if not any(mask):
        return b""
    size = len(value) + len(mask)
    return ((header & 0xFFFFFF00) | 1 << 8 | size).to_bytes(4, "big") + value + mask
