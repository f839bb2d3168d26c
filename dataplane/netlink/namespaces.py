"""Network namespaces of routers: named ones, as `ip netns` knows them, so that they outlive the agent."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from dataplane.netlink.channel import ROUTE, Channel, bind_mount, enter_namespace, in_thread, new_namespace, unmount

DIRECTORY = Path("/run/netns")
_SETTINGS = {
    "ip_forward": 1,
    "icmp_ratelimit": 0,
    **{
        f"conf/{which}/{name}": value
        for which in ("all", "default")
        for name, value in {
            "forwarding": 1,
            "rp_filter": 0,
            "send_redirects": 0,
            "accept_redirects": 0,
            "accept_source_route": 0,
            "arp_ignore": 1,
            "arp_announce": 2,
        }.items()
    },
}


class Namespace:
    """A router's namespace, with a netlink socket in it. Closing leaves the namespace; removing ends it."""

    def __init__(self, name: str) -> None:
        """Make it, or enter it if it is there. Raises OSError; then nothing is left that was made."""
        self.path = DIRECTORY / name
        if self.path.exists():
            try:
                self.channel, self.fd = in_thread(self._enter)
            except OSError:
                # A file that no namespace is mounted on: what was left by somebody who was interrupted.
                remove_namespace(name)
            else:
                return
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        self.path.touch(mode=0o444, exist_ok=False)
        try:
            self.channel, self.fd = in_thread(self._make)
        except BaseException:
            remove_namespace(self.path.name)
            raise

    def _make(self) -> tuple[Channel, int]:
        new_namespace()
        own = f"/proc/self/task/{threading.get_native_id()}/ns/net"
        bind_mount(own, str(self.path))
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        for name, value in _SETTINGS.items():
            Path("/proc/sys/net/ipv4", name).write_text(str(value))
        return Channel(ROUTE), os.open(own, os.O_RDONLY | os.O_CLOEXEC)

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
        self.close()
        remove_namespace(self.path.name)


def remove_namespace(name: str) -> None:
    """Raises OSError; what is not there is removed."""
    path = DIRECTORY / name
    try:
        unmount(str(path))
    except OSError as error:
        if path.exists() and error.errno != 22:
            raise
    path.unlink(missing_ok=True)


def namespaces(prefix: str) -> list[str]:
    if not DIRECTORY.exists():
        return []
    return sorted(path.name for path in DIRECTORY.iterdir() if path.name.startswith(prefix))
