"""What goes out on a session and is answered: the protocol, and the two small kinds (``Chunk`` is the third)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar

from dataplane.ovs.openflow import messages
from dataplane.ovs.openflow.errors import DecodeError, OpenFlowError
from dataplane.ovs.openflow.messages import FlowStat

Item = TypeVar("Item")
Result = TypeVar("Result")


class Exchange(Protocol):
    """Messages with consecutive transaction ids, the last of which is answered last."""

    @property
    def weight(self) -> int:
        """How much of the connection's window it takes, in flow-mods."""

    @property
    def xids(self) -> int:
        """How many transaction ids it needs."""

    def encode(self, first_xid: int) -> Iterable[bytes]:
        """The bytes to send, in pieces of whole messages."""

    def on_error(self, error: OpenFlowError) -> None:
        """The bridge refused one of its messages."""

    def on_reply(self, message_type: int, body: bytes) -> bool:
        """An answer to one of its messages, other than a refusal or a barrier; whether more is to come."""

    def on_last(self) -> Exchange | None:
        """The last answer is here: what to send next on the same connection, or None if this is done."""

    def fail(self, error: Exception) -> None:
        """There will be no answer."""


class Request:
    """One message and a barrier behind it. Its future fails with OpenFlowError if the bridge refuses it."""

    def __init__(self, message_type: int, body: bytes) -> None:
        if len(body) > messages.MAX_MESSAGE - messages.HEADER.size:
            raise ValueError(f"a body of {len(body)} bytes does not fit a message")
        self.future: Future[None] = Future()
        self.future.set_running_or_notify_cancel()
        self.weight = 1
        self.xids = 2
        self._type = message_type
        self._body = body
        self._error: OpenFlowError | None = None

    def encode(self, first_xid: int) -> Iterable[bytes]:
        """The message and its barrier."""
        barrier = messages.message(messages.BARRIER_REQUEST, first_xid + 1)
        return (messages.message(self._type, first_xid, self._body) + barrier,)

    def on_error(self, error: OpenFlowError) -> None:
        """Keep the first refusal."""
        self._error = self._error or error

    def on_reply(self, message_type: int, body: bytes) -> bool:
        """Answers have no content anybody asked for; the barrier's is still to come."""
        return True

    def on_last(self) -> None:
        """Resolve the future."""
        if self._error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(self._error)

    def fail(self, error: Exception) -> None:
        """Fail the future."""
        self.future.set_exception(error)


class Query(Generic[Item, Result]):
    """A multipart request. Each part is decoded as it comes, so a large answer keeps other work waiting little.

    ``decode`` makes items of one part's payload, ``finish`` the future's value of all of them.
    """

    def __init__(
        self,
        body: bytes,
        decode: Callable[[bytes], Iterable[Item]],
        finish: Callable[[list[Item]], Result],
    ) -> None:
        self.future: Future[Result] = Future()
        self.future.set_running_or_notify_cancel()
        self.weight = 1
        self.xids = 1
        self._body = body
        self._decode = decode
        self._finish = finish
        self._items: list[Item] = []
        self._error: Exception | None = None

    def encode(self, first_xid: int) -> Iterable[bytes]:
        """The request."""
        return (messages.message(messages.MULTIPART_REQUEST, first_xid, self._body),)

    def on_error(self, error: OpenFlowError) -> None:
        """Keep the first refusal."""
        self._error = self._error or error

    def on_reply(self, message_type: int, body: bytes) -> bool:
        """Take one part."""
        try:
            part = messages.decode_multipart(body)
        except DecodeError as error:
            self._error = error
            return False
        if self._error is None:
            try:
                self._items.extend(self._decode(part.payload))
            except DecodeError as error:
                self._error = error
        return part.more

    def on_last(self) -> None:
        """Resolve the future."""
        if self._error is None:
            self.future.set_result(self._finish(self._items))
        else:
            self.future.set_exception(self._error)

    def fail(self, error: Exception) -> None:
        """Fail the future."""
        self.future.set_exception(error)


class CookieQuery:
    """The flows with each of some cookies: one request for each, which the bridge finds by index, answered together."""

    def __init__(self, cookies: Sequence[int]) -> None:
        """At least one cookie."""
        self.future: Future[list[FlowStat]] = Future()
        self.future.set_running_or_notify_cancel()
        self.weight = 1
        self.xids = len(cookies)
        self._cookies = cookies
        self._flows: list[FlowStat] = []
        self._unanswered = len(cookies)
        self._error: Exception | None = None

    def encode(self, first_xid: int) -> Iterable[bytes]:
        """The requests."""
        return [
            messages.message(
                messages.MULTIPART_REQUEST,
                first_xid + number,
                messages.flow_stats_request(
                    messages.MULTIPART_FLOW, messages.TABLE_ALL, cookie, messages.COOKIE_EXACT
                ),
            )
            for number, cookie in enumerate(self._cookies)
        ]

    def on_error(self, error: OpenFlowError) -> None:
        """Keep the first refusal."""
        self._error = self._error or error
        self._unanswered -= 1

    def on_reply(self, message_type: int, body: bytes) -> bool:
        """Take one part of one answer. The answers come in order, so the last one's last part ends it."""
        try:
            part = messages.decode_multipart(body)
            self._flows.extend(messages.decode_flow_stats(part.payload))
        except DecodeError as error:
            self._error = error
            return False
        if not part.more:
            self._unanswered -= 1
        return self._unanswered > 0

    def on_last(self) -> None:
        """Resolve the future."""
        if self._error is None:
            self.future.set_result(self._flows)
        else:
            self.future.set_exception(self._error)

    def fail(self, error: Exception) -> None:
        """Fail the future."""
        self.future.set_exception(error)
