"""The DHCPv4 exchange as a client sees it: who is answered, with what, and where the answer goes."""

from __future__ import annotations

import pytest

from aca.dhcp import Binding, respond
from tests.unit.dhcp_client import (
    ACK,
    ADDRESS,
    ANY,
    DECLINE,
    DISCOVER,
    EVERYONE,
    GATEWAY,
    INFORM,
    MAC,
    NAK,
    OFFER,
    RELEASE,
    REQUEST,
    SERVER_MAC,
    ask,
    binding,
    frame,
    option,
    unanswered,
)

OTHER = bytes((10, 20, 1, 99))
STABLE = bytes((169, 254, 169, 254))
SERVER_ID = option(54, GATEWAY)
BROADCAST_FLAG = 0x8000


def seconds(value: bytes) -> int:
    assert len(value) == 4
    return int.from_bytes(value, "big")


# ---- the exchange


def test_discover_is_offered_the_address_with_all_that_a_guest_needs() -> None:
    answer = ask(frame(DISCOVER))
    assert answer.kind == "OFFER"
    assert (answer.yiaddr, answer.ciaddr, answer.siaddr) == (ADDRESS, ANY, ANY)
    assert answer.payload[28:34] == MAC
    options = answer.options
    assert options[1] == bytes((255, 255, 255, 0))
    assert options[3] == GATEWAY
    assert options[54] == GATEWAY
    assert options[6] == bytes((198, 51, 100, 53, 198, 51, 100, 54))
    assert options[12] == b"lease-zero"
    assert options[15] == b"example.com"
    assert options[26] == (1450).to_bytes(2, "big")
    assert options[28] == bytes((10, 20, 1, 255))
    assert seconds(options[51]) == 86_400
    assert seconds(options[58]) == 43_200
    assert seconds(options[59]) == 75_600


def test_a_discover_that_asks_for_another_address_is_offered_the_ports_own() -> None:
    assert ask(frame(DISCOVER, option(50, OTHER))).yiaddr == ADDRESS


def test_an_offer_never_repeats_the_address_that_a_client_claims_to_have() -> None:
    answer = ask(frame(DISCOVER, ciaddr=OTHER))
    assert (answer.ciaddr, answer.yiaddr) == (ANY, ADDRESS)


def test_selecting_this_server_is_acknowledged() -> None:
    answer = ask(frame(REQUEST, SERVER_ID, option(50, ADDRESS)))
    assert (answer.kind, answer.yiaddr, answer.ciaddr) == ("ACK", ADDRESS, ANY)
    assert seconds(answer.options[51]) == 86_400


def test_selecting_another_server_is_met_with_silence() -> None:
    assert unanswered(frame(REQUEST, option(54, OTHER), option(50, ADDRESS)))
    assert unanswered(frame(REQUEST, option(54, OTHER), option(50, OTHER)))


def test_selecting_an_address_that_is_not_the_clients_is_refused() -> None:
    assert ask(frame(REQUEST, SERVER_ID, option(50, OTHER))).kind == "NAK"


def test_reboot_with_the_right_address_is_acknowledged() -> None:
    answer = ask(frame(REQUEST, option(50, ADDRESS)))
    assert (answer.kind, answer.yiaddr) == ("ACK", ADDRESS)


def test_reboot_with_a_wrong_address_is_refused() -> None:
    answer = ask(frame(REQUEST, option(50, OTHER), option(61, b"\x01" + MAC)))
    assert answer.kind == "NAK"
    assert (answer.yiaddr, answer.ciaddr, answer.siaddr) == (ANY, ANY, ANY)
    assert set(answer.options) == {53, 54, 56, 61}
    assert answer.options[54] == GATEWAY
    assert (answer.destination, answer.ethernet_destination) == (EVERYONE, b"\xff" * 6)


def test_renewal_by_unicast_is_acknowledged_by_unicast() -> None:
    answer = ask(frame(REQUEST, ciaddr=ADDRESS, source=ADDRESS, destination=GATEWAY))
    assert (answer.kind, answer.yiaddr, answer.ciaddr) == ("ACK", ADDRESS, ADDRESS)
    assert (answer.source, answer.destination, answer.port) == (GATEWAY, ADDRESS, 68)
    assert (answer.ethernet_source, answer.ethernet_destination) == (SERVER_MAC, MAC)
    assert seconds(answer.options[51]) == 86_400


