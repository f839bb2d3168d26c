"""The DHCPv4 responder: one frame of a port's guest in, at most one frame for that port out (RFC 2131).

It holds no state. The binding is the lease, so nothing ever expires here, and a restart changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from aca.dhcp import message, wire
from aca.dhcp.binding import Binding, Reply
from aca.dhcp.message import BROADCAST_FLAG, NO_ADDRESS, Message, MessageType, Option, ReplyFields
from aca.dhcp.options import Offer

_SMALLEST_LIMIT = 576
"""Every client takes a datagram of this size (RFC 2131 section 2), and none may ask for less (RFC 2132, 9.10)."""
_LARGEST_LIMIT = 1500
"""For a client that takes more than the network does, when the network's MTU is not known."""

_ALWAYS = (
    Option.LEASE_TIME,
    Option.RENEWAL_TIME,
    Option.REBINDING_TIME,
    Option.SUBNET_MASK,  # must stand before the router (RFC 2132 section 3.3)
    Option.ROUTER,
    # Many clients take the MTU without asking for it, and without it large packets vanish in a tunnel.
    Option.MTU,
    Option.BROADCAST,
)
_LEASE_TIMES = frozenset((Option.LEASE_TIME, Option.RENEWAL_TIME, Option.REBINDING_TIME))
_LEASE_SIZE = 5 * 6
"""Bytes of the options without which a client cannot use the address: the first five of `_ALWAYS`, one router."""
# Must not go to a client that did not ask for it (RFC 8925 section 3.3).
_ONLY_ON_REQUEST = frozenset((Option.IPV6_ONLY,))
_NAK_MESSAGE = message.encode_option(Option.MESSAGE, b"this address is not the one of this port")


def respond(frame: bytes, binding: Binding) -> Reply | None:
    """The answer of `binding`'s port to `frame`, a whole Ethernet frame as the guest sent it; None is silence.

    Any bytes are taken, nothing is raised. The client is the one with `binding.mac` in chaddr, whatever its client
    identifier says. Silence also for other clients, other servers' business, DECLINE and RELEASE (a static binding
    has nothing to give back), and plain BOOTP.
    """
    datagram = wire.decode(frame)
    if datagram is None or datagram.destination not in (wire.BROADCAST_ADDRESS, binding.server):
        return None
    request = message.decode(datagram.payload)
    if request is None or request.mac != binding.mac:
        return None
    chosen_server = request.options.get(Option.SERVER_ID)
    if chosen_server is not None and chosen_server != binding.server:
        return None
    match request.options.get(Option.MESSAGE_TYPE):
        case b"\x01":
            return _lease(datagram, request, binding, MessageType.OFFER)
        case b"\x03":
            return _answer_request(datagram, request, binding)
        case b"\x08":
            return _answer_inform(datagram, request, binding)
        case _:
            return None


def _answer_request(datagram: wire.Datagram, request: Message, binding: Binding) -> Reply | None:
    """ACK or NAK (RFC 2131 section 4.3.2).

    Selecting and init-reboot name the address in option 50, renewing and rebinding in ciaddr; selecting alone has
    a server identifier, which is ours. Of a client that fills in both addresses, the one of its state counts.
    """
    asked = request.options.get(Option.REQUESTED_ADDRESS)
    using = None if request.ciaddr == NO_ADDRESS else request.ciaddr
    selecting = Option.SERVER_ID in request.options
    wanted = (asked or using) if selecting else (using or asked)
    if wanted is None or len(wanted) != 4:
        return None
    if wanted == binding.address:
        return _lease(datagram, request, binding, MessageType.ACK)
    return _refuse(datagram, request, binding)


def _lease(datagram: wire.Datagram, request: Message, binding: Binding, kind: MessageType) -> Reply:
    ciaddr = request.ciaddr if kind is MessageType.ACK else NO_ADDRESS
    options = _encode(kind, request, binding, _selected(binding.offer, request))
    if request.ciaddr != NO_ADDRESS:
        destination = request.ciaddr
    elif request.flags & BROADCAST_FLAG:
        destination = wire.BROADCAST_ADDRESS
    else:
        destination = binding.address
    fields = _fields(request, binding.offer, ciaddr, binding.address)
    return _send(datagram, request, binding, kind, fields, options, destination)


