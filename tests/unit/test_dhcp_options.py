"""A user's DHCP options: names, formats, merging with the defaults, and what is said about bad ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aca.dhcp import option_errors, respond
from tests.unit.dhcp_client import ADDRESS, DISCOVER, GATEWAY, Answer, ask, binding, frame, option, read

LARGE = option(57, (1400).to_bytes(2, "big"))
MANDATORY = {1, 3, 51, 54, 58, 59}


def given_options(*options: tuple[str, str], requested: bytes = b"") -> dict[int, bytes]:
    """What a client gets that asks for `requested` only."""
    offered = binding(options=options)
    assert option_errors(offered) == ()
    return read(respond(frame(DISCOVER, LARGE, option(55, requested)), offered)).options


def rejected(name: str, value: str) -> str:
    """The complaint about one bad option, which is left out and costs the client nothing else."""
    offered = binding(options=((name, value), ("ntp-server", "10.0.0.9")))
    plain = ask(frame(DISCOVER, LARGE)).options
    assert read(respond(frame(DISCOVER, LARGE), offered)).options == plain | {42: bytes((10, 0, 0, 9))}
    (error,) = option_errors(offered)
    return error


@pytest.mark.parametrize(
    ("name", "value", "code", "packed"),
    [
        # the same option by the names of common servers
        ("tftp-server", "boot.example.com", 66, b"boot.example.com"),
        ("tftp-server-name", "boot", 66, b"boot"),
        ("bootfile-name", "grub/x64.efi", 67, b"grub/x64.efi"),
        ("Bootfile_Name", "a", 67, b"a"),
        ("67", "a", 67, b"a"),
        ("opt:67", "a", 67, b"a"),
        ("option:bootfile-name", "a", 67, b"a"),
        ("option-67", "a", 67, b"a"),
        ("dhcp-option-67", "a", 67, b"a"),
        ("domain-name", "corp.example", 15, b"corp.example"),
        ("Domain Name", "corp.example.", 15, b"corp.example"),
        ("hostname", "web-1", 12, b"web-1"),
        # formats
        ("mtu", "1400", 26, b"\x05\x78"),
        ("interface-mtu", "0x578", 26, b"\x05\x78"),
        ("dns-server", "10.0.0.1, 10.0.0.2", 6, b"\x0a\0\0\x01\x0a\0\0\x02"),
        ("dns_server", "{10.0.0.1 10.0.0.2}", 6, b"\x0a\0\0\x01\x0a\0\0\x02"),
        ("router", "10.20.1.2", 3, b"\x0a\x14\x01\x02"),
        ("ntp-servers", "10.0.0.1;10.0.0.2", 42, b"\x0a\0\0\x01\x0a\0\0\x02"),
        ("opt:150", "10.0.0.1", 150, b"\x0a\0\0\x01"),
        ("netmask", "255.255.0.0", 1, b"\xff\xff\0\0"),
        ("subnet-mask", "16", 1, b"\xff\xff\0\0"),
        ("broadcast", "10.20.255.255", 28, b"\x0a\x14\xff\xff"),
        ("time-offset", "-3600", 2, b"\xff\xff\xf1\xf0"),
        ("ip-forward-enable", "true", 19, b"\x01"),
        ("router-discovery", "off", 31, b"\x00"),
        ("default-ttl", "64", 23, b"\x40"),
        ("arp-timeout", "60", 35, b"\0\0\0\x3c"),
        ("boot-file-size", "512", 13, b"\x02\x00"),
        ("static-route", "10.0.0.5,10.20.1.3", 33, b"\x0a\0\0\x05\x0a\x14\x01\x03"),
        ("netbios-nodetype", "8", 46, b"\x08"),
        ("vendor-encap", "01:04:0a:00:00:01", 43, b"\x01\x04\x0a\0\0\x01"),
        ("vendor-encap", "0x0104", 43, b"\x01\x04"),
        ("vendor-class", "PXEClient", 60, b"PXEClient"),
        ("domain-search", "a.example, bc.example.", 119, b"\x01a\x07example\0\x02bc\x07example\0"),
        ("sip-server", "10.0.0.1", 120, b"\x01\x0a\0\0\x01"),
        ("sip-server", "sip.example", 120, b"\x00\x03sip\x07example\0"),
        ("wpad", '"http://x/wpad.dat"', 252, b"http://x/wpad.dat"),
        ("captive-portal", "https://x/\u00e9", 114, "https://x/\u00e9".encode()),
        # options of no known format
        ("224", "10.0.0.1 10.0.0.2", 224, b"\x0a\0\0\x01\x0a\0\0\x02"),
        ("224", "7", 224, b"\x07"),
        ("224", "700", 224, b"\x02\xbc"),
        ("224", "70000", 224, b"\0\x01\x11\x70"),
        ("224", "0x00ff10", 224, b"\x00\xff\x10"),
        ("224", "de:ad:1", 224, b"\xde\xad\x01"),
        ("224", '"7"', 224, b"7"),
        ("224", "some text", 224, b"some text"),
    ],
)
def test_an_option_by_name_or_number(name: str, value: str, code: int, packed: bytes) -> None:
    assert given_options((name, value))[code] == packed


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("mtu", "abc", "not a number 68..65535"),
        ("mtu", "67", "not a number 68..65535"),
        ("mtu", "\u0661\u0664\u0660\u0660", "not a number"),
        ("default-ttl", "256", "not a number 1..255"),
        ("default-ttl", "0", "not a number 1..255"),
        ("boot-file-size", "65536", "not a number 0..65535"),
        ("arp-timeout", "1_000", "not a number"),
        ("dns-server", "10.0.0", "not an IPv4 address"),
        ("dns-server", "2001:db8::1", "not an IPv4 address"),
        ("dns-server", "10.0.0.1,ns.example", "'ns.example' is not an IPv4 address"),
        ("dns-server", ",", "list is empty"),
        ("router", "010.0.0.1", "not an IPv4 address"),
        ("broadcast", "10.0.0.1,10.0.0.2", "not an IPv4 address"),
        ("netmask", "255.0.255.0", "not a subnet mask"),
        ("netmask", "33", "not a number 0..32"),
        ("static-route", "10.0.0.1", "even number"),
        ("classless-static-route", "10.0.0.0/8", "pairs"),
        ("classless-static-route", "10.0.0.0/33,10.20.1.1", "not a number 0..32"),
        ("classless-static-route", "10.0.0.0/8,gw", "not an IPv4 address"),
        ("domain-name", "a..b", "not a domain name"),
        ("domain-name", "caf\u00e9.example", "not a domain name"),
        ("domain-search", "a" * 64 + ".example", "not a domain name"),
        ("domain-search", ".".join(["a" * 49] * 6), "not a domain name"),
        ("domain-search", ".", "not a domain name"),
        ("ip-forwarding", "maybe", "neither true nor false"),
        ("lease-time", "0", "not a time"),
        ("lease-time", "tomorrow", "not a time"),
        ("vendor-encap", "0x123", "hexadecimal"),
        ("root-path", "a\0b", "zero byte"),
        ("root-path", "\ud800", "surrogates"),
        ("bootfile-name", "a\nb", "printed"),
        ("224", "x" * 2049, "2049 bytes"),
        ("ntp-server", "", "empty"),
        ("root-path", '""', "empty"),
        ("server-name", "x" * 64, "longer than 63"),
        ("filename", "x" * 128, "longer than 127"),
        ("no-such-option", "1", "no option of that name"),
        ("", "1", "no option of that name"),
        ("256", "1", "no option of that number"),
        ("9999999999", "1", "no option of that number"),
        *((str(code), "1", "belongs to the protocol") for code in (0, 50, 52, 53, 54, 55, 57, 61, 82, 255)),
        ("server-identifier", "10.0.0.1", "belongs to the protocol"),
    ],
)
def test_a_bad_option_is_left_out_and_explained(name: str, value: str, reason: str) -> None:
    error = rejected(name, value)
    assert error.startswith(f"{name}: ")
    assert reason in error
    assert len(error) < 200


def test_users_options_are_merged_over_the_mandatory_set() -> None:
    options = given_options(("tftp-server", "10.0.0.9"), ("dns-server", "10.0.0.53"), requested=b"\x06\x0f")
    assert set(options) >= MANDATORY
    assert options[6] == bytes((10, 0, 0, 53))
    assert options[15] == b"example.com"


def test_lists_given_twice_are_joined_and_other_options_count_once() -> None:
    assert given_options(("dns-server", "10.0.0.1"), ("6", "10.0.0.2"))[6] == b"\x0a\0\0\x01\x0a\0\0\x02"
    offered = binding(options=(("mtu", "1400"), ("26", "1300")))
    assert read(respond(frame(DISCOVER), offered)).options[26] == (1400).to_bytes(2, "big")
    (error,) = option_errors(offered)
    assert "more than once" in error


def test_a_router_can_be_taken_away_with_an_empty_value() -> None:
    options = given_options(("router", ""))
    assert 3 not in options
    assert set(options) >= MANDATORY - {3}


def test_another_mask_moves_the_broadcast_address() -> None:
    assert given_options(("netmask", "255.255.0.0"))[28] == bytes((10, 20, 255, 255))


# ---- times


@pytest.mark.parametrize(
    ("value", "lease"), [("3600", 3600), ("2h", 7200), ("1D", 86_400), ("1w", 604_800), ("infinite", 0xFFFFFFFF)]
)
def test_the_users_lease_time_moves_renewal_and_rebinding(value: str, lease: int) -> None:
    options = given_options(("lease-time", value))
    times = [int.from_bytes(options[code], "big") for code in (58, 59, 51)]
    assert times == ([lease] * 3 if lease == 0xFFFFFFFF else [lease // 2, lease * 7 // 8, lease])


def test_the_users_renewal_times_are_taken_if_they_are_in_order() -> None:
    options = given_options(("T1", "100"), ("T2", "200"))
    assert [int.from_bytes(options[code], "big") for code in (58, 59)] == [100, 200]
    offered = binding(options=(("T1", "300"), ("T2", "200")))
    options = read(respond(frame(DISCOVER), offered)).options
    assert [int.from_bytes(options[code], "big") for code in (58, 59)] == [43_200, 75_600]
    (error,) = option_errors(offered)
    assert "not in order" in error


# ---- routes


def test_classless_routes_get_the_default_route_since_clients_then_ignore_the_router() -> None:
    options = given_options(("classless-static-route", "10.0.0.0/8,10.20.1.5, 192.0.2.77/25 via 10.20.1.6"))
    expected = b"\x08\x0a\x0a\x14\x01\x05" + b"\x19\xc0\x00\x02\x00\x0a\x14\x01\x06" + b"\x00\x0a\x14\x01\x01"
    assert options[121] == expected
    assert options[3] == GATEWAY


@pytest.mark.parametrize("default", ["0.0.0.0/0", "default", "10.0.0.0/0"])
def test_the_users_own_default_route_is_the_only_one(default: str) -> None:
    options = given_options(("121", f"{default},10.20.1.5;10.9.8.7,10.20.1.6"))
    assert options[121] == b"\x00\x0a\x14\x01\x05" + b"\x20\x0a\x09\x08\x07\x0a\x14\x01\x06"


def test_the_users_default_route_is_found_behind_others() -> None:
    options = given_options(("121", "192.0.2.128/25,10.20.1.5 0.0.0.0/0,10.20.1.6"))
    assert options[121] == b"\x19\xc0\x00\x02\x80\x0a\x14\x01\x05" + b"\x00\x0a\x14\x01\x06"


def test_no_default_route_is_made_up_without_a_router() -> None:
    routes = ("classless-static-route", "10.0.0.0/8,10.20.1.5")
    assert ask(frame(DISCOVER), router=None, options=(routes,)).options[121] == b"\x08\x0a\x0a\x14\x01\x05"
    assert given_options(routes, ("router", ""))[121] == b"\x08\x0a\x0a\x14\x01\x05"


def test_either_number_of_classless_routes_serves_clients_that_ask_for_the_other() -> None:
    routes = b"\x08\x0a\x0a\x14\x01\x05\x00\x0a\x14\x01\x01"
    for name, twin in (("121", 249), ("249", 121)):
        options = given_options((name, "10.0.0.0/8,10.20.1.5"), requested=bytes((twin,)))
        assert options[121] == options[249] == routes
        assert twin not in given_options((name, "10.0.0.0/8,10.20.1.5"), requested=b"\x01")


def test_classless_routes_longer_than_an_option_come_whole() -> None:
    routes = ",".join(f"10.{index}.0.0/16,10.20.1.5" for index in range(60))
    packed = b"".join(bytes((16, 10, index, 10, 20, 1, 5)) for index in range(60)) + b"\x00\x0a\x14\x01\x01"
    assert given_options(("classless-static-route", routes))[121] == packed


# ---- boot fields


def boot(*options: tuple[str, str]) -> Answer:
    return ask(frame(DISCOVER), options=options)


def test_the_next_server_is_named_or_follows_from_the_tftp_server() -> None:
    address = bytes((10, 0, 0, 9))
    assert boot(("server-ip-address", "10.0.0.9"), ("tftp-server", "10.0.0.8")).siaddr == address
    assert boot(("next-server", "10.0.0.9")).siaddr == address
    assert boot(("tftp-server", "10.0.0.9"), ("150", "10.0.0.7")).siaddr == address
    assert boot(("tftp-server", "boot.example"), ("150", "10.0.0.9,10.0.0.7")).siaddr == address
    assert boot(("tftp-server", "boot.example")).siaddr == bytes(4)


def test_field_names_fill_fields_only() -> None:
    answer = boot(("server-name", "boot"), ("filename", "a.efi"))
    assert (answer.sname, answer.file) == (b"boot", b"a.efi")
    assert not {66, 67} & set(answer.options)


def test_a_boot_file_too_long_for_its_field_is_still_an_option() -> None:
    answer = boot(("bootfile-name", "x" * 128))
    assert (answer.file, answer.options[67]) == (b"", b"x" * 128)
    assert boot(("bootfile-name", "x" * 127)).file == b"x" * 127


# ---- the binding's own texts


def test_bad_texts_of_the_binding_are_left_out_and_explained() -> None:
    offered = binding(host_name="not a name", domain="a..b", mtu=60)
    options = read(respond(frame(DISCOVER), offered)).options
    assert not {12, 15, 26} & set(options)
    errors = option_errors(offered)
    assert [error.partition(":")[0] for error in errors] == ["mtu", "domain", "host_name"]


def test_a_sound_binding_has_no_errors() -> None:
    assert option_errors(binding()) == ()
    assert option_errors(binding(host_name="", domain="", mtu=0, router=None, dns=())) == ()


# ---- any texts

NAMES = st.sampled_from(
    ["mtu", "router", "121", "119", "domain-name", "lease-time", "t1", "43", "224", "netmask", "sip-server", "67"]
)
VALUES = st.text(max_size=80) | st.from_regex(r"[0-9x.:/, a-f\"-]{0,40}", fullmatch=True)


@given(
    st.lists(st.tuples(NAMES | st.text(max_size=20), VALUES), max_size=5), st.text(max_size=70), st.text(max_size=300)
)
def test_any_texts_give_a_sound_answer(options: list[tuple[str, str]], host_name: str, domain: str) -> None:
    offered = binding(options=tuple(options), host_name=host_name, domain=domain)
    errors = option_errors(offered)
    assert len(errors) <= len(options) + 3
    assert all(error.isprintable() for error in errors)
    answer = read(respond(frame(DISCOVER, option(61, b"\x01id")), offered))
    assert answer.yiaddr == ADDRESS
    assert {1, 51, 53, 54, 58, 59, 61} <= set(answer.options)
    lease, renewal, rebinding = (int.from_bytes(answer.options[code], "big") for code in (51, 58, 59))
    assert renewal <= rebinding <= lease
