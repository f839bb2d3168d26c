"""From the book to the kernel and back: what is missing is installed, what is refused becomes somebody's outcome."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from dataplane.base import Outcome, failed
from dataplane.model import Key
from dataplane.netlink.book import Book, Change
from dataplane.netlink.installer import Installer
from dataplane.netlink.items import Item
from dataplane.netlink.objects import Objects

_log = logging.getLogger(__name__)

Problems = dict[Key, Outcome]
"""Outcomes of whoever has a problem: is added to."""


class Delivery:
    """Not thread safe: the caller's lock guards it. `put_off` is told who lacks something that nobody will ask for
    again."""

    def __init__(self, book: Book, objects: Objects, put_off: Callable[[Iterable[Key]], None]) -> None:
        self._book = book
        self._objects = objects
        self._put_off = put_off

    def install(self, installer: Installer, problems: Problems) -> None:
        """Do what the book says is missing. Raises OSError, KernelError."""
        self.begin(installer, problems)
        self.finish(installer, problems)

    def begin(self, installer: Installer, problems: Problems) -> None:
        """install() that need not be over when it returns: to be followed by `finish`, or by more of this before."""
        self._carry_out(self._book.take_evictions(), installer, problems)
        self._carry_out(self._book.take_changes(), installer, problems)

    def finish(self, installer: Installer, problems: Problems) -> None:
        """Wait for all that has begun."""
        refused = installer.settle()
        self._book.distrust(refused)
        self._answer(refused, problems)

    def _carry_out(self, changes: Sequence[Change], installer: Installer, problems: Problems) -> None:
        if not changes:
            return
        refused: Mapping[Item, str] = {change.item: "" for change in changes}
        try:
            refused = installer.apply(changes)
        except BaseException:
            self._put_off(owner for change in changes for owner in self._objects.owners(change.item))
            self._book.distrust(installer.settle())
            raise
        finally:
            self._book.done(changes, refused)
        self._answer(refused, problems)

    def _answer(self, refused: Mapping[Item, str], problems: Problems) -> None:
        for item, why in refused.items():
            owners = self._objects.owners(item)
            if not owners:
                _log.warning("not removed: %s", why)
            for owner in owners:
                problems.setdefault(owner, failed(why))
            # Nobody is told of what is derived, to ask for it again.
            self._put_off(owner for owner in owners if owner.id.startswith("/"))