def _answer_inform(datagram: wire.Datagram, request: Message, binding: Binding) -> Reply:
    """An ACK without address and lease (RFC 2131 section 4.3.5); the client may have any address."""
    selected = [code for code in _selected(binding.offer, request) if code not in _LEASE_TIMES]
    options = _encode(MessageType.ACK, request, binding, selected)
    # Some clients leave ciaddr empty; then the source of the datagram is the address they have.
    client = next((known for known in (request.ciaddr, datagram.source) if known != NO_ADDRESS), None)
    destination = client or wire.BROADCAST_ADDRESS
    fields = _fields(request, binding.offer, request.ciaddr, NO_ADDRESS)
    return _send(datagram, request, binding, MessageType.ACK, fields, options, destination)


def _refuse(datagram: wire.Datagram, request: Message, binding: Binding) -> Reply:
    # A relay agent must broadcast it: the client may be on the wrong network (RFC 2131 section 4.3.2).
    relayed = BROADCAST_FLAG if request.giaddr != NO_ADDRESS else 0
    fields = ReplyFields(flags=request.flags | relayed)
    options = _encode(MessageType.NAK, request, binding, ())
    return _send(datagram, request, binding, MessageType.NAK, fields, options, wire.BROADCAST_ADDRESS)


def _fields(request: Message, offer: Offer, ciaddr: bytes, yiaddr: bytes) -> ReplyFields:
    return ReplyFields(request.flags, ciaddr, yiaddr, offer.siaddr, offer.sname, offer.file)


def _send(
    datagram: wire.Datagram,
    request: Message,
    binding: Binding,
    kind: MessageType,
    fields: ReplyFields,
    options: bytes,
    destination: bytes,
) -> Reply:
    """Deliver to the relay agent if there is one, else to the client (RFC 2131 section 4.1)."""
    if request.giaddr != NO_ADDRESS:
        destination, mac, port = request.giaddr, datagram.source_mac, wire.SERVER_PORT
    elif destination == wire.BROADCAST_ADDRESS:
        mac, port = wire.BROADCAST_MAC, wire.CLIENT_PORT
    else:
        mac, port = request.mac, wire.CLIENT_PORT
    payload = message.encode(request, fields, options)
    return Reply(wire.encode(binding.server_mac, mac, binding.server, destination, port, payload), kind.name)


def _selected(offer: Offer, request: Message) -> list[int]:
    """Numbers of options by falling importance: the mandatory, those requested in the client's order, then the others.

    The user's options are specific to this client, so it gets them even if it did not ask (RFC 2131 section 4.3.1);
    the rest of the defaults go unasked only to a client without a parameter request list.
    """
    encoded = offer.encoded
    requested = request.options.get(Option.PARAMETER_REQUEST)
    unasked = tuple(encoded) if requested is None else offer.explicit
    order: tuple[int, ...] = (
        *_ALWAYS,
        *(requested or b""),
        *(code for code in unasked if code not in _ONLY_ON_REQUEST),
    )
    return [code for code in dict.fromkeys(order) if code in encoded]


def _encode(kind: MessageType, request: Message, binding: Binding, selected: Iterable[int]) -> bytes:
    """The options area up to its end option, within the size that the client takes.

    An option that does not fit is left out; smaller ones of less importance may still go in. The echoes of client
    identifier (RFC 6842) and relay agent information, the last option (RFC 3046 section 2.1), go before all others
    except the lease's own.
    """
    encoded = [
        message.encode_option(Option.MESSAGE_TYPE, bytes((kind,))),
        message.encode_option(Option.SERVER_ID, binding.server),
    ]
    if kind is MessageType.NAK:
        encoded.append(_NAK_MESSAGE)
    room = _room(request, binding) - sum(map(len, encoded))
    echoes: list[bytes] = []
    for echoed in (Option.CLIENT_ID, Option.RELAY_AGENT):
        echo = request.options.get(echoed)
        option = b"" if echo is None else message.encode_option(echoed, echo)
        if len(option) > room - _LEASE_SIZE:
            option = b""
        room -= len(option)
        echoes.append(option)
    offered = binding.offer.encoded
    for code in selected:
        option = offered[code]
        if len(option) <= room:
            room -= len(option)
            encoded.append(option)
    return b"".join((*encoded, *echoes))


def _room(request: Message, binding: Binding) -> int:
    """Bytes for options, end option not counted, in the datagram that the client takes (option 57, RFC 2132, 9.10)."""
    asked = request.options.get(Option.MAXIMUM_SIZE, b"")
    limit = int.from_bytes(asked, "big") if len(asked) == 2 else _SMALLEST_LIMIT
    limit = max(_SMALLEST_LIMIT, min(limit, binding.mtu or _LARGEST_LIMIT))
    return limit - wire.IP_UDP_SIZE - message.FIXED_SIZE - 1
