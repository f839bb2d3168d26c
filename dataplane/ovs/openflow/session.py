"""The protocol on one connection: negotiation, transaction ids, and which answer belongs to what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dataplane.ovs.openflow import messages
from dataplane.ovs.openflow.channel import Channel, ChannelError, Message
from dataplane.ovs.openflow.errors import DecodeError, OpenFlowError
from dataplane.ovs.openflow.exchange import Exchange

WINDOW: Final = 2001

_HANDSHAKE_XID: Final = 1
_UNANSWERED_XID: Final = 2
_FIRST_XID: Final = 16
_LAST_XID: Final = 0xFFFFFFFF
_WHOLE_FRAME: Final = 0xFFFF
_HELLO_FAILED: Final = 0


class Session:
    """One connection to the bridge, driven by the programmer's thread.

    ``on_event`` gets what the bridge sends unasked; only a session that is given one asks for such messages,
    since each session that does would get its own copy. All methods that do input or output raise ChannelError
    when the connection is of no more use.
    """

    def __init__(self, channel: Channel, on_event: Callable[[Message], None] | None, now: float) -> None:
        self.channel = channel
        self.ready = False
        self.datapath_id = ""
        """16 hex digits once ready, if the bridge told; asked by the session with asynchronous messages."""
        self.draining = False
        self.outstanding = 0
        self.last_used = 0
        self.opened_at = now
        self.last_heard = now
        self._on_event = on_event
        self._next_xid = _FIRST_XID
        self._exchanges: dict[int, tuple[int, Exchange]] = {}
        channel.queue(messages.message(messages.HELLO, 0, messages.hello()))

    @property
    def idle(self) -> bool:
        """Whether every exchange has ended."""
        return not self._exchanges

    @property
    def has_room(self) -> bool:
        """Whether new flow-mods may be sent here: enough are under way to keep the bridge busy, not more."""
        return self.ready and not self.draining and self.outstanding < WINDOW

    def begin(self, exchange: Exchange, now: float) -> None:
        """Send an exchange behind what is queued."""
        for piece in self._register(exchange, now):
            self.channel.queue(piece)

    def begin_urgent(self, exchange: Exchange, now: float) -> None:
        """Send an exchange before bulk that is queued."""
        for piece in self._register(exchange, now):
            self.channel.queue_urgent(piece)

    def _register(self, exchange: Exchange, now: float) -> list[bytes]:
        if self.idle:
            self.last_heard = now
        if self._next_xid + exchange.xids > _LAST_XID:
            self._next_xid = _FIRST_XID
        first = self._next_xid
        self._next_xid += exchange.xids
        self._exchanges[self._next_xid - 1] = (first, exchange)
        self.outstanding += exchange.weight
        return list(exchange.encode(first))

    def send_unanswered(self, message_type: int, body: bytes) -> None:
        """Send one message, with no interest in the answer, before bulk that is queued."""
        self.channel.queue_urgent(messages.message(message_type, _UNANSWERED_XID, body))

    def receive(self, now: float) -> None:
        """Read once and act on what came."""
        for message in self.channel.receive():
            self.last_heard = now
            try:
                self._take(message, now)
            except DecodeError as error:
                raise ChannelError(f"the bridge sent an undecodable message: {error}") from error

    def _take(self, message: Message, now: float) -> None:
        kind, xid, body = message.type, message.xid, message.body
        if not self.ready and kind in (messages.HELLO, messages.ERROR):
            self._negotiate(message)
        elif message.version != messages.VERSION:
            raise ChannelError(f"a message of OpenFlow version {message.version}")
        elif kind == messages.ECHO_REQUEST:
            self.channel.queue_urgent(messages.message(messages.ECHO_REPLY, xid, body))
        elif kind == messages.BARRIER_REPLY:
            if xid in self._exchanges:
                self._finish(xid, now)
            elif xid == _HANDSHAKE_XID:
                self.ready = True
        elif kind == messages.FEATURES_REPLY:
            self.datapath_id = body[:8].hex()
        elif kind == messages.ERROR:
            self._refused(messages.decode_error(xid, body), now)
        elif kind in (messages.BUNDLE_CONTROL, messages.MULTIPART_REPLY):
            last, exchange = self._find(xid)
            if exchange is None:
                # What the flow monitor tells comes as answers to no request.
                self._tell(message)
            elif not exchange.on_reply(kind, body):
                self._finish(last, now)
        else:
            self._tell(message)

    def _tell(self, message: Message) -> None:
        if self._on_event is not None:
            self._on_event(message)

    def _negotiate(self, message: Message) -> None:
        if message.type == messages.ERROR:
            error = messages.decode_error(message.xid, message.body)
            text = error.data.decode("ascii", "replace") if error.type == _HELLO_FAILED else ""
            raise ChannelError(f"refused at the start: {error} {text}".rstrip())
        versions = messages.decode_hello(message.version, message.body)
        if messages.VERSION not in versions:
            raise ChannelError(f"the bridge does not speak OpenFlow 1.4 (its versions: {sorted(versions)})")
        if self._on_event is not None:
            self.send_unanswered(messages.FEATURES_REQUEST, b"")
            self.send_unanswered(messages.SET_CONFIG, messages.set_config(_WHOLE_FRAME))
            self.send_unanswered(messages.EXPERIMENTER, messages.packet_in_format())
        self.channel.queue_urgent(messages.message(messages.BARRIER_REQUEST, _HANDSHAKE_XID))

    def _find(self, xid: int) -> tuple[int, Exchange | None]:
        """(last transaction id, exchange) of the exchange with this id; the oldest is looked at first."""
        for last, (first, exchange) in self._exchanges.items():
            if first <= xid <= last:
                return last, exchange
        return 0, None

    def _refused(self, error: OpenFlowError, now: float) -> None:
        last, exchange = self._find(error.xid)
        if exchange is None:
            if self._on_event is not None:
                self._on_event(Message(messages.VERSION, messages.ERROR, error.xid, error.data))
            return
        exchange.on_error(error)
        if error.xid == last:
            self._finish(last, now)

    def _finish(self, last: int, now: float) -> None:
        _first, exchange = self._exchanges.pop(last)
        self.outstanding -= exchange.weight
        following = exchange.on_last()
        if following is not None:
            self.begin(following, now)

    def fail(self, error: Exception) -> None:
        """Close, and fail what is outstanding."""
        self.channel.close()
        self.ready = False
        exchanges, self._exchanges = self._exchanges, {}
        for _first, exchange in exchanges.values():
            exchange.fail(error)
