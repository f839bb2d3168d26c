"""Persistent taps (linux/if_tun.h)."""

from __future__ import annotations

import fcntl
import os
import struct

_SET_INTERFACE, _SET_PERSISTENT = 0x400454CA, 0x400454CB
_TAP, _NO_PACKET_INFORMATION, _EXCLUSIVE = 0x0002, 0x1000, 0x8000


class NewTap:
    """A tap that goes with this object, until it is kept. In the network namespace of the calling thread."""

    def __init__(self, name: str) -> None:
        """Raises OSError (EBUSY if there is one of that name)."""
        self._fd = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        try:
            flags = _TAP | _NO_PACKET_INFORMATION | _EXCLUSIVE
            fcntl.ioctl(self._fd, _SET_INTERFACE, struct.pack("16sH22x", name.encode(), flags))
        except OSError:
            self.close()
            raise

    def keep(self) -> None:
        """Let it outlive us. Raises OSError."""
        fcntl.ioctl(self._fd, _SET_PERSISTENT, 1)

    def close(self) -> None:
        os.close(self._fd)
