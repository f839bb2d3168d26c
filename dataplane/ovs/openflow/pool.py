"""The programmer's connections: how many, which one to use, and when one is given up."""

from __future__ import annotations

import logging
import selectors
from collections.abc import Callable
from typing import Final

from dataplane.ovs.openflow.channel import Channel, ChannelError, Message
from dataplane.ovs.openflow.errors import ProgrammerError
from dataplane.ovs.openflow.session import Session
from dataplane.ovs.remote import Remote
from dataplane.ovs.stream import Dialer

_BACKLOG_FULL: Final = 0.02
_TRY_AGAIN: Final = 1.0
_LONGEST_SLEEP: Final = 1.0


class Pool:
    """Sessions to one bridge, for the use of one thread.

    The first session is the one with asynchronous messages. It and any session that was ready are never
    replaced: losing one raises ``ChannelError``, because nobody knows what of its work is done. Sessions that
    are wanted in addition and do not come about are tried again after a second.
    """

    def __init__(
        self,
        remote: Remote,
        dialer: Dialer,
        selector: selectors.BaseSelector,
        on_event: Callable[[Message], None],
        connect_timeout: float,
        reply_timeout: float,
    ) -> None:
        self.sessions: list[Session] = []
        self._remote = remote
        self._dialer = dialer
        self._selector = selector
        self._on_event = on_event
        self._connect_timeout = connect_timeout
        self._reply_timeout = reply_timeout
        self._interest: dict[Session, int] = {}
        self._retry_at = 0.0
        self._started = False
        self._uses = 0

    @property
    def first(self) -> Session:
        """The session with asynchronous messages."""
        return self.sessions[0]

    @property
    def last(self) -> Session:
        """The session to ask large questions by: not the first one, if there is another."""
        return next((s for s in reversed(self.sessions) if s.ready and not s.draining), self.sessions[0])

    def open_all(self, target: int, now: float) -> bool:
        """Work on having the first sessions; True when all are ready. Raises ChannelError, OSError."""
        self.adjust(target, now)
        self._started = len(self.sessions) >= target and all(session.ready for session in self.sessions)
        return self._started

    def adjust(self, target: int, now: float) -> None:
        """Open sessions up to ``target`` without waiting, or let surplus ones finish and close."""
        for position, session in enumerate(self.sessions):
            session.draining = position >= target
        for session in [s for s in self.sessions if s.draining and s.idle and not s.channel.sending]:
            self._remove(session)
        while len(self.sessions) < target and now >= self._retry_at:
            try:
                channel = Channel(self._dialer.open())
            except BlockingIOError:
                self._retry_at = now + _BACKLOG_FULL
            except OSError as error:
                if not self._started:
                    raise
                self._try_again(error, now)
            else:
                session = Session(channel, None if self.sessions else self._on_event, now)
                self._interest[session] = channel.interest
                self._selector.register(channel, channel.interest, session)
                self.sessions.append(session)

    def emptiest(self) -> Session | None:
        """The session to send flow-mods by: of those with room the least busy, the longest unused first.

        The first session is spared if there are others, so that packets do not wait behind flows.
        """
        rooms = [session for session in self.sessions if session.has_room]
        if len(rooms) > 1 and rooms[0] is self.sessions[0]:
            del rooms[0]
        elif rooms == self.sessions[:1] and self._has_other():
            return None
        if not rooms:
            return None
        chosen = min(rooms, key=lambda session: (session.outstanding, session.last_used))
        self._uses += 1
        chosen.last_used = self._uses
        return chosen

    def _has_other(self) -> bool:
        return any(session.ready and not session.draining for session in self.sessions[1:])

    def send(self, now: float) -> bool:
        """Send on every session that can; True if some could send more at once."""
        more = False
        for session in list(self.sessions):
            channel = session.channel
            if channel.sending and not channel.blocked:
                try:
                    channel.send()
                except ChannelError as error:
                    self._failed(session, error, now)
                    continue
                more = more or (channel.sending and not channel.blocked)
            interest = channel.interest
            if interest != self._interest[session]:
                self._selector.modify(channel, interest, session)
                self._interest[session] = interest
        return more

    def handle(self, session: Session, events: int, now: float) -> None:
        """Act on what the selector reports of a session."""
        if session not in self._interest:
            return
        if session.channel.woken(events):
            try:
                session.receive(now)
            except ChannelError as error:
                self._failed(session, error, now)

    def check(self, now: float) -> None:
        """Give up sessions that do not get ready, or do not answer, in time."""
        for session in list(self.sessions):
            if not session.ready:
                if now - session.opened_at > self._connect_timeout:
                    self._failed(session, ChannelError(f"not ready within {self._connect_timeout:g} s"), now)
            elif not session.idle and now - session.last_heard > self._reply_timeout:
                self._failed(session, ChannelError(f"no answer for {self._reply_timeout:g} s"), now)

    def sleep(self, now: float) -> float:
        """How long the owner may wait for events, in seconds."""
        times = [session.opened_at + self._connect_timeout for session in self.sessions if not session.ready]
        if self._retry_at > now:
            times.append(self._retry_at)
        # Later than the deadline by a hair, so that it has passed when we look.
        return min([_LONGEST_SLEEP, *(max(0.0, time - now) + 0.001 for time in times)])

    def _failed(self, session: Session, error: ChannelError, now: float) -> None:
        if session.ready or not self._started:
            raise error
        self._remove(session)
        self._try_again(error, now)

    def _try_again(self, error: Exception, now: float) -> None:
        logging.getLogger(__name__).warning("no additional connection to %s: %s", self._remote, error)
        self._retry_at = now + _TRY_AGAIN

    def _remove(self, session: Session) -> None:
        self._selector.unregister(session.channel)
        del self._interest[session]
        self.sessions.remove(session)
        session.fail(ProgrammerError("connection not needed any more"))

    def close(self, reason: Exception) -> None:
        """Close all sessions and fail what is outstanding on them."""
        for session in self.sessions:
            session.fail(reason)
        self.sessions.clear()