def test_rebinding_by_broadcast_is_acknowledged() -> None:
    answer = ask(frame(REQUEST, ciaddr=ADDRESS, source=ADDRESS))
    assert (answer.kind, answer.yiaddr, answer.destination) == ("ACK", ADDRESS, ADDRESS)


@pytest.mark.parametrize("destination", [GATEWAY, EVERYONE])
def test_a_client_whose_address_was_changed_is_refused_when_it_renews(destination: bytes) -> None:
    answer = ask(frame(REQUEST, ciaddr=ADDRESS, source=ADDRESS, destination=destination), address=OTHER)
    assert (answer.kind, answer.destination, answer.yiaddr) == ("NAK", EVERYONE, ANY)


def test_only_the_address_of_the_clients_state_counts_if_it_fills_in_both() -> None:
    assert ask(frame(REQUEST, option(50, OTHER), ciaddr=ADDRESS)).kind == "ACK"
    assert ask(frame(REQUEST, SERVER_ID, option(50, ADDRESS), ciaddr=OTHER)).kind == "ACK"


def test_a_request_for_no_address_at_all_is_met_with_silence() -> None:
    assert unanswered(frame(REQUEST))
    assert unanswered(frame(REQUEST, SERVER_ID))
    assert unanswered(frame(REQUEST, SERVER_ID, option(50, ADDRESS + b"\0")))


def test_inform_gets_options_but_neither_address_nor_lease() -> None:
    answer = ask(frame(INFORM, ciaddr=OTHER, source=OTHER))
    assert (answer.kind, answer.yiaddr, answer.ciaddr, answer.destination) == ("ACK", ANY, OTHER, OTHER)
    assert answer.options[3] == GATEWAY and answer.options[6]
    assert not {51, 58, 59} & set(answer.options)


def test_inform_without_ciaddr_is_answered_to_its_source() -> None:
    assert ask(frame(INFORM, source=OTHER)).destination == OTHER
    assert ask(frame(INFORM)).destination == EVERYONE


@pytest.mark.parametrize("kind", [0, OFFER, DECLINE, ACK, NAK, RELEASE, 9, 13, 255, None])
def test_other_messages_are_met_with_silence(kind: int | None) -> None:
    assert unanswered(frame(kind, SERVER_ID, option(50, ADDRESS), ciaddr=ADDRESS))


def test_a_message_type_of_a_wrong_size_is_met_with_silence() -> None:
    assert unanswered(frame(None, option(53, b"\x01\x01")))
    assert unanswered(frame(None, option(53, b"")))


# ---- identity


@pytest.mark.parametrize("kind", [DISCOVER, REQUEST, INFORM])
def test_a_client_with_another_mac_is_not_this_servers_business(kind: int) -> None:
    stranger = MAC[:5] + b"\x00"
    assert unanswered(frame(kind, SERVER_ID, option(50, OTHER), mac=stranger))


def test_a_client_that_talks_to_another_dhcp_server_is_left_alone() -> None:
    assert unanswered(frame(REQUEST, ciaddr=OTHER, source=OTHER, destination=bytes((10, 20, 1, 2))))


@pytest.mark.parametrize(
    "client_id",
    [b"\x01" + MAC, b"\x01" + b"\x02" * 6, b"\xff" + bytes(18), b"\x00some name", b"\x07"],
    ids=["windows", "another mac", "rfc4361", "text", "one byte"],
)
def test_the_client_id_does_not_matter_and_is_echoed(client_id: bytes) -> None:
    for data in (frame(DISCOVER, option(61, client_id)), frame(REQUEST, option(50, OTHER), option(61, client_id))):
        answer = ask(data)
        assert answer.kind in ("OFFER", "NAK")
        assert answer.options[61] == client_id


def test_no_client_id_is_sent_to_a_client_that_has_none() -> None:
    assert 61 not in ask(frame(DISCOVER)).options


def test_a_subnet_without_gateway_has_a_server_but_no_router() -> None:
    answer = ask(frame(DISCOVER), router=None, server=STABLE)
    assert 3 not in answer.options
    assert (answer.options[54], answer.source) == (STABLE, STABLE)
    renewal = frame(REQUEST, ciaddr=ADDRESS, source=ADDRESS, destination=STABLE)
    assert ask(renewal, router=None, server=STABLE).kind == "ACK"


# ---- delivery (RFC 2131 section 4.1)


