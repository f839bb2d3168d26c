"""Actions and instructions (OpenFlow 1.4, 7.2.4 and 7.2.5; Nicira extensions of Open vSwitch).

Every function returns complete bytes, padded to 8, so lists are made by concatenation:
``instructions = meter(7) + apply_actions(dec_ttl(), resubmit(50)) + goto_table(60)``.
``ValueError`` is raised for arguments that cannot be expressed.
"""

from __future__ import annotations

import struct
from typing import Final

from dataplane.ovs.openflow.oxm import Field

PORT_MAX: Final = 0xFFFFFF00
PORT_IN_PORT: Final = 0xFFFFFFF8
PORT_TABLE: Final = 0xFFFFFFF9
PORT_CONTROLLER: Final = 0xFFFFFFFD
PORT_LOCAL: Final = 0xFFFFFFFE
PORT_ANY: Final = 0xFFFFFFFF

REASON_NO_MATCH: Final = 0
REASON_ACTION: Final = 1
REASON_INVALID_TTL: Final = 2

NICIRA: Final = 0x00002320

_VENDOR: Final = 0xFFFF
_IN_PORT_16: Final = 0xFFF8
_LONGEST: Final = 0xFFF8
_LONGEST_USERDATA: Final = _LONGEST - 64

_OUTPUT = struct.Struct("!HHIH6x")
_GROUP = struct.Struct("!HHI")
_LOAD = struct.Struct("!HHIHHIQ")
_MOVE = struct.Struct("!HHIHHHHII")
_RESUBMIT_TABLE = struct.Struct("!HHIHHB3x")
_OUTPUT_REG = struct.Struct("!HHIHHIH6x")
_CONTROLLER = struct.Struct("!HHIHHHBx")
_NICIRA = struct.Struct("!HHIH")
_NICIRA_PADDED = struct.Struct("!HHIH6x")
_CHECK_PKT_LARGER = struct.Struct("!HHIHHHI6x")
_HEAD = struct.Struct("!HH")
_PADDED_HEAD = struct.Struct("!HH4x")
_PROPERTY_8 = struct.Struct("!HHB3x")
_PROPERTY_16 = struct.Struct("!HHH2x")
_PROPERTY_32 = struct.Struct("!HHI")
_GOTO = struct.Struct("!HHB3x")
_METADATA = struct.Struct("!HH4xQQ")

_DEC_TTL = _PADDED_HEAD.pack(24, 8)
_IN_PORT_OUTPUT = _OUTPUT.pack(0, 16, PORT_IN_PORT, 0)


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _part(field: Field, offset: int, bits: int) -> int:
    """The ``ofs_nbits`` of a part of a field: offset in the upper 10 bits, width - 1 in the lower 6."""
    if not (offset >= 0 and 1 <= bits <= 64 and offset + bits <= field.bits):
        raise ValueError(f"bits {offset} to {offset + bits - 1} of a field of {field.bits} bits")
    return offset << 6 | bits - 1


def set_field(tlv: bytes) -> bytes:
    """Set a whole field (OFPAT_SET_FIELD), or the masked part of it (NXAST_REG_LOAD2), to one TLV of ``oxm``."""
    if len(tlv) < 5 or len(tlv) != 4 + tlv[3]:
        raise ValueError("exactly one match field wanted")
    if tlv[2] & 1:
        size = (_NICIRA.size + len(tlv) + 7) & ~7
        return _pad(_NICIRA.pack(_VENDOR, size, NICIRA, 33) + tlv)
    return _pad(_HEAD.pack(25, (4 + len(tlv) + 7) & ~7) + tlv)


def load(field: Field, value: int, offset: int = 0, bits: int | None = None) -> bytes:
    """Write a constant to ``bits`` bits (at most 64; default: the rest) of a field (NXAST_REG_LOAD)."""
    width = field.bits - offset if bits is None else bits
    part = _part(field, offset, width)
    if not 0 <= value < 1 << width:
        raise ValueError(f"{value:#x} does not fit {width} bits")
    return _LOAD.pack(_VENDOR, 24, NICIRA, 7, part, field.header, value)


def move(src: Field, dst: Field, bits: int | None = None, src_offset: int = 0, dst_offset: int = 0) -> bytes:
    """Copy ``bits`` bits (default: as many as both have) from field to field (NXAST_REG_MOVE).

    Fields are named as Open vSwitch reports them, so that what was sent can be compared with what stands.
    """
    width = min(src.bits - src_offset, dst.bits - dst_offset) if bits is None else bits
    if min(src_offset, dst_offset) < 0 or width < 1:
        raise ValueError(f"{width} bits from {src_offset} to {dst_offset}")
    if src_offset + width > src.bits or dst_offset + width > dst.bits:
        raise ValueError(f"{width} bits do not fit fields of {src.bits} and {dst.bits} bits")
    return _MOVE.pack(_VENDOR, 24, NICIRA, 6, width, src_offset, dst_offset, src.nicira, dst.nicira)


