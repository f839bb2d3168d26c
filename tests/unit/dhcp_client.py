"""A DHCP client's view of the wire for the tests, written apart from the code under test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aca.dhcp import Binding, Reply, respond

MAC = bytes.fromhex("aabbcc9d5c91")
SERVER_MAC = bytes.fromhex("fe5400200101")
ADDRESS = bytes((10, 20, 1, 21))
GATEWAY = bytes((10, 20, 1, 1))
DNS = (bytes((198, 51, 100, 53)), bytes((198, 51, 100, 54)))
ANY = bytes(4)
EVERYONE = b"\xff" * 4
XID = bytes.fromhex("3903f326")

DISCOVER, OFFER, REQUEST, DECLINE, ACK, NAK, RELEASE, INFORM = range(1, 9)


def binding(**changes: Any) -> Binding:
    """The first binding of a usual subnet, 10.20.1.21/24."""
    values: dict[str, Any] = {
        "mac": MAC,
        "address": ADDRESS,
        "prefix_length": 24,
        "server": GATEWAY,
        "router": GATEWAY,
        "dns": DNS,
        "mtu": 1450,
        "host_name": "lease-zero",
        "domain": "example.com",
        "options": (),
        "server_mac": SERVER_MAC,
    }
    return Binding(**(values | changes))


def checksum(data: bytes) -> int:
    """RFC 1071, word by word."""
    total = 0
    for index in range(0, len(data), 2):
        total += int.from_bytes(data[index : index + 2].ljust(2, b"\0"), "big")
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def option(code: int, value: bytes) -> bytes:
    return bytes((code, len(value))) + value


def payload(
    options: bytes,
    *,
    ciaddr: bytes = ANY,
    giaddr: bytes = ANY,
    flags: int = 0,
    mac: bytes = MAC,
    hops: int = 0,
    secs: int = 3,
    sname: bytes = b"",
    file: bytes = b"",
) -> bytes:
    """A BOOTREQUEST as it is, without end option or padding."""
    return b"".join(
        (
            bytes((1, 1, 6, hops)),
            XID,
            secs.to_bytes(2, "big"),
            flags.to_bytes(2, "big"),
            ciaddr,
            ANY,
            ANY,
            giaddr,
            mac.ljust(16, b"\0"),
            sname.ljust(64, b"\0"),
            file.ljust(128, b"\0"),
            b"\x63\x82\x53\x63",
            options,
        )
    )


def pseudo_header(source: bytes, destination: bytes, udp_size: int) -> bytes:
    return source + destination + b"\0\x11" + udp_size.to_bytes(2, "big")


def ip_frame(
    udp: bytes,
    *,
    source: bytes = ANY,
    destination: bytes = EVERYONE,
    tag: bytes = b"",
    fragment: int = 0,
    ip_options: bytes = b"",
    protocol: int = 17,
) -> bytes:
    """An Ethernet frame from the client with one IPv4 packet."""
    size = (20 + len(ip_options) + len(udp)).to_bytes(2, "big")
    head = bytes((0x45 + len(ip_options) // 4, 0)) + size + b"\x12\x34" + fragment.to_bytes(2, "big")
    head += bytes((64, protocol))
    addresses = source + destination + ip_options
    head += checksum(head + addresses).to_bytes(2, "big")
    mac = b"\xff" * 6 if destination == EVERYONE else SERVER_MAC
    return mac + MAC + tag + b"\x08\x00" + head + addresses + udp


def udp_datagram(
    data: bytes,
    *,
    source: bytes = ANY,
    destination: bytes = EVERYONE,
    port: int = 67,
    source_port: int = 68,
    udp_checksum: int | None = None,
) -> bytes:
    size = (8 + len(data)).to_bytes(2, "big")
    ports = source_port.to_bytes(2, "big") + port.to_bytes(2, "big") + size
    if udp_checksum is None:
        sound = checksum(pseudo_header(source, destination, 8 + len(data)) + ports + b"\0\0" + data)
        udp_checksum = sound or 0xFFFF
    return ports + udp_checksum.to_bytes(2, "big") + data


def frame(
    kind: int | None, *options: bytes, source: bytes = ANY, destination: bytes = EVERYONE, **fields: Any
) -> bytes:
    """A client's message of `kind`, padded to 300 bytes as most clients do."""
    area = (b"" if kind is None else option(53, bytes((kind,)))) + b"".join(options) + b"\xff"
    data = payload(area, **fields).ljust(300, b"\0")
    return raw_frame(data, source=source, destination=destination)


def raw_frame(data: bytes, *, source: bytes = ANY, destination: bytes = EVERYONE) -> bytes:
    return ip_frame(udp_datagram(data, source=source, destination=destination), source=source, destination=destination)


@dataclass
class Answer:
    """A reply taken apart; making one checks lengths and checksums."""

    kind: str
    ethernet_destination: bytes
    ethernet_source: bytes
    source: bytes
    destination: bytes
    port: int
    payload: bytes
    options: dict[int, bytes] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)

    @property
    def flags(self) -> int:
        return int.from_bytes(self.payload[10:12], "big")

    @property
    def ciaddr(self) -> bytes:
        return self.payload[12:16]

    @property
    def yiaddr(self) -> bytes:
        return self.payload[16:20]

    @property
    def siaddr(self) -> bytes:
        return self.payload[20:24]

    @property
    def giaddr(self) -> bytes:
        return self.payload[24:28]

    @property
    def sname(self) -> bytes:
        return self.payload[44:108].rstrip(b"\0")

    @property
    def file(self) -> bytes:
        return self.payload[108:236].rstrip(b"\0")


def read(reply: Reply | None) -> Answer:
    """The reply as the client reads it; fails if there is none or it is not sound."""
    assert reply is not None
    data = reply.frame
    assert data[12:14] == b"\x08\x00"
    header, udp = data[14:34], data[34:]
    assert header[0] == 0x45 and header[9] == 17
    assert int.from_bytes(header[2:4], "big") == len(data) - 14
    assert checksum(header) == 0
    source, destination = header[12:16], header[16:20]
    assert int.from_bytes(udp[4:6], "big") == len(udp)
    assert udp[6:8] != b"\0\0" and checksum(pseudo_header(source, destination, len(udp)) + udp) == 0
    assert udp[0:2] == (67).to_bytes(2, "big")
    body = udp[8:]
    assert len(body) >= 300
    assert body[:4] == b"\x02\x01\x06\x00" and body[4:8] == XID and body[8:10] == b"\0\0"
    assert body[236:240] == b"\x63\x82\x53\x63"
    answer = Answer(reply.kind, data[0:6], data[6:12], source, destination, int.from_bytes(udp[2:4], "big"), body)
    at = 240
    while body[at] != 255:
        code, size = body[at], body[at + 1]
        value = body[at + 2 : at + 2 + size]
        assert len(value) == size
        answer.options[code] = answer.options.get(code, b"") + value
        if answer.order[-1:] != [code]:
            answer.order.append(code)
        at += 2 + size
    assert not body[at + 1 :].strip(b"\0")
    assert answer.options[53] == bytes(({"OFFER": OFFER, "ACK": ACK, "NAK": NAK}[reply.kind],))
    return answer


def ask(data: bytes, **changes: Any) -> Answer:
    """What a client with the usual binding, with `changes`, gets as an answer to a frame."""
    return read(respond(data, binding(**changes)))


def unanswered(data: bytes, **changes: Any) -> bool:
    return respond(data, binding(**changes)) is None