@pytest.mark.parametrize(
    ("flags", "destination", "mac"),
    [(0, ADDRESS, MAC), (BROADCAST_FLAG, EVERYONE, b"\xff" * 6), (0x7FFF, ADDRESS, MAC)],
    ids=["unicast", "broadcast", "other bits"],
)
def test_the_broadcast_flag_decides_where_an_offer_goes(flags: int, destination: bytes, mac: bytes) -> None:
    for data in (frame(DISCOVER, flags=flags), frame(REQUEST, option(50, ADDRESS), flags=flags)):
        answer = ask(data)
        assert (answer.destination, answer.ethernet_destination, answer.port) == (destination, mac, 68)
        assert answer.flags == flags


def test_a_client_that_has_its_address_gets_unicast_in_spite_of_the_broadcast_flag() -> None:
    assert ask(frame(REQUEST, ciaddr=ADDRESS, flags=BROADCAST_FLAG)).destination == ADDRESS


def test_a_relay_agent_gets_the_answer_and_its_information_back_as_the_last_option() -> None:
    relay = bytes((10, 20, 1, 7))
    information = b"\x01\x04eth0\x02\x02id"
    data = frame(
        DISCOVER, option(82, information), option(61, b"\x00x"), giaddr=relay, hops=1, source=relay, destination=GATEWAY
    )
    answer = ask(data)
    assert (answer.destination, answer.port, answer.ethernet_destination) == (relay, 67, MAC)
    assert (answer.giaddr, answer.flags) == (relay, 0)
    assert answer.options[82] == information
    assert answer.order[-1] == 82


def test_a_relay_agent_is_told_to_broadcast_a_refusal() -> None:
    relay = bytes((10, 20, 1, 7))
    answer = ask(frame(REQUEST, option(50, OTHER), option(82, b"\x01\x01x"), giaddr=relay))
    assert (answer.kind, answer.destination, answer.port) == ("NAK", relay, 67)
    assert answer.flags == BROADCAST_FLAG
    assert answer.options[82] == b"\x01\x01x"


# ---- which options


def test_requested_options_come_in_the_clients_order_behind_the_mandatory_ones() -> None:
    answer = ask(frame(DISCOVER, option(55, bytes((15, 3, 6, 6, 1, 200, 0, 255)))))
    assert answer.order[:2] == [53, 54]
    assert {1, 3, 51, 58, 59} <= set(answer.order)
    assert answer.order.index(1) < answer.order.index(3)
    assert answer.order[-2:] == [15, 6]
    assert 12 not in answer.order


def test_a_client_that_asks_for_one_option_still_gets_the_mandatory_ones() -> None:
    answer = ask(frame(REQUEST, option(50, ADDRESS), option(55, b"\x0c")))
    assert {1, 3, 12, 26, 28, 51, 54, 58, 59} <= set(answer.options)
    assert not {6, 15} & set(answer.options)


def test_the_users_options_go_to_a_client_that_did_not_ask() -> None:
    answer = ask(frame(DISCOVER, option(55, b"\x01")), options=(("ntp-server", "10.0.0.9"),))
    assert answer.options[42] == bytes((10, 0, 0, 9))


def test_ipv6_only_goes_to_those_who_ask_for_it_only() -> None:
    extra = (("ipv6-only", "1800"),)
    assert 108 not in ask(frame(DISCOVER), options=extra).options
    assert 108 not in ask(frame(DISCOVER, option(55, b"\x01")), options=extra).options
    assert seconds(ask(frame(DISCOVER, option(55, b"\x6c")), options=extra).options[108]) == 1800


def test_boot_fields_are_filled_for_clients_that_read_no_options() -> None:
    extra = (("tftp-server", "10.20.1.9"), ("bootfile-name", "pxelinux.0"))
    answer = ask(frame(DISCOVER), options=extra)
    assert (answer.siaddr, answer.sname, answer.file) == (bytes((10, 20, 1, 9)), b"10.20.1.9", b"pxelinux.0")
    assert (answer.options[66], answer.options[67]) == (b"10.20.1.9", b"pxelinux.0")
    refusal = ask(frame(REQUEST, option(50, OTHER)), options=extra)
    assert (refusal.siaddr, refusal.sname, refusal.file) == (ANY, b"", b"")


# ---- sizes


def long_options(*sizes: int) -> tuple[tuple[str, str], ...]:
    return tuple((str(224 + index), '"' + "x" * size + '"') for index, size in enumerate(sizes))


def datagram_size(data: bytes, **changes: object) -> int:
    return 28 + len(ask(data, **changes).payload)


