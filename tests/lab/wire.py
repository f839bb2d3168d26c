"""Raw frames: sending, capturing, ARP. Sockets are made inside a namespace and used from outside."""

import socket
import struct
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.lab.netns import Namespace

ETH_P_ALL = 0x0003
ETH_P_ARP = 0x0806
PACKET_OUTGOING = 4
SOL_PACKET = 263
PACKET_AUXDATA = 8
SO_RCVBUFFORCE = 33
RECEIVE_BUFFER = 16 << 20
TP_STATUS_VLAN_VALID = 1 << 4
TP_STATUS_VLAN_TPID_VALID = 1 << 6
ARP_RETRY = 0.1

AUXDATA = struct.Struct("=IIIHHHH")
ARP_IPV4 = struct.Struct("!HHBBH6s4s6s4s")


def mac_bytes(mac: str) -> bytes:
    """`aa:bb:cc:dd:ee:ff` as 6 bytes."""
    return bytes.fromhex(mac.replace(":", "").replace("-", ""))


def mac_text(mac: bytes) -> str:
    """6 bytes as `aa:bb:cc:dd:ee:ff`."""
    return mac.hex(":")


class Capture:
    """The frames that a device receives from when this is opened on. A context manager; owns one socket.

    VLAN tags, which the kernel takes out of received frames, are put back. Frames that the device's own namespace
    sends are left out unless `outgoing` is set.
    """

    def __init__(self, namespace: Namespace, device: str, *, outgoing: bool = False) -> None:
        self._outgoing = outgoing
        # Protocol 0: nothing arrives before the device is chosen.
        self._socket = namespace.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
        self._socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self._socket.bind((device, ETH_P_ALL))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def next(self, within: float) -> bytes | None:
        """The next frame, or None if none comes within so many seconds."""
        deadline = time.monotonic() + within
        while True:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.000_001))
            try:
                data, ancillary, _, address = self._socket.recvmsg(65600, 256)
            except (TimeoutError, BlockingIOError):
                return None
            if address[2] != PACKET_OUTGOING or self._outgoing:
                return with_vlan_tag(data, ancillary)

    def frames(self, match: Callable[[bytes], bool] = lambda _: True, *, count: int, within: float) -> list[bytes]:
        """Frames that match, as soon as there are `count`; fewer if `within` seconds pass first."""
        found: list[bytes] = []
        deadline = time.monotonic() + within
        while len(found) < count:
            frame = self.next(max(deadline - time.monotonic(), 0.0))
            if frame is None:
                break
            if match(frame):
                found.append(frame)
        return found


def with_vlan_tag(frame: bytes, ancillary: list[tuple[int, int, bytes]]) -> bytes:
    """The frame as it was on the wire, given what packet(7) says in PACKET_AUXDATA."""
    for level, kind, data in ancillary:
        if level == SOL_PACKET and kind == PACKET_AUXDATA and len(data) >= AUXDATA.size:
            status, _, _, _, _, tci, tpid = AUXDATA.unpack_from(data)
            if status & TP_STATUS_VLAN_VALID:
                tag = struct.pack("!HH", tpid if status & TP_STATUS_VLAN_TPID_VALID else 0x8100, tci)
                return frame[:12] + tag + frame[12:]
    return frame


def send_frame(namespace: Namespace, device: str, frame: bytes) -> None:
    """Send one whole Ethernet frame (no FCS) out of a device. Raises OSError, e.g. if it is down."""
    with namespace.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.bind((device, 0))
        sender.send(frame)


def arp_request(sender_mac: str, sender_ip: str, target_ip: str) -> bytes:
    """A broadcast ARP request frame (RFC 826); with sender 0.0.0.0 it is a probe (RFC 5227)."""
    source = mac_bytes(sender_mac)
    body = ARP_IPV4.pack(1, 0x0800, 6, 4, 1, source, socket.inet_aton(sender_ip), bytes(6), socket.inet_aton(target_ip))
    return b"\xff" * 6 + source + struct.pack("!H", ETH_P_ARP) + body


def arp_answer(frame: bytes, ip: str) -> str | None:
    """The MAC in an ARP reply that is from `ip`; None for any other frame."""
    if len(frame) < 14 + ARP_IPV4.size or frame[12:14] != struct.pack("!H", ETH_P_ARP):
        return None
    _, _, _, _, operation, mac, sender, _, _ = ARP_IPV4.unpack_from(frame, 14)
    return mac_text(mac) if operation == 2 and sender == socket.inet_aton(ip) else None


def resolve(namespace: Namespace, device: str, mac: str, sender_ip: str, target_ip: str, within: float) -> str | None:
    """Who answers for `target_ip`: the MAC of the first ARP reply, or None. Asks again every ARP_RETRY seconds.

    The kernel's neighbour table is neither asked nor changed by us.
    """
    deadline = time.monotonic() + within
    request = arp_request(mac, sender_ip, target_ip)
    with Capture(namespace, device) as capture:
        while (left := deadline - time.monotonic()) > 0:
            send_frame(namespace, device, request)
            replies = capture.frames(
                lambda f: arp_answer(f, target_ip) is not None, count=1, within=min(left, ARP_RETRY)
            )
            if replies:
                return arp_answer(replies[0], target_ip)
    return None
