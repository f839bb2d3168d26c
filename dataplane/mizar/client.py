"""The client of a transit daemon: one socket, one exchange at a time, calls pipelined."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Final

from dataplane.mizar.errors import Closed, Lost, MizarError, ReplyError, Unanswered
from dataplane.mizar.exchange import Exchange, Pace
from dataplane.mizar.portmapper import PROTOCOL_TCP, PROTOCOL_UDP, one_call, port_of
from dataplane.mizar.procedures import PROGRAM, VERSION, Call
from dataplane.mizar.rpc import call_head
from dataplane.mizar.sockets import Broken, DatagramSocket, MessageSocket, Overdue, StreamSocket, Waker, Woken
from dataplane.mizar.typed import Answer, TypedCalls

PATIENCE_S: Final = 45.0
"""How long a silent daemon is not held dead: another client that stops inside a record blocks it for 35 seconds."""

_MOST_CALLERS: Final = 64
_MOST_OUTSTANDING: Final = 256
_MAPPER_RESEND_S: Final = 1.0
_NULL: Final = call_head(PROGRAM, VERSION, 0)


class Transport(Enum):
    TCP = "tcp"
    UDP = "udp"


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the daemon is. `host`: an IPv4 address. `port`: its own, or None to ask the port mapper at `mapper_port`.
    `window`: calls that may be unanswered at once, 1 to 256. `turn_s`: how long a caller waits for those before it.
    `resend_s`, `resends`: after how long, and how often, UDP repeats what may be repeated."""

    host: str = "127.0.0.1"
    port: int | None = None
    mapper_port: int = 111
    transport: Transport = Transport.TCP
    window: int = 32
    patience_s: float = PATIENCE_S
    connect_s: float = 5.0
    turn_s: float = 300.0
    resend_s: float = 5.0
    resends: int = 3


@dataclass(frozen=True, slots=True)
class Health:
    """`alive`: procedure 0 was answered. `life`: goes up with every connection, so that another one than before means
    a daemon that may hold nothing. `reason`: why it is not alive."""

    alive: bool
    life: int
    reason: str = ""


