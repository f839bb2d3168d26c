"""Tuning of the interpreter and the C library for a process that large goal states pass through."""

from __future__ import annotations

import ctypes
import gc
import sys

_M_ARENA_MAX = -8
_ARENAS = 2
_SWITCH_INTERVAL_S = 0.0005


def prepare() -> None:
    """Once, at the start of the process.

    The collector: values are made by the hundred thousand, and none of them in cycles; with the default thresholds it
    would walk them over and over, for a third of the time of a large message.

    The switch interval: while one thread decodes a large message, those that keep the data plane busy need the
    interpreter for moments at a time, and with the default they would wait 5 ms for each.

    The C library keeps freed memory per thread ("arena", mallopt(3)): few arenas, so that less is kept.
    """
    gc.set_threshold(50_000, 20, 100)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    libc = _libc()
    if libc is not None:
        libc.mallopt(_M_ARENA_MAX, _ARENAS)


def give_back_memory() -> None:
    """Return freed memory to the system (malloc_trim(3)): what a large message took would be kept for good."""
    libc = _libc()
    if libc is not None:
        libc.malloc_trim(0)


def _libc() -> ctypes.CDLL | None:
    """The C library, if it is one that can do this (GNU's)."""
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "malloc_trim") and hasattr(libc, "mallopt") else None