def resubmit(table: int) -> bytes:
    """Look the packet up in another table, then go on with the next action (NXAST_RESUBMIT_TABLE)."""
    return _RESUBMIT_TABLE.pack(_VENDOR, 16, NICIRA, 14, _IN_PORT_16, table)


def output(port: int, max_len: int = 0) -> bytes:
    """Send to a port (OpenFlow number, 32 bits); ``max_len`` bytes if that is the controller."""
    return _OUTPUT.pack(0, 16, port, max_len)


def output_reg(field: Field) -> bytes:
    """Send to the port whose number a field holds (NXAST_OUTPUT_REG)."""
    return _OUTPUT_REG.pack(_VENDOR, 24, NICIRA, 15, _part(field, 0, field.bits), field.header, 0)


def in_port_output() -> bytes:
    """Send back by the port it came from (OFPP_IN_PORT), which ``output`` of its number would not do."""
    return _IN_PORT_OUTPUT


def controller(
    max_len: int = 0xFFFF, reason: int = REASON_ACTION, userdata: bytes = b"", meter: int | None = None
) -> bytes:
    """Punt to us: the first ``max_len`` bytes, with a reason, opaque bytes to recognise it by, and a meter.

    NXAST_CONTROLLER2 if userdata or meter are given, else the shortest form that does. The bridge delivers
    REASON_INVALID_TTL only to a connection that asked for it by SET_ASYNC, which the programmer does not do, since
    every expired TTL would then be punted without a limit: tell flows apart by userdata, not by reason.
    """
    if not userdata and meter is None:
        if reason == REASON_ACTION:
            return _OUTPUT.pack(0, 16, PORT_CONTROLLER, max_len)
        return _CONTROLLER.pack(_VENDOR, 16, NICIRA, 20, max_len, 0, reason)
    if len(userdata) > _LONGEST_USERDATA:
        raise ValueError(f"{len(userdata)} bytes of userdata do not fit an action")
    properties = _PROPERTY_16.pack(0, 6, max_len)
    if reason != REASON_ACTION:
        properties += _PROPERTY_8.pack(2, 5, reason)
    if userdata:
        properties += _pad(_HEAD.pack(3, 4 + len(userdata)) + userdata)
    if meter is not None:
        properties += _PROPERTY_32.pack(5, 8, meter)
    size = _NICIRA_PADDED.size + len(properties)
    return _NICIRA_PADDED.pack(_VENDOR, size, NICIRA, 37) + properties


def dec_ttl() -> bytes:
    """Decrement TTL or hop limit (OFPAT_DEC_NW_TTL); an expired packet's processing ends here."""
    return _DEC_TTL


def check_pkt_larger(length: int, field: Field, offset: int) -> bytes:
    """Set one bit of a field to whether the frame is longer than ``length`` bytes (NXAST_CHECK_PKT_LARGER)."""
    _part(field, offset, 1)
    return _CHECK_PKT_LARGER.pack(_VENDOR, 24, NICIRA, 49, length, offset, field.header)


def group(group_id: int) -> bytes:
    """Process by a group (OFPAT_GROUP)."""
    return _GROUP.pack(22, 8, group_id)


def apply_actions(*actions: bytes) -> bytes:
    """Instruction: carry out the actions now, in this order (OFPIT_APPLY_ACTIONS)."""
    data = b"".join(actions)
    if len(data) > _LONGEST - 8:
        raise ValueError(f"{len(data)} bytes of actions do not fit an instruction")
    return _PADDED_HEAD.pack(4, 8 + len(data)) + data


def goto_table(table: int) -> bytes:
    """Instruction: go on in a later table (OFPIT_GOTO_TABLE)."""
    return _GOTO.pack(1, 8, table)


def write_metadata(value: int, mask: int = 0xFFFFFFFFFFFFFFFF) -> bytes:
    """Instruction: set the masked bits of the metadata (OFPIT_WRITE_METADATA)."""
    return _METADATA.pack(2, 24, value, mask)


def meter(meter_id: int) -> bytes:
    """Instruction: pass or drop by a meter (OFPIT_METER); comes first."""
    return _GROUP.pack(6, 8, meter_id)
