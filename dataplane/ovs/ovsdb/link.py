"""One connection to the database server, from the first byte to its loss. Never blocks.

A link is not repaired: after a loss a new one is made, with a fresh schema and a fresh copy of the data, so the same
code serves the first connection and every later one.
"""

from __future__ import annotations

import errno
import os
import select
import time
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ovs.db.idl
import ovs.jsonrpc
import ovs.timeval

from dataplane.ovs.ovsdb.mirror import COLUMNS
from dataplane.ovs.ovsdb.rpc import RpcStream, session_over
from dataplane.ovs.remote import Remote, TlsFiles
from dataplane.ovs.stream import Dialer, StreamError

# The IDL names its monitors by uuid1, for which libuuid opens a clock file in every thread that asks, and never
# closes it. Any unique name will do.
ovs.db.idl.uuid = SimpleNamespace(UUID=uuid.UUID, uuid1=uuid.uuid4, uuid4=uuid.uuid4)

DATABASE = "Open_vSwitch"
PROBE_INTERVAL_MS = 5000
"""Silence after which the server is asked for a sign of life; as long again and the link is given up."""
SETUP_TIMEOUT = 10.0
"""Seconds from the first byte to a complete copy of the data."""
MAX_BLOCK_MS = 1000.0


class LinkLostError(Exception):
    """The connection is gone, or could not be made. The message is the reason."""


class Poller:
    """What the ovs package wants of a poller, over poll(2): no limit to descriptors below 1024, no endless wait."""

    def __init__(self) -> None:
        self._events: dict[int, int] = {}
        self._timeout = MAX_BLOCK_MS

    def fd_wait(self, fd: Any, events: int) -> None:
        number = fd if isinstance(fd, int) else fd.fileno()
        self._events[number] = self._events.get(number, 0) | events

    def timer_wait(self, msec: float) -> None:
        self._timeout = max(0.0, min(self._timeout, msec))

    def timer_wait_until(self, msec: float) -> None:
        self.timer_wait(msec - ovs.timeval.msec())

    def immediate_wake(self) -> None:
        self._timeout = 0.0

    def block(self) -> None:
        """Wait for the first of the events and times, at most a second."""
        poll = select.poll()
        for fd, events in self._events.items():
            poll.register(fd, events)
        # Rounded up, or the last fraction of a millisecond is spent in a busy loop.
        poll.poll(int(self._timeout) + (self._timeout > int(self._timeout)))


class Link:
    """Fetches the schema, then keeps a copy of the data. `idl` is there from the second step on."""

    def __init__(
        self, remote: Remote, tls: TlsFiles | None, attach: Callable[[Any], None], on_data: Callable[[], None]
    ) -> None:
        """`attach` is called with the new IDL before any data arrives. Raises LinkLostError."""
        self._remote = remote
        self._attach = attach
        self._deadline = time.monotonic() + SETUP_TIMEOUT
        try:
            self._stream = RpcStream(Dialer(remote, tls, on_data).open(), str(remote))
        except StreamError as error:
            raise LinkLostError(f"{remote}: {error}") from error
        except OSError as error:
            raise LinkLostError(f"{remote}: {error.strerror}") from error
        self._rpc: Any = ovs.jsonrpc.Connection(self._stream)
        self._rpc.send(ovs.jsonrpc.Message.create_request("get_schema", [DATABASE]))
        self.idl: Any = None

    @property
    def ready(self) -> bool:
        """True once the copy of the data is complete."""
        return self.idl is not None and self.idl.state == ovs.db.idl.Idl.IDL_S_MONITORING

    def run(self) -> None:
        """Do what can be done without waiting. Raises LinkLostError."""
        if self.idl is None:
            schema = self._schema()
            if schema is not None:
                self.idl = open_idl(self._remote, schema, self._rpc)
                self._attach(self.idl)
        if self.idl is not None:
            self.idl.run()
            if not self.idl._session.is_alive():
                raise LinkLostError(f"{self._remote}: {self._stream.problem or 'connection lost'}")
        if not self.ready and time.monotonic() > self._deadline:
            raise LinkLostError(f"{self._remote}: no data within {SETUP_TIMEOUT:g} s")

    def _schema(self) -> Any:
        """The schema (RFC 7047 section 4.1.2) as JSON, or None if it is not here yet. Raises LinkLostError."""
        self._rpc.run()
        error, message = self._rpc.recv()
        if error == errno.EAGAIN:
            return None
        if error:
            reason = os.strerror(error) if error > 0 else "closed by the server"
            raise LinkLostError(f"{self._remote}: {self._stream.problem or reason}")
        if message.type == ovs.jsonrpc.Message.T_ERROR:
            raise LinkLostError(f"{self._remote}: no schema of database {DATABASE}: {message.error}")
        return message.result if message.type == ovs.jsonrpc.Message.T_REPLY else None

    def begin(self) -> Any:
        """A new, empty transaction; only once ready, and committed before the next run()."""
        return ovs.db.idl.Transaction(self.idl)

    def wait(self, poller: Poller) -> None:
        if self.idl is not None:
            self.idl.wait(poller)
        else:
            self._rpc.wait(poller)
            self._rpc.recv_wait(poller)

    def close(self) -> None:
        if self.idl is not None:
            self.idl.close()
        else:
            self._rpc.close()


def open_idl(remote: Remote, schema: Any, connection: Any) -> Any:
    """A new IDL of the columns in use, over a connection that it never makes again.

    Raises LinkLostError if the schema lacks one of them.
    """
    tables = schema.get("tables", {}) if isinstance(schema, dict) else {}
    helper = ovs.db.idl.SchemaHelper(schema_json=schema)
    for table, columns in COLUMNS.items():
        present = tables.get(table, {}).get("columns", {})
        missing = [column for column in columns if column not in present]
        if missing:
            raise LinkLostError(f"{remote}: the schema has no {table}.{missing[0]}")
        helper.register_columns(table, list(columns))
    idl = ovs.db.idl.Idl("unix:", helper, leader_only=False)
    idl._session = session_over(connection, str(remote), PROBE_INTERVAL_MS)
    return idl