class Client(TypedCalls):
    """Thread safe: callers take turns, a whole batch each. A broken connection is told once, by Lost errors, and never
    mended inside a batch, as a restarted daemon holds nothing; the next batch connects again."""

    def __init__(self, settings: Settings) -> None:
        """Connects with the first use. Raises ValueError for a window out of bounds."""
        if not 1 <= settings.window <= _MOST_OUTSTANDING:
            raise ValueError(f"window {settings.window}: not from 1 to {_MOST_OUTSTANDING}")
        self._settings = settings
        udp = settings.transport is Transport.UDP
        self._pace = Pace(settings.window, settings.patience_s, settings.resend_s, settings.resends if udp else 0)
        self._turn = threading.Condition()
        self._busy = False
        self._callers = 0
        self._closed = False
        self._waker = Waker()
        self._socket: MessageSocket | None = None
        self._port: int | None = None
        self._xid = random.getrandbits(32)
        self._life = 0

    @property
    def life(self) -> int:
        """How many connections there were. Another number than before: replay everything."""
        return self._life

    def connect(self) -> int:
        """Connects if there is no connection, and says which life it is. Raises Lost, Closed, Unanswered."""
        with self._own_turn():
            self._connected()
            return self._life

    def run(self, calls: Sequence[Call]) -> list[Answer]:
        """The calls in this order on the wire, pipelined; an answer for each, in the same order. Never raises
        MizarError: what fails has an error in its answer. A value out of bounds refuses its own call only; once the
        connection is lost or an answer overdue, all later calls have Lost or Unanswered."""
        try:
            with self._own_turn():
                exchange = Exchange(self._connected(), calls, self._pace, self._xid)
                whole = False
                try:
                    answers = exchange.run()
                    whole = not exchange.broken
                finally:
                    self._xid = exchange.xid
                    if not whole:
                        self._drop()
                return answers
        except Unanswered as error:
            kind, reason = type(error), error.reason
            return [Answer(call, None, kind(call.procedure.name, reason, sent=False), 0) for call in calls]

    def health(self) -> Health:
        """Asks procedure 0, and the port mapper where one is used: another port there is another daemon, and the
        connection to the one before is dropped. A mapper that does not answer, or knows nothing, says nothing, as the
        daemon does not register again. While a batch is under way that batch is the answer. Never raises."""
        with self._turn:
            if self._busy and not self._closed:
                return Health(True, self._life, "a batch is under way")
        try:
            with self._own_turn():
                self._see_mapper()
                socket = self._connected()
                deadline = time.monotonic() + self._settings.patience_s
                resend_s = self._settings.resend_s if self._pace.resends else math.inf
                try:
                    one_call(socket, "NULL", _NULL, deadline, resend_s)
                except Broken as error:
                    self._drop()
                    raise Lost("NULL", str(error), sent=True) from error
                except Overdue:
                    self._drop()
                    raise Unanswered("NULL", f"no answer within {self._settings.patience_s:g} s", sent=True) from None
                except Woken:
                    raise Closed("NULL", "the client was closed", sent=True) from None
                return Health(True, self._life)
        except MizarError as error:
            return Health(False, self._life, str(error))

    def close(self) -> None:
        """Wakes whoever waits, with Closed. Harmless twice, from any thread."""
        with self._turn:
            if self._closed:
                return
            self._closed = True
            self._waker.wake()
            self._turn.notify_all()
            if not self._busy:
                self._let_go()

    def _let_go(self) -> None:
        self._drop()
        self._waker.close()

    @contextmanager
    def _own_turn(self) -> Iterator[None]:
        with self._turn:
            if self._callers >= _MOST_CALLERS:
                raise Unanswered("the daemon", f"{self._callers} callers wait already", sent=False)
            self._callers += 1
            try:
                came = self._turn.wait_for(lambda: self._closed or not self._busy, self._settings.turn_s)
            finally:
                self._callers -= 1
            if self._closed:
                raise Closed("the daemon", "the client was closed", sent=False)
            if not came:
                raise Unanswered("the daemon", f"no turn within {self._settings.turn_s:g} s", sent=False)
            self._busy = True
        try:
            yield
        finally:
            with self._turn:
                self._busy = False
                if self._closed:
                    self._let_go()
                self._turn.notify()

    def _connected(self) -> MessageSocket:
        """The socket, made now if there is none. Raises Lost, Closed, Unanswered. What lies unread in the one that is
        there answers nothing any more; its end, if it came, is told now and not after calls were sent."""
        if self._socket is not None:
            try:
                while True:
                    self._socket.receive(0.0)
            except Overdue:
                return self._socket
            except Broken as error:
                self._drop()
                raise Lost("the daemon", str(error), sent=False) from error
            except Woken:
                raise Closed("the daemon", "the client was closed", sent=False) from None
        deadline = time.monotonic() + self._settings.connect_s
        try:
            port = self._settings.port or self._ask_mapper(deadline)
            if not port:
                raise Lost("the daemon", "it is not registered at the port mapper", sent=False)
            self._socket = self._made(port, deadline)
        except Broken as error:
            raise Lost("the daemon", f"cannot connect: {error}", sent=False) from error
        except Overdue:
            raise Lost("the daemon", f"no connection within {self._settings.connect_s:g} s", sent=False) from None
        except ReplyError as error:
            raise Lost("the daemon", str(error), sent=False) from error
        except Woken:
            raise Closed("the daemon", "the client was closed", sent=False) from None
        self._port = port
        self._life += 1
        return self._socket

    def _made(self, port: int, deadline: float) -> MessageSocket:
        address = (self._settings.host, port)
        if self._settings.transport is Transport.UDP:
            return DatagramSocket(address, self._waker)
        return StreamSocket(address, deadline, self._waker)

    def _ask_mapper(self, deadline: float) -> int:
        udp = self._settings.transport is Transport.UDP
        socket = self._made(self._settings.mapper_port, deadline)
        try:
            return port_of(
                socket,
                PROGRAM,
                VERSION,
                PROTOCOL_UDP if udp else PROTOCOL_TCP,
                deadline,
                _MAPPER_RESEND_S if udp else math.inf,
            )
        finally:
            socket.close()

    def _see_mapper(self) -> None:
        if self._settings.port or self._socket is None:
            return
        try:
            port = self._ask_mapper(time.monotonic() + self._settings.connect_s)
        except (Broken, Overdue, ReplyError):
            return
        except Woken:
            raise Closed("the daemon", "the client was closed", sent=False) from None
        if port and port != self._port:
            self._drop()
            raise Lost("the daemon", f"it is at port {port} now, and was at {self._port}", sent=False)

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
