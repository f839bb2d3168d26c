"""The thread that owns the connections: one loop over one selector."""

from __future__ import annotations

import logging
import selectors
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from dataplane.ovs.openflow import messages
from dataplane.ovs.openflow.channel import ChannelError, Message
from dataplane.ovs.openflow.errors import DecodeError, ProgrammerError, ProgrammerLost
from dataplane.ovs.openflow.exchange import Request
from dataplane.ovs.openflow.intake import Intake, Question
from dataplane.ovs.openflow.messages import FlowUpdates, PacketIn
from dataplane.ovs.openflow.pool import Pool
from dataplane.ovs.openflow.transaction import Transaction
from dataplane.ovs.remote import Remote, TlsFiles
from dataplane.ovs.stream import Dialer, StreamError

_PACKET_OUTS_AT_ONCE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Counters:
    """What happened since the start: punted packets, those that could not be decoded, callbacks that raised,
    packet-outs that the bridge refused, packet-outs that were dropped before it."""

    packet_ins: int = 0
    undecodable: int = 0
    failed_callbacks: int = 0
    refused_packet_outs: int = 0
    dropped_packet_outs: int = 0


class Owner:
    """Everything here runs in the thread that calls ``run``, except making the object."""

    def __init__(
        self,
        remote: Remote,
        tls: TlsFiles | None,
        intake: Intake,
        on_packet_in: Callable[[PacketIn], None],
        on_lost: Callable[[str], None],
        on_flow_updates: Callable[[FlowUpdates], None],
        connect_timeout: float,
        reply_timeout: float,
        on_data: Callable[[], None],
    ) -> None:
        self.started: Future[None] = Future()
        self.datapath_id = ""
        self.packet_ins = 0
        self.undecodable = 0
        self.failed_callbacks = 0
        self.refused_packet_outs = 0
        self._remote = remote
        self._tls = tls
        self._intake = intake
        self._on_packet_in = on_packet_in
        self._on_lost = on_lost
        self._on_flow_updates = on_flow_updates
        self._connect_timeout = connect_timeout
        self._reply_timeout = reply_timeout
        self._on_data = on_data
        self._transactions: deque[Transaction] = deque()
        self._questions: deque[Question] = deque()

    def run(self) -> None:
        """Connect, then work until the intake ends or the connection is lost."""
        with selectors.DefaultSelector() as selector:
            pool: Pool | None = None
            try:
                dialer = Dialer(self._remote, self._tls, self._on_data)
                pool = Pool(
                    self._remote, dialer, selector, self._event, self._connect_timeout, self._reply_timeout
                )
                selector.register(self._intake.wake_socket, selectors.EVENT_READ)
                self._loop(pool, selector)
                reason = "closed by us"
            except (ChannelError, StreamError) as error:
                reason = str(error)
            except OSError as error:
                reason = f"cannot connect: {error.strerror}"
            except Exception as error:
                logging.getLogger(__name__).exception("the flow programmer stops by a fault of its own")
                reason = f"internal fault: {error!r}"
            self._end(pool, reason)

    def _loop(self, pool: Pool, selector: selectors.BaseSelector) -> None:
        intake = self._intake
        connected = False
        now = time.monotonic()
        while intake.ended is None:
            # Taken even before the connections stand, since what is not taken keeps the selector awake.
            work = intake.take()
            self._transactions.extend(work.transactions)
            self._questions.extend(work.questions)
            if connected:
                pool.adjust(intake.target, now)
                self._dispatch(pool, now)
            elif pool.open_all(intake.target, now):
                connected = True
                self.datapath_id = pool.first.datapath_id
                self.started.set_result(None)
                continue
            timeout = 0.0 if pool.send(now) else pool.sleep(now)
            events = selector.select(timeout)
            now = time.monotonic()
            for key, mask in events:
                if key.data is not None:
                    pool.handle(key.data, mask, now)
            pool.check(now)

    def _dispatch(self, pool: Pool, now: float) -> None:
        """Give what waits to the sessions, as far as they have room; large transactions take turns."""
        while self._questions:
            question = self._questions.popleft()
            if isinstance(question, Request):
                pool.first.begin_urgent(question, now)
            else:
                pool.last.begin_urgent(question, now)
        channel = pool.first.channel
        while channel.urgent_bytes < _PACKET_OUTS_AT_ONCE:
            body = self._intake.take_packet_out()
            if body is None:
                break
            pool.first.send_unanswered(messages.PACKET_OUT, body)
        while self._transactions:
            session = pool.emptiest()
            if session is None:
                break
            transaction = self._transactions.popleft()
            chunk = transaction.next_chunk()
            if chunk is not None:
                session.begin(chunk, now)
                self._transactions.append(transaction)

    def _event(self, message: Message) -> None:
        """Something the bridge sent unasked."""
        packet: PacketIn | None = None
        if message.type == messages.MULTIPART_REPLY:
            self._flows_changed(message.body)
            return
        if message.type == messages.ERROR:
            self.refused_packet_outs += 1
            return
        try:
            if message.type == messages.PACKET_IN:
                packet = messages.decode_packet_in(message.body)
            elif message.type == messages.EXPERIMENTER:
                packet = messages.decode_nicira_packet_in(message.body)
        except DecodeError:
            self.undecodable += 1
        if packet is None:
            return
        self.packet_ins += 1
        try:
            self._on_packet_in(packet)
        except Exception:
            # One packet that its receiver cannot bear must not end the programming of flows.
            self.failed_callbacks += 1
            logging.getLogger(__name__).exception("the receiver of a packet-in raised")

    def _flows_changed(self, body: bytes) -> None:
        try:
            part = messages.decode_multipart(body)
            if part.kind == messages.MULTIPART_FLOW_MONITOR and part.payload:
                self._on_flow_updates(messages.decode_flow_updates(part.payload))
        except DecodeError:
            self.undecodable += 1
        except Exception:
            self.failed_callbacks += 1
            logging.getLogger(__name__).exception("the receiver of flow updates raised")

    def _end(self, pool: Pool | None, reason: str) -> None:
        lost = ProgrammerLost(f"{self._remote}: {reason}")
        asked_to = self._intake.ended is not None
        self._intake.end(lost)
        work = self._intake.take()
        if pool is not None:
            pool.close(lost)
        for transaction in (*self._transactions, *work.transactions):
            transaction.fail(lost)
        for question in (*self._questions, *work.questions):
            question.fail(lost)
        self._transactions.clear()
        if not self.started.done():
            self.started.set_exception(ProgrammerError(f"{self._remote}: {reason}"))
        elif not asked_to:
            try:
                self._on_lost(reason)
            except Exception:
                logging.getLogger(__name__).exception("the receiver of the loss raised")
        self._intake.close()
