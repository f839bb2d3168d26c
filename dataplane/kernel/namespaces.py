"""Named network namespaces, as `ip netns` knows them, and the marks that say whose they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dataplane.kernel.channel import ROUTE, Channel, enter_namespace, unmount
from dataplane.kernel.rtnl import get_link, link_of

DIRECTORY = Path("/run/netns")
LOOPBACK = 1
"""The loopback device's number in every namespace; its alias is the mark."""

T = TypeVar("T")


def remove_namespace(name: str) -> None:
    """Raises OSError; what is not there is removed."""
    path = DIRECTORY / name
    try:
        unmount(str(path))
    except OSError as error:
        if path.exists() and error.errno != 22:
            raise
    path.unlink(missing_ok=True)


def look_into(name: str, look: Callable[[Channel], T]) -> T:
    """What `look` finds in the namespace with this name. The calling thread is in that namespace afterwards: see
    channel.in_thread. Raises OSError, and what `look` raises."""
    fd = os.open(DIRECTORY / name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_namespace(fd)
    finally:
        os.close(fd)
    channel = Channel(ROUTE)
    try:
        return look(channel)
    finally:
        channel.close()


def namespace_alias(channel: Channel) -> str:
    """The alias of the loopback device, empty if it has none. Raises OSError."""
    (loopback,) = channel.look_up([get_link(LOOPBACK)])
    return link_of(loopback).alias if loopback is not None else ""
