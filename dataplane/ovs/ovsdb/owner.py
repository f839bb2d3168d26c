"""What the owner thread does in one turn of its loop: connect, follow, publish, carry requests. No thread in here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from dataplane.ovs.ovsdb.link import Link, LinkLostError, Poller
from dataplane.ovs.ovsdb.mirror import Changes, Mirror, RestartCanary, Snapshot
from dataplane.ovs.ovsdb.model import OvsdbUnavailableError
from dataplane.ovs.ovsdb.transactor import Transactor
from dataplane.ovs.remote import Remote, TlsFiles

LOG = logging.getLogger(__name__)

FIRST_BACKOFF = 0.1
MAX_BACKOFF = 5.0
STEADY = 5.0
"""Seconds a link must have lasted for the back-off to start again from the beginning."""


class Owner:
    """The link, the mirror behind it and the requests on their way."""

    def __init__(
        self,
        remote: Remote,
        tls: TlsFiles | None,
        bridge: str,
        on_up: Callable[[Snapshot], None],
        on_changed: Callable[[Snapshot, Changes], None],
        on_down: Callable[[str], None],
        on_data: Callable[[], None],
    ) -> None:
        """`on_up`: a link has a complete copy; `on_changed`: the copy differs; `on_down`: such a link is gone, why."""
        self.transactor = Transactor()
        self._remote = remote
        self._tls = tls
        self._bridge = bridge
        self._on_up = on_up
        self._on_changed = on_changed
        self._on_down = on_down
        self._on_data = on_data
        self._canary = RestartCanary()
        self._link: Link | None = None
        self._mirror: Mirror | None = None
        self._up_since: float | None = None
        self._backoff = FIRST_BACKOFF
        self._retry_at = 0.0
        self.trouble = "not connected to the database yet"
        """Why there is, or last was, no link."""

    def turn(self, now: float) -> None:
        """Everything that can be done without waiting. `now` is of time.monotonic()."""
        try:
            self._run(now)
            if self.transactor.stuck(now):
                raise LinkLostError(f"{self._remote}: no answer to a transaction")
        except LinkLostError as lost:
            self._drop(str(lost), now)
        except Exception as error:
            # One bad message must not end the thread; a new link starts from a clean copy.
            LOG.exception("the database connection is dropped after an unexpected error")
            self._drop(f"{self._remote}: {error!r}", now)
        is_up = self._up_since is not None
        self.transactor.expire(now, self._mirror if is_up else None, "" if is_up else self.trouble)

    def wait(self, poller: Poller, now: float) -> None:
        """Register what the next turn should not miss."""
        if self._link is not None:
            self._link.wait(poller)
        else:
            poller.timer_wait((self._retry_at - now) * 1000)
        due = self.transactor.next_time(now)
        if due is not None:
            poller.timer_wait((due - now) * 1000)

    def close(self) -> None:
        """Fail what is pending and let go of the connection."""
        self.transactor.fail_all(OvsdbUnavailableError("closed"))
        if self._link is not None:
            self._link.close()
            self._link = None

    def _run(self, now: float) -> None:
        if self._link is None:
            if now < self._retry_at:
                return
            self._link = Link(self._remote, self._tls, self._attach, self._on_data)
        self._link.run()
        if self._mirror is None or not self._link.ready:
            return
        changes = self._mirror.refresh()
        if self._up_since is None:
            self._up_since = now
            self._on_up(self._mirror.snapshot)
        elif changes is not None:
            self._on_changed(self._mirror.snapshot, changes)
        self.transactor.step(self._link.begin, self._mirror, now)

    def _attach(self, idl: Any) -> None:
        self._mirror = Mirror(self._bridge, idl.tables, self._canary)
        idl.notify = self._mirror.note

    def _drop(self, reason: str, now: float) -> None:
        up_since, self._up_since = self._up_since, None
        if up_since is not None and now - up_since >= STEADY:
            self._backoff = FIRST_BACKOFF
        self._retry_at = now + self._backoff
        self._backoff = min(self._backoff * 2, MAX_BACKOFF)
        if self._link is not None:
            self._link.close()
            self._link = None
        self._mirror = None
        self.trouble = reason
        self.transactor.lost()
        if up_since is not None:
            self._on_down(reason)
