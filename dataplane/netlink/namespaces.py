"""Network namespaces of routers: named ones, as `ip netns` knows them, so that they outlive the agent."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import threading
from pathlib import Path
from typing import NamedTuple

from dataplane.kernel.channel import (
    ROUTE,
    Channel,
    bind_mount,
    enter_namespace,
    in_thread,
    listen_to,
    new_namespace,
)
from dataplane.kernel.namespaces import DIRECTORY, LOOPBACK, look_into, namespace_alias, remove_namespace
from dataplane.kernel.rtnl import link_of, list_links, set_alias
from dataplane.kernel.wire import KernelError
from dataplane.netlink.names import ALIAS, LEG_INSIDE

_SETTINGS = {"ip_forward": 1, "icmp_ratelimit": 0}
_OF_DEVICES = {
    "forwarding": 1,
    "rp_filter": 0,
    "send_redirects": 0,
    "accept_redirects": 0,
    "accept_source_route": 0,
    "arp_ignore": 1,
    "arp_announce": 2,
}
_IPV4 = Path("/proc/sys/net/ipv4")


class Namespace:
    """A router's namespace, with a netlink socket in it. Closing leaves the namespace; removing ends it.

    Its loopback device has an alias by which it is known again.
    """

    def __init__(self, name: str, alias: str) -> None:
        """Make it, or enter it if it is there. Raises OSError, also if it is another's; then nothing is left that was
        made."""
        self.path = DIRECTORY / name
        self.alias = alias
        if self.path.exists():
            try:
                self.channel, self.fd = in_thread(self._enter)
            except OSError as problem:
                # A file that no namespace is mounted on: what was left by somebody who was interrupted.
                if problem.errno != errno.EINVAL:
                    raise
                remove_namespace(name)
            else:
                found = namespace_alias(self.channel)
                if found == alias:
                    return
                self.close()
                whose = found or "somebody else"
                raise FileExistsError(errno.EEXIST, f"network namespace {name} belongs to {whose}")
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        self.path.touch(mode=0o444, exist_ok=False)
        try:
            self.channel, self.fd = in_thread(self._make)
        except BaseException:
            remove_namespace(self.path.name)
            raise

    @property
    def is_named(self) -> bool:
        """Whether the name still leads to this namespace: it lives on without, until it is closed."""
        try:
            named, own = self.path.stat(), os.fstat(self.fd)
        except OSError:
            return False
        return (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)

    def name_again(self) -> None:
        """Raises OSError if the name is another's."""
        if self.is_named:
            return
        with contextlib.suppress(FileNotFoundError):
            if self.path.stat().st_dev == os.fstat(self.fd).st_dev:
                raise FileExistsError(errno.EEXIST, f"network namespace {self.path.name} belongs to somebody else")
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        self.path.touch(mode=0o444, exist_ok=True)
        bind_mount(f"/proc/self/fd/{self.fd}", str(self.path))

    def altered_settings(self) -> list[str]:
        """Names of those that somebody has changed, as `sysctl` has them, without what they have in common. Raises
        OSError."""
        return in_thread(self._altered_settings)

    def _altered_settings(self) -> list[str]:
        enter_namespace(self.fd)
        return sorted(_altered_settings())

    def keep_settings(self) -> None:
        """As they were when it was made. Raises OSError."""
        in_thread(self._keep_settings)

    def _keep_settings(self) -> None:
        enter_namespace(self.fd)
        _keep_settings()

    def listening(self, groups: int) -> socket.socket:
        """A netlink socket in there that gets these groups' notices. Raises OSError."""
        return in_thread(lambda: self._listen(groups))

    def _listen(self, groups: int) -> socket.socket:
        enter_namespace(self.fd)
        return listen_to(ROUTE, groups)

    def _make(self) -> tuple[Channel, int]:
        new_namespace()
        own = f"/proc/self/task/{threading.get_native_id()}/ns/net"
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        _keep_settings()
        channel = Channel(ROUTE)
        try:
            channel.demand([set_alias(LOOPBACK, self.alias)])
            # Last: what has the name has the alias.
            bind_mount(own, str(self.path))
            return channel, os.open(own, os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            channel.close()
            raise

    def _enter(self) -> tuple[Channel, int]:
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            enter_namespace(fd)
            return Channel(ROUTE), fd
        except OSError:
            os.close(fd)
            raise

    def close(self) -> None:
        self.channel.close()
        os.close(self.fd)

    def remove(self) -> None:
        named = self.is_named
        self.close()
        if named:
            remove_namespace(self.path.name)


def _settings() -> dict[str, int]:
    """In the calling thread's namespace: those of its legs too."""
    legs = [path.name for path in (_IPV4 / "conf").iterdir() if path.name.startswith(LEG_INSIDE)]
    of_devices = {f"conf/{device}/{name}": value for device in ("all", "default", *legs)
                  for name, value in _OF_DEVICES.items()}
    return {**_SETTINGS, **of_devices}


def _altered_settings() -> dict[str, int]:
    """With the values that they should have."""
    found = {}
    for name, value in _settings().items():
        # A leg may be gone by now.
        with contextlib.suppress(FileNotFoundError):
            if (_IPV4 / name).read_text() != f"{value}\n":
                found[name] = value
    return found


def _keep_settings() -> None:
    # What is said of all devices at once changes the others.
    for name, value in _altered_settings().items():
        (_IPV4 / name).write_text(str(value))


class Found(NamedTuple):
    """A namespace that is a router's: its alias, and the names of the legs in it."""

    alias: str
    legs: tuple[str, ...]


def namespaces(prefix: str) -> dict[str, Found]:
    """The routers' namespaces by name: of those whose name is prefix and digits, those that have an alias of ours.
    Raises OSError."""
    if not DIRECTORY.exists():
        return {}
    pattern = re.compile(re.escape(prefix) + "[0-9a-f]{11}")
    names = sorted(path.name for path in DIRECTORY.iterdir() if pattern.fullmatch(path.name))
    found = in_thread(lambda: [(name, _look_into(name)) for name in names]) if names else []
    return {name: one for name, one in found if one.alias.startswith(ALIAS)}


def _look_into(name: str) -> Found:
    try:
        links = look_into(name, lambda channel: [link_of(message) for message in channel.dump(list_links())])
    except (OSError, KernelError):
        return Found("", ())
    legs = tuple(link.name for link in links if link.name.startswith(LEG_INSIDE))
    return Found(next((link.alias for link in links if link.ifindex == LOOPBACK), ""), legs)