def test_a_long_option_is_split_and_joins_again() -> None:
    answer = ask(frame(DISCOVER, option(57, (1500).to_bytes(2, "big"))), options=long_options(600))
    assert answer.options[224] == b"x" * 600
    assert answer.payload.count(b"\xe0\xff" + b"x" * 255) == 2


def test_a_client_that_names_no_size_gets_at_most_576_bytes_with_the_most_important_options() -> None:
    extra = long_options(150, 400, 20)
    for data in (frame(DISCOVER), frame(DISCOVER, option(57, b"\x00\x10")), frame(DISCOVER, option(57, b"\x10"))):
        answer = ask(data, options=extra)
        assert 28 + len(answer.payload) <= 576
        assert {1, 3, 6, 12, 15, 26, 28, 51, 54, 58, 59, 224, 226} <= set(answer.options)
        assert 225 not in answer.options


def test_a_full_answer_uses_the_size_to_the_last_byte() -> None:
    plain = frame(DISCOVER, option(55, b"\x01"))
    used = 240 + sum(2 + len(value) for value in ask(plain).options.values()) + 1
    room = 576 - 28 - used - (2 + 100) - 2
    assert datagram_size(plain, options=long_options(100, room)) == 576
    assert 225 not in ask(plain, options=long_options(100, room + 1)).options


def test_what_is_requested_first_wins_over_what_is_requested_later() -> None:
    extra = long_options(180, 181)
    assert 225 in ask(frame(DISCOVER, option(55, b"\xe1\xe0")), options=extra).options
    assert 225 not in ask(frame(DISCOVER, option(55, b"\xe0\xe1")), options=extra).options


def test_a_client_that_takes_more_gets_more_up_to_the_networks_mtu() -> None:
    extra = long_options(400, 400, 400)
    large = frame(DISCOVER, option(57, b"\xff\xff"))
    assert {224, 225} <= set(ask(large, options=extra).options)
    assert 226 not in ask(large, options=extra).options
    assert datagram_size(large, options=extra, mtu=1300) <= 1300
    assert datagram_size(large, options=long_options(250, 250, 250, 250, 250, 250), mtu=0) <= 1500


def test_a_client_id_longer_than_an_option_is_echoed_in_parts() -> None:
    client_id = bytes(range(256)) + b"tail"
    data = frame(
        DISCOVER, option(61, client_id[:200]), option(61, client_id[200:]), option(57, (1400).to_bytes(2, "big"))
    )
    assert ask(data).options[61] == client_id


def test_no_echo_is_so_long_that_the_lease_does_not_fit() -> None:
    data = frame(DISCOVER, option(61, b"i" * 255), option(61, b"i" * 25), option(82, b"r" * 250))
    answer = ask(data)
    assert {1, 3, 51, 54, 58, 59} <= set(answer.options)
    assert 28 + len(answer.payload) <= 576


# ---- the binding


@pytest.mark.parametrize(
    "changes",
    [
        {"mac": b"\0" * 5},
        {"address": b"\0" * 16},
        {"server": b""},
        {"server_mac": b"\0" * 4},
        {"router": b""},
        {"dns": (b"\0" * 16,)},
        {"prefix_length": 33},
        {"mtu": 65_536},
        {"lease_seconds": 0},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_binding_of_wrong_sizes_cannot_be_made(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        binding(**changes)


@pytest.mark.parametrize(
    ("length", "mask", "broadcast"),
    [
        (0, "00000000", "ffffffff"),
        (20, "fffff000", "0a140fff"),
        (30, "fffffffc", "0a140117"),
        (31, "fffffffe", None),
        (32, "ffffffff", None),
    ],
)
def test_mask_and_broadcast_address(length: int, mask: str, broadcast: str | None) -> None:
    options = ask(frame(DISCOVER), prefix_length=length).options
    assert options[1].hex() == mask
    assert options.get(28) == (None if broadcast is None else bytes.fromhex(broadcast))


def test_an_infinite_lease_is_never_renewed() -> None:
    options = ask(frame(DISCOVER), lease_seconds=0xFFFFFFFF).options
    assert {options[51], options[58], options[59]} == {b"\xff" * 4}


def test_a_minimal_binding_is_served() -> None:
    bare = Binding(MAC, ADDRESS, 24, STABLE, None, (), 0, "", "", (), SERVER_MAC)
    reply = respond(frame(DISCOVER), bare)
    assert reply is not None and reply.kind == "OFFER"
    options = ask(frame(DISCOVER), router=None, dns=(), mtu=0, host_name="", domain="").options
    assert set(options) == {1, 28, 51, 53, 54, 58, 59}
