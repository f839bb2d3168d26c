"""OpenFlow 1.4 messages we send: their bodies, that is, what follows the 8 byte header.

The values and decoders of ``decoding`` are offered here as well, so that users need one module.
Section numbers are those of the OpenFlow 1.4.0 specification. ``struct.error`` is raised for numbers that do
not fit their field.
"""

from __future__ import annotations

import struct
from typing import Final

from dataplane.ovs.openflow.actions import NICIRA, PORT_ANY, PORT_CONTROLLER
from dataplane.ovs.openflow.decoding import AggregateStats as AggregateStats
from dataplane.ovs.openflow.decoding import BundleReply as BundleReply
from dataplane.ovs.openflow.decoding import FlowStat as FlowStat
from dataplane.ovs.openflow.decoding import FlowUpdates as FlowUpdates
from dataplane.ovs.openflow.decoding import MultipartPart as MultipartPart
from dataplane.ovs.openflow.decoding import PacketIn as PacketIn
from dataplane.ovs.openflow.decoding import decode_aggregate as decode_aggregate
from dataplane.ovs.openflow.decoding import decode_bundle_reply as decode_bundle_reply
from dataplane.ovs.openflow.decoding import decode_error as decode_error
from dataplane.ovs.openflow.decoding import decode_flow_stats as decode_flow_stats
from dataplane.ovs.openflow.decoding import decode_flow_updates as decode_flow_updates
from dataplane.ovs.openflow.decoding import decode_hello as decode_hello
from dataplane.ovs.openflow.decoding import decode_multipart as decode_multipart
from dataplane.ovs.openflow.decoding import decode_nicira_packet_in as decode_nicira_packet_in
from dataplane.ovs.openflow.decoding import decode_packet_in as decode_packet_in

VERSION: Final = 5
HEADER = struct.Struct("!BBHI")
MAX_MESSAGE: Final = 0xFFFF

HELLO: Final = 0
ERROR: Final = 1
ECHO_REQUEST: Final = 2
ECHO_REPLY: Final = 3
EXPERIMENTER: Final = 4
FEATURES_REQUEST: Final = 5
FEATURES_REPLY: Final = 6
SET_CONFIG: Final = 9
PACKET_IN: Final = 10
FLOW_REMOVED: Final = 11
PORT_STATUS: Final = 12
PACKET_OUT: Final = 13
FLOW_MOD: Final = 14
GROUP_MOD: Final = 15
MULTIPART_REQUEST: Final = 18
MULTIPART_REPLY: Final = 19
BARRIER_REQUEST: Final = 20
BARRIER_REPLY: Final = 21
SET_ASYNC: Final = 28
METER_MOD: Final = 29
BUNDLE_CONTROL: Final = 33
BUNDLE_ADD_MESSAGE: Final = 34

TABLE_ALL: Final = 0xFF
GROUP_ANY: Final = 0xFFFFFFFF
NO_BUFFER: Final = 0xFFFFFFFF
COOKIE_EXACT: Final = 0xFFFFFFFFFFFFFFFF

MULTIPART_FLOW: Final = 1
MULTIPART_AGGREGATE: Final = 2
MULTIPART_FLOW_MONITOR: Final = 16

BUNDLE_OPEN: Final = 0
BUNDLE_COMMIT: Final = 4
BUNDLE_COMMIT_REPLY: Final = 5
BUNDLE_ATOMIC_ORDERED: Final = 3

_MONITOR_ID: Final = 1
_MONITOR_ADD: Final = 0
_MONITOR_REMOVED_MODIFIED: Final = 1 << 2 | 1 << 3
_FLOW_ADD: Final = 0
_FLOW_DELETE: Final = 3
_FLOW_DELETE_STRICT: Final = 4
_METER_ADD: Final = 0
_METER_MODIFY: Final = 1
_METER_DELETE: Final = 2
_METER_FLAGS: Final = 2 | 4  # packets per second, burst size given
_DROP_BAND: Final = 1
_HELLO_BITMAP: Final = 1
_PACKET_IN_FORMAT: Final = 16
_PACKET_IN2: Final = 2

# cookie, mask, table, command, idle, hard, priority, buffer, out port, out group, flags, importance, match head
_FLOW_MOD = struct.Struct("!QQBBHHHIIIHHHH")
_METER_MOD = struct.Struct("!HHI")
_DROP = struct.Struct("!HHII4x")
_PACKET_OUT = struct.Struct("!IIH6x")
_MULTIPART = struct.Struct("!HH4x")
_MONITOR_REQUEST = struct.Struct("!IIIHBBHH4x")
_FLOW_REQUEST = struct.Struct("!B3xII4xQQHH4x")
_BUNDLE_CONTROL = struct.Struct("!IHH")
_CONFIG = struct.Struct("!HH")

# A match is padded to 8 bytes counting its own 4 byte head.
_MATCH_PADS = tuple(bytes(-(4 + n) % 8) for n in range(8))


