"""The network namespaces of ports: named ones, as `ip netns` knows them, so that they outlive the agent.

Whose a namespace is says the alias of its loopback device. It is set before the namespace gets its name: one that has
our mark is whole, one without is somebody else's.
"""

from __future__ import annotations

import array
import fcntl
import os
import struct
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from dataplane.devices.requests import Inside, inside_of, list_addresses, list_routes
from dataplane.devices.spares import Bare, Spares, bare_namespace
from dataplane.kernel.channel import ROUTE, Channel, bind_mount, enter_namespace, in_thread
from dataplane.kernel.namespaces import DIRECTORY, LOOPBACK, look_into, namespace_alias, remove_namespace
from dataplane.kernel.rtnl import list_links, set_alias

_EINVAL = 22
_ETHTOOL, _SET_TX_CHECKSUM = 0x8946, 0x17


class Place:
    """A port's namespace, open. Closing leaves it; `made`: it was not there before."""

    def __init__(self, name: str, channel: Channel, fd: int, *, made: bool) -> None:
        self.name = name
        self.channel = channel
        self.fd = fd
        self.made = made

    def close(self) -> None:
        self.channel.close()
        os.close(self.fd)

    def read(self) -> Inside:
        """Raises KernelError, OSError."""
        return inside_of(*(self.channel.dump(one()) for one in (list_links, list_addresses, list_routes)))

    def finish_checksums(self, device: str) -> None:
        """Have the guest finish its checksums itself (ethtool -K DEVICE tx off). Raises OSError."""
        value = array.array("I", [_SET_TX_CHECKSUM, 0])
        request = struct.pack("16sP", device.encode(), value.buffer_info()[0]) + bytes(16)
        fcntl.ioctl(self.channel.fileno(), _ETHTOOL, request)


def place_exists(name: str) -> bool:
    return (DIRECTORY / name).exists()


def marks_of(prefix: str, known: Collection[str]) -> dict[str, str]:
    """Marks of the namespaces whose names begin so, but for those that are known. Raises OSError."""
    if not DIRECTORY.exists():
        return {}
    names = [path.name for path in DIRECTORY.glob(f"{prefix}*") if path.name not in known]
    found = in_thread(lambda: {name: _mark(name) for name in names}) if names else {}
    return {name: mark for name, mark in found.items() if mark}


def open_places(names: Mapping[str, str], spares: Spares) -> dict[str, Place | OSError]:
    """Make or enter these namespaces, given by name with their marks. The caller's own is not left.

    One that is somebody else's, or cannot be made, is an error, and nothing is left that was made.
    """
    opened: dict[str, Place | OSError] = {}
    for name, mark in names.items():
        bare = None if place_exists(name) else spares.take()
        if bare is not None:
            try:
                opened[name] = _named(bare, name, mark)
            except OSError as problem:
                opened[name] = problem
    others = {name: mark for name, mark in names.items() if name not in opened}
    return opened | in_thread(lambda: {name: _open(name, mark) for name, mark in others.items()}) if others else opened


def remove_places(names: Mapping[str, str]) -> dict[str, OSError]:
    """Remove the namespaces that have these marks; returns what could not be. Others are left alone."""
    present = {name: mark for name, mark in names.items() if (DIRECTORY / name).exists()}
    if not present:
        return {}
    return in_thread(lambda: {name: wrong for name, mark in present.items() if (wrong := _remove(name, mark))})


def close_places(places: Iterable[Place]) -> None:
    for place in places:
        place.close()


def _open(name: str, mark: str) -> Place | OSError:
    try:
        return (_enter(name, mark) if (DIRECTORY / name).exists() else None) or _make(name, mark)
    except OSError as problem:
        return problem


def _enter(name: str, mark: str) -> Place | None:
    """None: it was but a file that no namespace is mounted on, what is left when a machine or we are interrupted."""
    fd = os.open(DIRECTORY / name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_namespace(fd)
        channel = Channel(ROUTE)
    except OSError as problem:
        os.close(fd)
        if problem.errno != _EINVAL:
            raise
        remove_namespace(name)
        return None
    place = Place(name, channel, fd, made=False)
    if namespace_alias(channel) != mark:
        place.close()
        raise FileExistsError(f"network namespace {name} is there and is not ours")
    return place


def _mark(name: str) -> str:
    """Empty if it is no namespace, or has none."""
    try:
        return look_into(name, namespace_alias)
    except OSError:
        return ""


def _make(name: str, mark: str) -> Place:
    return _named(bare_namespace(), name, mark)


def _named(bare: Bare, name: str, mark: str) -> Place:
    """Its mark comes first: what has a name has one."""
    try:
        refused = bare.channel.submit([set_alias(LOOPBACK, mark)])
        if refused:
            raise OSError(refused[0].code, str(refused[0]))
        path = DIRECTORY / name
        _new_file(path)
        try:
            bind_mount(f"/proc/self/fd/{bare.fd}", str(path))
        except OSError:
            path.unlink(missing_ok=True)
            raise
    except BaseException:
        bare.close()
        raise
    return Place(name, *bare, made=True)


def _new_file(path: Path) -> None:
    """Raises FileExistsError, OSError."""
    try:
        path.touch(0o444, exist_ok=False)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o444, exist_ok=False)


def _remove(name: str, mark: str) -> OSError | None:
    try:
        place = _enter(name, mark)
        if place is not None:
            place.close()
            remove_namespace(name)
    except FileExistsError:
        return None
    except OSError as problem:
        return problem
    return None
