"""Requests to rtnetlink about traffic control: queueing disciplines and filters with actions. All pure.

Numbers are those of linux/rtnetlink.h, pkt_sched.h, pkt_cls.h, tc_act/tc_tunnel_key.h and tc_act/tc_mirred.h. Adding
what is there replaces it.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

from dataplane.addresses import format_address
from dataplane.kernel.wire import CREATE, Message, Request, attribute, attributes, be32, chars, nested, text, u8

_NEW_QDISC, _NEW_FILTER, _DEL_FILTER, _GET_FILTER = 36, 44, 45, 46
_CLSACT, _HANDLE, _INGRESS, _EGRESS = 0xFFFFFFF1, 0xFFFF0000, 0xFFFFFFF2, 0xFFFFFFF3
_ALL_PROTOCOLS = socket.htons(0x0003)
_KIND, _OPTIONS, _PARAMETERS = 1, 2, 2
_CONTINUE, _PIPE, _STOLEN = -1, 3, 4
_SET, _RELEASE = 1, 2
_TO_OTHER_DEVICE, _COPY_TO_OTHER_DEVICE, _AS_IF_RECEIVED = 1, 2, 3
_ENOENT, _EINVAL, _ENODEV = 2, 22, 19
_TTL = 64
BY_MARK, TO_ALL = 1, 2
"""Order of the filters of a segment's device: first the one host that the mark names, else all."""

BACK = -1
"""In the place of an order: what comes out of the tunnel."""


class Way(NamedTuple):
    """A filter as it stands: at which device, its order and number, the tunnel id and, of the tunnel's outer packets,
    addresses and UDP port; which device it leads to."""

    device: int
    order: int
    number: int
    vni: int
    local: bytes = b""
    host: bytes = b""
    port: int = 0
    out: int = 0


def list_filters(index: int, *, received: bool) -> Request:
    """For a dump of a device's filters: of what it receives, or of what it sends."""
    where = _INGRESS if received else _EGRESS
    return Request(_GET_FILTER, 0, _message(index, 0, where, 0), f"filters of device {index}")


def way_of(message: Message) -> Way | None:
    """None if it is none of ours. A filter that does more or less than ours do is another way."""
    _, index, number, parent, info = struct.unpack_from("=BxxxiIII", message.body)
    parts = attributes(message.body, 20)
    kind, options = chars(parts.get(_KIND, b"")), attributes(parts.get(_OPTIONS, b""))
    listed = options.get(4 if kind == "fw" else 3)
    if not number or listed is None or kind not in ("fw", "basic", "flower"):
        return None
    actions = [attributes(one) for _, one in sorted(attributes(listed).items())]
    if [chars(one.get(_KIND, b"")) for one in actions] != ["tunnel_key", "mirred"]:
        return None
    key, mirred = (attributes(one.get(_OPTIONS, b"")) for one in actions)
    *_, after, _, _, how, out = struct.unpack_from("=IIiiiiI", mirred.get(_PARAMETERS, bytes(28)))
    if parent == _INGRESS:
        vni = int.from_bytes(options.get(26, b""), "big")
        return Way(index, BACK, number, vni, out=out) if how == _AS_IF_RECEIVED else None
    order = info >> 16
    expected = (_COPY_TO_OTHER_DEVICE, _CONTINUE) if order == TO_ALL else (_TO_OTHER_DEVICE, _STOLEN)
    if (how, after) != expected:
        return None
    local, host = (key.get(four, key.get(six, b"")) for four, six in ((3, 5), (4, 6)))
    vni, port = (int.from_bytes(key.get(number_of, b""), "big") for number_of in (7, 9))
    return Way(index, order, number, vni, local, host, port, out)


def add_classifier(index: int, about: str) -> Request:
    """A place for filters, in both directions."""
    return Request(_NEW_QDISC, CREATE, _message(index, _HANDLE, _CLSACT, 0) + text(_KIND, "clsact"), about)


def receive(geneve: int, vni: int, device: int, about: str) -> Request:
    """Frames that come out of the tunnel with this id enter the device as if it had received them."""
    actions = _actions(
        _action("tunnel_key", struct.pack("=IIiiii", 0, 0, _PIPE, 0, 0, _RELEASE)), _mirred(_AS_IF_RECEIVED, device)
    )
    options = nested(_OPTIONS, nested(3, actions), be32(26, vni))
    return Request(_NEW_FILTER, CREATE, _filter(geneve, _INGRESS, vni, 1, "flower") + options, about)


def receive_no_more(geneve: int, vni: int, about: str) -> Request:
    body = _filter(geneve, _INGRESS, vni, 1, "flower")
    return Request(_DEL_FILTER, 0, body, about, (_ENOENT, _EINVAL, _ENODEV))


def add_host(device: int, number: int, geneve: int, vni: int, local: bytes, host: bytes, port: int) -> list[Request]:
    """What the segment's device sends with the mark `number` goes to the host; so does a copy of what has no mark."""
    about = f"tunnel to {format_address(host)}"
    to_host = _tunnel(vni, local, host, port)
    one = nested(4, _actions(to_host, _mirred(_TO_OTHER_DEVICE, geneve)))
    copy = nested(3, _actions(to_host, _mirred(_COPY_TO_OTHER_DEVICE, geneve)))
    return [
        Request(_NEW_FILTER, CREATE, _filter(device, _EGRESS, number, order, kind) + nested(_OPTIONS, options), about)
        for kind, order, options in (("fw", BY_MARK, one), ("basic", TO_ALL, copy))
    ]


def delete_host(device: int, number: int, host: bytes) -> list[Request]:
    about = f"tunnel to {format_address(host)}"
    return [
        Request(
            _DEL_FILTER, 0, _filter(device, _EGRESS, number, order, kind), about, (_ENOENT, _EINVAL, _ENODEV)
        )
        for kind, order in (("fw", BY_MARK), ("basic", TO_ALL))
    ]


def _message(index: int, handle: int, parent: int, info: int) -> bytes:
    return struct.pack("=BxxxiIII", socket.AF_UNSPEC, index, handle, parent, info)


def _filter(index: int, parent: int, handle: int, order: int, kind: str) -> bytes:
    return _message(index, handle, parent, order << 16 | _ALL_PROTOCOLS) + text(_KIND, kind)


def _actions(*actions: bytes) -> bytes:
    return b"".join(nested(number, action) for number, action in enumerate(actions, 1))


def _action(kind: str, parameters: bytes, *more: bytes) -> bytes:
    return text(_KIND, kind) + nested(_OPTIONS, attribute(_PARAMETERS, parameters), *more)


def _tunnel(vni: int, local: bytes, host: bytes, port: int) -> bytes:
    """UDP checksum zero, as for VXLAN: a switch in user space cannot finish ours."""
    source, destination = (3, 4) if len(host) == 4 else (5, 6)
    return _action(
        "tunnel_key",
        struct.pack("=IIiiii", 0, 0, _PIPE, 0, 0, _SET),
        attribute(source, local),
        attribute(destination, host),
        be32(7, vni),
        attribute(9, port.to_bytes(2, "big")),
        u8(10, 1),
        u8(13, _TTL),
    )


def _mirred(how: int, device: int) -> bytes:
    after = _CONTINUE if how == _COPY_TO_OTHER_DEVICE else _STOLEN
    return _action("mirred", struct.pack("=IIiiiiI", 0, 0, after, 0, 0, how, device))
