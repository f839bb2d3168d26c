"""Network namespaces: made and deleted in batches, entered by threads."""

import array
import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.lab.commands import COMMAND_TIMEOUT, LabError, run

T = TypeVar("T")

NETNS_DIRECTORY = Path("/run/netns")
CLONE_NEWNET = 0x40000000
SIOCETHTOOL = 0x8946
ETHTOOL_STXCSUM = 0x17
THREAD_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Namespace:
    """A named network namespace; the value does not own it."""

    name: str

    @property
    def path(self) -> Path:
        return NETNS_DIRECTORY / self.name

    def argv(self, *command: str) -> list[str]:
        """The command line that runs `command` in here; the process is replaced, so its pid is the command's."""
        return ["ip", "netns", "exec", self.name, *command]

    def entering(self, *command: str) -> list[str]:
        """Like argv(), but with the caller's mounts: namespaces that the command gives a name are seen by all."""
        return ["nsenter", f"--net={self.path}", "--", *command]

    def run(
        self,
        *command: str,
        timeout: float = COMMAND_TIMEOUT,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
    ) -> str:
        """Run a program in here to its end and return its output. Raises CommandError."""
        return run(self.argv(*command), timeout=timeout, env=env, stdin=stdin)

    def ip(self, *lines: str) -> None:
        """Run lines of `ip` commands in one process. Raises CommandError at the first that fails."""
        if lines:
            run(["ip", "-n", self.name, "-batch", "-"], stdin="\n".join(lines) + "\n")

    def call(self, action: Callable[[], T]) -> T:
        """Run `action` in a thread that is in here, and return what it returns; its exception is raised here."""
        return in_namespaces([self], lambda _: action())[0]

    def socket(self, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """A new socket that lives in here for good, whichever thread uses it."""
        return self.call(lambda: socket.socket(family, kind, protocol))

    def sysctl(self, **values: int) -> None:
        """Set values under net/, names with __ for the slash: ipv4__conf__all__arp_ignore=1."""
        self.call(lambda: write_sysctls(values))


def create_namespaces(names: Iterable[str]) -> list[Namespace]:
    """Make namespaces without IPv6 on the devices to come. Raises CommandError if a name is taken."""
    namespaces = [Namespace(name) for name in names]
    if namespaces:
        run(["ip", "-batch", "-"], stdin="".join(f"netns add {n.name}\n" for n in namespaces), timeout=60.0)
        in_namespaces(namespaces, lambda _: write_sysctls({"ipv6__conf__default__disable_ipv6": 1}))
    return namespaces


def delete_namespaces(names: Iterable[str]) -> None:
    """Delete namespaces; those that are not there are ignored."""
    present = [name for name in names if (NETNS_DIRECTORY / name).exists()]
    if present:
        # -force: go on after a failure, so that one busy namespace does not keep the others.
        run(["ip", "-force", "-batch", "-"], stdin="".join(f"netns del {n}\n" for n in present), timeout=60.0)


def namespaces_of(prefix: str) -> list[str]:
    """The names that begin with `prefix` and a dash, sorted."""
    if not NETNS_DIRECTORY.exists():
        return []
    return sorted(p.name for p in NETNS_DIRECTORY.iterdir() if p.name.startswith(f"{prefix}-"))


def inhabitants(names: Iterable[str]) -> list[int]:
    """The pids of the processes in these namespaces, this one excepted; names that are not there are ignored."""
    inodes = {(NETNS_DIRECTORY / name).stat().st_ino for name in names if (NETNS_DIRECTORY / name).exists()}
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        # Gone meanwhile, or a zombie, which is nowhere.
        with suppress(OSError):
            if (process / "ns" / "net").stat().st_ino in inodes and int(process.name) != os.getpid():
                found.append(int(process.name))
    return found


def in_namespaces(namespaces: Sequence[Namespace], action: Callable[[Namespace], T]) -> list[T]:
    """Run `action` for each, in one thread of its own that enters one after the other. Its exception is raised here.

    Only that thread is ever inside (setns(2) works per thread), so the caller's own namespace never changes.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for namespace in namespaces:
                enter(namespace)
                results.append(action(namespace))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="lab-netns", daemon=True)
    thread.start()
    thread.join(THREAD_TIMEOUT)
    if thread.is_alive():
        raise LabError(f"work in {', '.join(n.name for n in namespaces)} took more than {THREAD_TIMEOUT:g} s")
    if errors:
        raise errors[0]
    return results


def enter(namespace: Namespace) -> None:
    """Move the calling thread into a namespace. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(namespace.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(fd, CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(namespace.path))
    finally:
        os.close(fd)


def write_sysctls(values: Mapping[str, int]) -> None:
    """Set values under net/ of the calling thread's namespace, names with __ for the slash."""
    for name, value in values.items():
        Path("/proc/sys/net", *name.split("__")).write_text(str(value))


def checksum_offload_off(device: str) -> None:
    """Turn transmit checksum offload of a device in the calling thread's namespace off (ethtool -K DEV tx off).

    A switch in user space reads frames through AF_PACKET and would forward them without their checksum.
    """
    value = array.array("I", [ETHTOOL_STXCSUM, 0])
    address, _ = value.buffer_info()
    request = struct.pack("16sP", device.encode(), address) + bytes(16)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCETHTOOL, request)
