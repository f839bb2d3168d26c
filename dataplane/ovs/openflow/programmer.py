"""The flow programmer: transactions of flow-mods, requests and packets over a bridge's OpenFlow connections."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final

from dataplane.ovs.openflow import messages
from dataplane.ovs.openflow.errors import OpenFlowError, ProgrammerError, ProgrammerLost
from dataplane.ovs.openflow.exchange import CookieQuery, Query, Request
from dataplane.ovs.openflow.intake import Intake
from dataplane.ovs.openflow.messages import FlowStat, FlowUpdates, PacketIn
from dataplane.ovs.openflow.owner import Counters, Owner
from dataplane.ovs.openflow.transaction import Transaction
from dataplane.ovs.remote import Remote, TlsFiles

__all__ = ["MAX_CONNECTIONS", "Counters", "FlowProgrammer", "OpenFlowError", "ProgrammerError", "ProgrammerLost"]

MAX_CONNECTIONS: Final = 64
_JOIN: Final = 2.0
_GRACE: Final = 1.0


class FlowProgrammer:
    """Programs one bridge that listens at ``remote`` (``<rundir>/<bridge>.mgmt``, or elsewhere), OpenFlow 1.4.

    One thread owns all connections. Methods may be called from any thread. ``on_packet_in``, ``on_flow_updates``
    (flows were removed or modified, by whomever), ``on_lost`` and callbacks of futures run in that thread and have
    to be quick; they may call any method here, but must not wait for a future. ``on_lost`` is called once, after
    everything outstanding has failed with ``ProgrammerLost``; the object is of no more use then. After loss or
    close, futures fail at once.

    Transactions of different ``submit`` calls have no order among each other: wait for the first one's future
    where order matters. Timeouts are in seconds.
    """

    def __init__(
        self,
        remote: Remote,
        *,
        on_packet_in: Callable[[PacketIn], None],
        on_lost: Callable[[str], None],
        connect_timeout: float,
        on_flow_updates: Callable[[FlowUpdates], None] = lambda _: None,
        on_data: Callable[[], None] = lambda: None,
        tls: TlsFiles | None = None,
        connections: int = 1,
        submit_timeout: float = 30.0,
        reply_timeout: float = 60.0,
    ) -> None:
        _check(connections)
        self._remote = remote
        self._connect_timeout = connect_timeout
        self._submit_timeout = submit_timeout
        self._intake = Intake(connections)
        self._owner = Owner(
            remote, tls, self._intake, on_packet_in, on_lost, on_flow_updates, connect_timeout, reply_timeout, on_data
        )
        self._thread = threading.Thread(target=self._owner.run, name="openflow", daemon=True)

    def start(self) -> None:
        """Connect and negotiate. Raises ProgrammerError with the reason if that fails or takes too long."""
        self._thread.start()
        try:
            self._owner.started.result(self._connect_timeout + _GRACE)
        except TimeoutError:
            self.close()
            raise ProgrammerError(f"{self._remote}: not connected within {self._connect_timeout:g} s") from None
        except ProgrammerError:
            self._thread.join(_JOIN)
            raise

    def close(self) -> None:
        """Close the connections, fail what is outstanding, end the thread. Again is harmless."""
        self._intake.end(ProgrammerLost(f"{self._remote}: closed by us"))
        if self._thread.ident is None:
            self._intake.close()
        elif self._thread is not threading.current_thread():
            self._thread.join(_JOIN)

    def submit(self, bodies: Sequence[bytes]) -> Future[Mapping[int, OpenFlowError]]:
        """Apply flow-mod bodies; the future resolves when the bridge has confirmed all of them.

        Its value maps the index of a refused body to the refusal; the others are applied. Up to 2000 bodies are
        one atomic, ordered bundle (refused ones left out); more are split, unordered, over all connections. A
        body that does not fit a message is refused here with BAD_LEN. ``bodies`` must not change meanwhile.

        Waits for room if too much is outstanding, and raises ProgrammerError if none comes in time; in the
        owner's thread it does not wait.
        """
        transaction = Transaction(bodies)
        if not transaction.future.done():
            inside = self._thread is threading.current_thread()
            self._intake.put_transaction(transaction, 0.0 if inside else self._submit_timeout)
        return transaction.future

    def request(self, message_type: int, body: bytes) -> Future[None]:
        """Send any other message on the first connection; the future resolves once it has taken effect.

        It fails with OpenFlowError if the bridge refuses the message. Raises ProgrammerError if too many
        requests are outstanding, ValueError for a body that does not fit a message.
        """
        request = Request(message_type, body)
        self._intake.put_question(request)
        return request.future

    def packet_out(self, body: bytes) -> None:
        """Send a packet-out soon, or drop and count it if too many are waiting."""
        self._intake.put_packet_out(body)

    def dump_flows(self, table: int = messages.TABLE_ALL, cookie: int = 0, mask: int = 0) -> Future[list[FlowStat]]:
        """The flows of a table (255: of all) whose cookie equals ``cookie`` in the bits of ``mask``.

        The bridge makes the whole answer at once and forwards nothing new meanwhile: for large tables ask by
        cookie, in slices.
        """
        body = messages.flow_stats_request(messages.MULTIPART_FLOW, table, cookie, mask)
        query: Query[FlowStat, list[FlowStat]] = Query(body, messages.decode_flow_stats, list)
        self._intake.put_question(query)
        return query.future

    def flows_of(self, cookies: Sequence[int]) -> Future[list[FlowStat]]:
        """The flows with these cookies. The bridge finds them by index: no scan, whatever the tables hold."""
        if not cookies:
            nothing: Future[list[FlowStat]] = Future()
            nothing.set_result([])
            return nothing
        query = CookieQuery(cookies)
        self._intake.put_question(query)
        return query.future

    def watch_flows(self) -> Future[None]:
        """Have ``on_flow_updates`` called from now on. Fails with OpenFlowError where the bridge cannot tell."""
        return self.request(messages.MULTIPART_REQUEST, messages.flow_monitor_request())

    def aggregate(self, cookie: int, mask: int, table: int = messages.TABLE_ALL) -> Future[int]:
        """How many flows of a table (255: of all) have a cookie that equals ``cookie`` in the bits of ``mask``."""
        body = messages.flow_stats_request(messages.MULTIPART_AGGREGATE, table, cookie, mask)
        query: Query[int, int] = Query(body, _flow_count, sum)
        self._intake.put_question(query)
        return query.future

    def set_connections(self, count: int) -> None:
        """Use this many connections (1 to 64) from now on; running work is not disturbed."""
        _check(count)
        self._intake.want_connections(count)

    @property
    def datapath_id(self) -> str:
        """Of the bridge at the other end, 16 hex digits (OpenFlow 1.4 section 7.3.1); empty if it does not tell."""
        return self._owner.datapath_id

    @property
    def counters(self) -> Counters:
        """What happened since the start."""
        owner = self._owner
        return Counters(
            owner.packet_ins,
            owner.undecodable,
            owner.failed_callbacks,
            owner.refused_packet_outs,
            self._intake.dropped_packet_outs,
        )


def _check(connections: int) -> None:
    if not 1 <= connections <= MAX_CONNECTIONS:
        raise ValueError(f"1 to {MAX_CONNECTIONS} connections wanted, got {connections}")


def _flow_count(payload: bytes) -> tuple[int]:
    return (messages.decode_aggregate(payload).flows,)