def flow_add(cookie: int, table: int, priority: int, match: bytes, instructions: bytes, idle_timeout: int = 0) -> bytes:
    """Add a flow, or replace the one of the same table, priority and match (OFPFC_ADD, 7.3.4.2).

    ``match`` and ``instructions`` are made with ``oxm`` and ``actions``; ``idle_timeout`` in seconds, 0 = stays.
    """
    size = len(match)
    return (
        _FLOW_MOD.pack(
            cookie, 0, table, _FLOW_ADD, idle_timeout, 0, priority, NO_BUFFER, PORT_ANY, GROUP_ANY, 0, 0, 1, size + 4
        )
        + match
        + _MATCH_PADS[size & 7]
        + instructions
    )


def flow_delete_strict(cookie: int, table: int, priority: int, match: bytes) -> bytes:
    """Delete exactly this flow, if it still carries this cookie (OFPFC_DELETE_STRICT)."""
    size = len(match)
    return (
        _FLOW_MOD.pack(
            cookie,
            COOKIE_EXACT,
            table,
            _FLOW_DELETE_STRICT,
            0,
            0,
            priority,
            NO_BUFFER,
            PORT_ANY,
            GROUP_ANY,
            0,
            0,
            1,
            size + 4,
        )
        + match
        + _MATCH_PADS[size & 7]
    )


def flow_delete_by_cookie(cookie: int, mask: int) -> bytes:
    """Delete the flows of all tables whose cookie equals ``cookie`` in the bits of ``mask`` (OFPFC_DELETE)."""
    return (
        _FLOW_MOD.pack(cookie, mask, TABLE_ALL, _FLOW_DELETE, 0, 0, 0, NO_BUFFER, PORT_ANY, GROUP_ANY, 0, 0, 1, 4)
        + _MATCH_PADS[0]
    )


def _meter(command: int, meter_id: int, rate_pps: int, burst: int) -> bytes:
    return _METER_MOD.pack(command, _METER_FLAGS, meter_id) + _DROP.pack(_DROP_BAND, 16, rate_pps, burst)


def meter_add(meter_id: int, rate_pps: int, burst: int) -> bytes:
    """A new meter that drops what exceeds ``rate_pps`` packets a second, ``burst`` packets at once (7.3.4.5)."""
    return _meter(_METER_ADD, meter_id, rate_pps, burst)


def meter_modify(meter_id: int, rate_pps: int, burst: int) -> bytes:
    """Change a meter made by ``meter_add``."""
    return _meter(_METER_MODIFY, meter_id, rate_pps, burst)


def meter_delete(meter_id: int) -> bytes:
    """Delete a meter, and with it every flow that names it."""
    return _METER_MOD.pack(_METER_DELETE, 0, meter_id)


def packet_out(data: bytes, actions: bytes, in_port: int = PORT_CONTROLLER) -> bytes:
    """Put a frame through actions as if it had come in by ``in_port`` (7.3.7)."""
    return _PACKET_OUT.pack(NO_BUFFER, in_port, len(actions)) + actions + data


def message(message_type: int, xid: int, body: bytes = b"") -> bytes:
    """A whole message: header and body (7.1)."""
    return HEADER.pack(VERSION, message_type, HEADER.size + len(body), xid) + body


def hello() -> bytes:
    """Body of a HELLO that offers OpenFlow 1.4 only (7.5.1)."""
    return struct.pack("!HHI", _HELLO_BITMAP, 8, 1 << VERSION)


def set_config(miss_send_len: int) -> bytes:
    """Body of SET_CONFIG. On a management connection a length of 0 means no asynchronous messages at all."""
    return _CONFIG.pack(0, miss_send_len)


def packet_in_format() -> bytes:
    """Experimenter body that asks for NXT_PACKET_IN2, the form that carries userdata and registers."""
    return struct.pack("!III", NICIRA, _PACKET_IN_FORMAT, _PACKET_IN2)


def bundle_control(bundle_id: int, control: int) -> bytes:
    """Body of BUNDLE_CONTROL for an atomic, ordered bundle (7.3.9.1)."""
    return _BUNDLE_CONTROL.pack(bundle_id, control, BUNDLE_ATOMIC_ORDERED)


def flow_stats_request(kind: int, table: int, cookie: int, mask: int) -> bytes:
    """Body of a multipart request (MULTIPART_FLOW or MULTIPART_AGGREGATE) for flows by table and cookie (7.3.5)."""
    return _MULTIPART.pack(kind, 0) + _FLOW_REQUEST.pack(table, PORT_ANY, GROUP_ANY, cookie, mask, 1, 4)


def flow_monitor_request() -> bytes:
    """Body of a multipart request to be told of every flow that is removed or modified from now on (7.3.5.17).

    Additions are not told, nor that one replaces a flow of the same match: loads in bulk would be slowed by it.
    """
    return _MULTIPART.pack(MULTIPART_FLOW_MONITOR, 0) + _MONITOR_REQUEST.pack(
        _MONITOR_ID, PORT_ANY, GROUP_ANY, _MONITOR_REMOVED_MODIFIED, TABLE_ALL, _MONITOR_ADD, 1, 4
    )
