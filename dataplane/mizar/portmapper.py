"""Asks a port mapper, version 2, where a program listens (RFC 1833 section 3). Also single calls of any program."""

from __future__ import annotations

import random
import struct
import time
from typing import Final

from dataplane.mizar.errors import ReplyError
from dataplane.mizar.rpc import call_head, results_of, xid_of
from dataplane.mizar.sockets import MessageSocket, Overdue

MAPPER, MAPPER_VERSION, GETPORT = 100_000, 2, 3
PROTOCOL_TCP, PROTOCOL_UDP = 6, 17
_WORD: Final = struct.Struct(">I")
_FOUR: Final = struct.Struct(">4I")


def port_of(socket: MessageSocket, program: int, version: int, protocol: int, deadline: float, resend_s: float) -> int:
    """The port of a program, 0 if it is not registered. Raises ReplyError, Broken, Woken, Overdue."""
    body = call_head(MAPPER, MAPPER_VERSION, GETPORT) + _FOUR.pack(program, version, protocol, 0)
    results = one_call(socket, "GETPORT", body, deadline, resend_s)
    port = _WORD.unpack(results)[0] if len(results) == 4 else -1
    if not 0 <= port <= 0xFFFF:
        raise ReplyError("GETPORT", f"a port of {results[:8].hex()}")
    return port


def one_call(socket: MessageSocket, name: str, body: bytes, deadline: float, resend_s: float) -> bytes:
    """The results of a call that may be repeated every `resend_s` (infinite: never). Raises ReplyError, Broken, Woken,
    Overdue."""
    xid = random.getrandbits(32)
    while True:
        socket.send([(xid, body)], deadline)
        patient = min(deadline, time.monotonic() + resend_s)
        try:
            while True:
                for reply in socket.receive(patient):
                    if xid_of(reply) == xid:
                        return results_of(name, reply)
                if time.monotonic() >= patient:
                    raise Overdue
        except Overdue:
            if time.monotonic() >= deadline:
                raise
