"""A bad field refuses its resource with a sentence that names resource, field and value; the rest proceeds."""

from __future__ import annotations

import pytest

from aca.goalstate.changes import RouterPatch
from dataplane.model import DhcpBinding, Gateway, Kind, NetworkType, Port, SecurityGroup, Subnet, Vpc
from tests.unit.goal_states import decode_v1_text, decode_v2_text, only

LONG = "n" * 300
MAC = "aa:bb:cc:00:00:01"
GOOD_VPC = 'id: "v" '
GOOD_SUBNET = 'id: "s" vpc_id: "v" cidr: "10.0.0.0/24" '
GOOD_PORT = f'id: "p" vpc_id: "v" mac_address: "{MAC}" fixed_ips {{ subnet_id: "s" ip_address: "10.0.0.5" }} '
GOOD_NEIGHBOR = (
    f'id: "n" vpc_id: "v" mac_address: "{MAC}" host_ip_address: "192.0.2.1" '
    'fixed_ips { subnet_id: "s" ip_address: "10.0.0.5" } '
)
GOOD_DHCP = f'subnet_id: "s" mac_address: "{MAC}" ipv4_address: "10.0.0.5" '
GOOD_ROUTER = 'id: "r" '
GOOD_GROUP = 'id: "g" '
GOOD_GATEWAY = 'id: "w" '
GOOD = {
    "vpc": GOOD_VPC,
    "subnet": GOOD_SUBNET,
    "port": GOOD_PORT,
    "neighbor": GOOD_NEIGHBOR,
    "dhcp": GOOD_DHCP,
    "router": GOOD_ROUTER,
    "security_group": GOOD_GROUP,
    "gateway": GOOD_GATEWAY,
}


def state(name: str, configuration: str, operation: str = "CREATE") -> str:
    return f"{name}_states {{ operation_type: {operation} configuration {{ {configuration} }} }}\n"


def rule(text: str) -> str:
    return f'{GOOD_ROUTER} subnet_routing_tables {{ subnet_id: "s" routing_rules {{ id: "q" {text} }} }}'


def group_rule(text: str) -> str:
    return f'{GOOD_GROUP} security_group_rules {{ id: "q" {text} }}'


def port_with(text: str) -> str:
    return f'id: "p" vpc_id: "v" mac_address: "{MAC}" {text}'


def neighbor_with(text: str) -> str:
    return f'id: "n" vpc_id: "v" {text}'


FIXED_S = 'fixed_ips { subnet_id: "s" ip_address: "10.0.0.5" }'
ARION = 'gateway_type: ARION arion_info { subnet_id: "s" '

BAD = [
    ("vpc", "", "VPC '': id is empty"),
    ("vpc", f'id: "{LONG}"', f"VPC '{'n' * 77}...': id '{'n' * 77}...' has 300 bytes, more than 255"),
    ("vpc", 'id: "a\\nb"', "VPC 'a\\nb': id 'a\\nb' has characters that cannot be printed"),
    ("vpc", GOOD_VPC + "tunnel_id: 16777216", "VPC v: tunnel_id 16777216 is above 16777215"),
    ("vpc", GOOD_VPC + 'cidr: "10.0.0.0/33"', "VPC v: cidr '10.0.0.0/33' is not an IP address or prefix"),
    ("vpc", GOOD_VPC + 'gateway_ids: ["a", ""]', "VPC v: gateway_ids[1] is empty"),
    ("vpc", GOOD_VPC + "update_type: 7", "VPC v: update_type 7 is unknown"),
    ("subnet", 'id: "s" cidr: "10.0.0.0/24"', "SUBNET s: vpc_id is empty"),
    ("subnet", 'id: "s" vpc_id: "v"', "SUBNET s: cidr is empty"),
    ("subnet", 'id: "s" vpc_id: "v" cidr: "10.0.0/24"', "SUBNET s: cidr '10.0.0/24' is not an IP address or prefix"),
    ("subnet", GOOD_SUBNET + "network_type: 9", "SUBNET s: network_type 9 is unknown"),
    ("subnet", GOOD_SUBNET + "tunnel_id: 16777216", "SUBNET s: tunnel_id 16777216 is above 16777215"),
    ("subnet", GOOD_SUBNET + "tunnel_id: 18446744073709551615", "tunnel_id 18446744073709551615 is above 16777215"),
    ("subnet", GOOD_SUBNET + "network_type: VLAN tunnel_id: 4095", "SUBNET s: tunnel_id 4095 is above 4094"),
    ("subnet", GOOD_SUBNET + 'gateway { ip_address: "10.0.0.1" }', "SUBNET s: gateway.mac_address is empty"),
    ("subnet", GOOD_SUBNET + f'gateway {{ mac_address: "{MAC}" }}', "SUBNET s: gateway.ip_address is empty"),
    (
        "subnet",
        GOOD_SUBNET + f'gateway {{ ip_address: "fd00::1" mac_address: "{MAC}" }}',
        "SUBNET s: gateway.ip_address 'fd00::1' is of another family than cidr 10.0.0.0/24",
    ),
    (
        "subnet",
        GOOD_SUBNET + 'dns_entry_list { entry: "1.1.1.1" } dns_entry_list { entry: "ns1" }',
        "SUBNET s: dns_entry_list[1].entry 'ns1' is not an IP address",
    ),
    ("port", 'vpc_id: "v"', "PORT '': id is empty"),
    ("port", f'id: "p" mac_address: "{MAC}" {FIXED_S}', "PORT p: vpc_id is empty"),
    ("port", 'id: "p" vpc_id: "v" mac_address: "zz:.."', "PORT p: mac_address 'zz:..' is not a MAC address"),
    ("port", f'id: "p" vpc_id: "v" {FIXED_S}', "PORT p: mac_address is empty"),
    (
        "port",
        f'id: "p" vpc_id: "v" mac_address: "01:00:5e:00:00:01" {FIXED_S}',
        "PORT p: mac_address '01:00:5e:00:00:01' is not the MAC address of a single interface",
    ),
    ("port", port_with(""), "PORT p: fixed_ips is empty"),
    ("port", port_with('fixed_ips { ip_address: "10.0.0.5" }'), "PORT p: fixed_ips[0].subnet_id is empty"),
    (
        "port",
        port_with(FIXED_S + 'fixed_ips { subnet_id: "s" ip_address: "10.0.0.256" }'),
        "PORT p: fixed_ips[1].ip_address '10.0.0.256' is not an IP address",
    ),
    (
        "port",
        port_with('fixed_ips { subnet_id: "s" ip_address: "224.0.0.1" }'),
        "PORT p: fixed_ips[0].ip_address '224.0.0.1' is not the address of a single host",
    ),
    (
        "port",
        GOOD_PORT + f'allow_address_pairs {{ mac_address: "{MAC}" }}',
        "PORT p: allow_address_pairs[0].ip_address is empty",
    ),
    (
        "port",
        GOOD_PORT + 'allow_address_pairs { ip_address: "10.0.0.0/8" mac_address: "x" }',
        "PORT p: allow_address_pairs[0].mac_address 'x' is not a MAC address",
    ),
    ("port", GOOD_PORT + "security_group_ids {}", "PORT p: security_group_ids[0].id is empty"),
    ("neighbor", neighbor_with(f'host_ip_address: "192.0.2.1" {FIXED_S}'), "NEIGHBOR n: mac_address is empty"),
    (
        "neighbor",
        neighbor_with(f'mac_address: "aa:bb:cc:00:00: 1" host_ip_address: "192.0.2.1" {FIXED_S}'),
        "NEIGHBOR n: mac_address 'aa:bb:cc:00:00: 1' is not a MAC address",
    ),
    (
        "neighbor",
        neighbor_with(f'mac_address: "a:abb:cc:00:00:01" host_ip_address: "192.0.2.1" {FIXED_S}'),
        "NEIGHBOR n: mac_address 'a:abb:cc:00:00:01' is not a MAC address",
    ),
    (
        "neighbor",
        neighbor_with(f'mac_address: "00:00:00:00:00:00" host_ip_address: "192.0.2.1" {FIXED_S}'),
        "NEIGHBOR n: mac_address '00:00:00:00:00:00' is not the MAC address of a single interface",
    ),
    ("neighbor", neighbor_with(f'mac_address: "{MAC}" {FIXED_S}'), "NEIGHBOR n: host_ip_address is empty"),
    (
        "neighbor",
        neighbor_with(f'mac_address: "{MAC}" host_ip_address: "h1" {FIXED_S}'),
        "NEIGHBOR n: host_ip_address 'h1' is not an IP address",
    ),
    (
        "neighbor",
        neighbor_with(f'mac_address: "{MAC}" host_ip_address: "0.0.0.0" {FIXED_S}'),
        "NEIGHBOR n: host_ip_address '0.0.0.0' is not the address of a single host",
    ),
    (
        "neighbor",
        neighbor_with(f'mac_address: "{MAC}" host_ip_address: "192.0.2.1"'),
        "NEIGHBOR n: fixed_ips is empty",
    ),
    (
        "neighbor",
        neighbor_with(f'mac_address: "{MAC}" host_ip_address: "192.0.2.1" fixed_ips {{ ip_address: "10.0.0.5" }}'),
        "NEIGHBOR n: fixed_ips[0].subnet_id is empty",
    ),
    (
        "neighbor",
        GOOD_NEIGHBOR + 'fixed_ips { neighbor_type: 2 subnet_id: "s" ip_address: "10.0.0.6" }',
        "NEIGHBOR n: fixed_ips[1].neighbor_type 2 is unknown",
    ),
    (
        "neighbor",
        neighbor_with(
            f'mac_address: "{MAC}" host_ip_address: "192.0.2.1" '
            'fixed_ips { subnet_id: "s" neighbor_type: -1 ip_address: "10.0.0.5" }'
        ),
        "NEIGHBOR n: fixed_ips[0].neighbor_type -1 is unknown",
    ),
    ("neighbor", GOOD_NEIGHBOR + "update_type: 2", "NEIGHBOR n: update_type 2 is unknown"),
    (
        "neighbor",
        GOOD_NEIGHBOR + 'allow_address_pairs { ip_address: "10.0.0.0/x" }',
        "NEIGHBOR n: allow_address_pairs[0].ip_address '10.0.0.0/x' is not an IP address or prefix",
    ),
    ("dhcp", f'mac_address: "{MAC}" ipv4_address: "10.0.0.5"', "DHCP '': subnet_id is empty"),
    ("dhcp", 'id: "d" subnet_id: "s" ipv4_address: "10.0.0.5"', "DHCP d: mac_address is empty"),
    ("dhcp", f'id: "d" subnet_id: "s" mac_address: "{MAC}"', "DHCP d: ipv4_address and ipv6_address are empty"),
    (
        "dhcp",
        f'id: "d" subnet_id: "s" mac_address: "{MAC}" ipv6_address: "10.0.0.5"',
        "DHCP d: ipv6_address '10.0.0.5' is not an IPv6 address",
    ),
    (
        "dhcp",
        f'id: "d" subnet_id: "s" mac_address: "{MAC}" ipv4_address: "fd00::1" ipv6_address: "fd00::2"',
        "DHCP d: ipv4_address 'fd00::1' is another IPv6 address than ipv6_address",
    ),
    ("router", GOOD_ROUTER + 'host_dvr_mac_address: "?"', "ROUTER r: host_dvr_mac_address '?' is not a MAC address"),
    ("router", GOOD_ROUTER + "subnet_routing_tables {}", "ROUTER r: subnet_routing_tables[0].subnet_id is empty"),
    ("router", rule(""), "ROUTER r: rule 'q' of subnet s: destination is empty"),
    (
        "router",
        rule('destination: "10.0.0.0/99"'),
        "ROUTER r: rule 'q' of subnet s: destination '10.0.0.0/99' is not an IP address or prefix",
    ),
    (
        "router",
        rule('destination: "10.0.0.0/8" next_hop_ip: "gw"'),
        "ROUTER r: rule 'q' of subnet s: next_hop_ip 'gw' is not an IP address",
    ),
    (
        "router",
        rule('destination: "fd00::/8" next_hop_ip: "10.0.0.1"'),
        "ROUTER r: rule 'q' of subnet s: next_hop_ip '10.0.0.1' is of another family than destination fd00::/8",
    ),
    (
        "router",
        rule('operation_type: GET destination: "10.0.0.0/8"'),
        "ROUTER r: rule 'q' of subnet s: operation GET is not supported by agents",
    ),
    (
        "router",
        rule('destination: "10.0.0.0/8" routing_rule_extra_info { destination_type: 5 }'),
        "ROUTER r: rule 'q' of subnet s: destination_type 5 is unknown",
    ),
    (
        "router",
        GOOD_ROUTER + 'subnet_routing_tables { subnet_id: "s" routing_rules { operation_type: DELETE } }',
        "ROUTER r: rule 0 of subnet s: destination is empty",
    ),
    ("security_group", group_rule("protocol: HTTP"), "SECURITYGROUP g: rule 'q': protocol HTTP is not supported"),
    ("security_group", group_rule("protocol: ARP"), "SECURITYGROUP g: rule 'q': protocol ARP is not supported"),
    ("security_group", group_rule("protocol: 77"), "SECURITYGROUP g: rule 'q': protocol 77 is not supported"),
    ("security_group", group_rule("direction: 2"), "SECURITYGROUP g: rule 'q': direction 2 is unknown"),
    ("security_group", group_rule("ethertype: 2"), "SECURITYGROUP g: rule 'q': ethertype 2 is unknown"),
    (
        "security_group",
        group_rule("port_range_min: 1 port_range_max: 65536"),
        "SECURITYGROUP g: rule 'q': port_range_max 65536 is above 65535",
    ),
    (
        "security_group",
        group_rule("protocol: UDP port_range_min: 90 port_range_max: 80"),
        "SECURITYGROUP g: rule 'q': port_range_min 90 is above 80",
    ),
    (
        "security_group",
        group_rule("protocol: ICMP port_range_min: 256"),
        "SECURITYGROUP g: rule 'q': port_range_min 256 is above 255",
    ),
    (
        "security_group",
        group_rule('ethertype: IPV6 remote_ip_prefix: "10.0.0.0/8"'),
        "SECURITYGROUP g: rule 'q': remote_ip_prefix '10.0.0.0/8' is not of ethertype IPV6",
    ),
    (
        "security_group",
        group_rule("operation_type: 12"),
        "SECURITYGROUP g: rule 'q': operation 12 is not supported by agents",
    ),
    ("gateway", GOOD_GATEWAY + "gateway_type: 6", "GATEWAY w: gateway_type 6 is unknown"),
    ("gateway", GOOD_GATEWAY + "gateway_type: ARION", "GATEWAY w: arion_info.subnet_id is empty"),
    ("gateway", GOOD_GATEWAY + ARION + "vni: 16777216 }", "GATEWAY w: arion_info.vni 16777216 is above 16777215"),
    (
        "gateway",
        GOOD_GATEWAY + ARION + "port_inband_operation: 65536 }",
        "GATEWAY w: arion_info.port_inband_operation 65536 is above 65535",
    ),
    (
        "gateway",
        GOOD_GATEWAY + f'destinations {{ mac_address: "{MAC}" }}',
        "GATEWAY w: destinations[0].ip_address is empty",
    ),
    (
        "gateway",
        GOOD_GATEWAY + 'destinations { ip_address: "192.0.2.1" }',
        "GATEWAY w: destinations[0].mac_address is empty",
    ),
]


@pytest.mark.parametrize(("name", "configuration", "error"), BAD, ids=[error[:60] for _, _, error in BAD])
def test_bad_field_is_named(name: str, configuration: str, error: str) -> None:
    change = only(decode_v1_text(state(name, configuration)))
    assert change.value is None
    assert change.error == error or (error[0].islower() and change.error.endswith(f": {error}"))


@pytest.mark.parametrize("name", GOOD)
def test_the_rest_of_a_message_proceeds(name: str) -> None:
    bad = next(configuration for kind, configuration, _ in BAD if kind == name)
    text = "".join(state(kind, configuration) for kind, configuration in GOOD.items())
    changes = decode_v1_text(state(name, bad) + text)
    assert len(changes) == len(GOOD) + 1
    assert {change.kind for change in changes if not change.error} == set(Kind)
    assert len([change for change in changes if change.error]) == 1


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize(("operation", "shown"), [("GET", "GET"), ("9", "9"), ("-3", "-3")])
def test_operations_that_agents_do_not_have(name: str, operation: str, shown: str) -> None:
    change = only(decode_v1_text(state(name, GOOD[name], operation)))
    assert change.error.endswith(f": operation {shown} is not supported by agents")
    assert (change.delete, change.value) == (False, None)


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("operation", ["INFO", "CREATE", "UPDATE"])
def test_upserts(name: str, operation: str) -> None:
    configuration = GOOD[name] + ('device_id: "i"' if name == "port" else "") + "revision_number: 8"
    change = only(decode_v1_text(state(name, configuration, operation)))
    assert (change.error, change.delete, change.revision) == ("", False, 8)
    assert change.value is not None
    assert change.value.id == change.id
    assert change.value.revision == 8


@pytest.mark.parametrize(
    ("name", "configuration", "key"),
    [
        ("vpc", 'id: "x" cidr: "?" tunnel_id: 99999999 update_type: 9', "x"),
        ("subnet", 'id: "x" cidr: "?" network_type: 12', "x"),
        ("port", 'id: "x" mac_address: "?" fixed_ips { ip_address: "?" }', "x"),
        ("neighbor", 'id: "x" mac_address: "?" host_ip_address: "?" update_type: 4', "x"),
        ("router", 'id: "x" host_dvr_mac_address: "?" subnet_routing_tables {}', "x"),
        ("security_group", 'id: "x" security_group_rules { protocol: ARP }', "x"),
        ("gateway", 'id: "x" gateway_type: 99 destinations {}', "x"),
        ("gateway", 'id: "x" gateway_type: ARION arion_info { subnet_id: "s" vni: 99999999 }', "arion/s"),
        ("dhcp", f'id: "x" subnet_id: "s" mac_address: "{MAC}" ipv4_address: "?"', f"s/{MAC}"),
    ],
)
def test_delete_needs_no_more_than_the_identity(name: str, configuration: str, key: str) -> None:
    change = only(decode_v1_text(state(name, configuration + " revision_number: 3", "DELETE")))
    assert (change.delete, change.error, change.id, change.resource_id, change.revision) == (True, "", key, "x", 3)


@pytest.mark.parametrize("name", [name for name in GOOD if name != "dhcp"])
def test_delete_without_id_is_refused(name: str) -> None:
    change = only(decode_v1_text(state(name, "revision_number: 3", "DELETE")))
    assert change.error == f"{change.kind.name} '': id is empty"


@pytest.mark.parametrize(
    ("device", "delete"),
    [
        ("", True),
        ('device_id: "i"', False),
        ('device_owner: "compute:nova"', False),
        ('device_id: "i" device_owner: "compute:nova"', False),
    ],
)
def test_port_update_without_device_is_a_delete_in_both_versions(device: str, delete: bool) -> None:
    body = f"operation_type: UPDATE configuration {{ {GOOD_PORT} {device} }}"
    old = only(decode_v1_text(f"port_states {{ {body} }}"))
    new = only(decode_v2_text(f'port_states {{ key: "p" value {{ {body} }} }}'))
    assert old == new
    assert (old.delete, old.error) == (delete, "")


def test_long_names_are_cut_and_long_ids_fit_up_to_255_bytes() -> None:
    vpc = only(decode_v1_text(state("vpc", f'id: "{"i" * 255}" name: "{LONG}"')))
    assert isinstance(vpc.value, Vpc)
    assert (vpc.value.id, vpc.value.name) == ("i" * 255, "n" * 255)
    port = only(decode_v1_text(state("port", f'{GOOD_PORT} name: "{LONG}"')))
    assert isinstance(port.value, Port)
    assert port.value.name == "n" * 255
    neighbor = only(decode_v1_text(state("neighbor", GOOD_NEIGHBOR.replace('"n"', f'"{"ü" * 128}"'))))
    assert neighbor.error.endswith("has 256 bytes, more than 255")


def test_network_type_zero_is_the_default_and_others_stay() -> None:
    def network_type(text: str) -> NetworkType | None:
        value = only(decode_v1_text(state("subnet", GOOD_SUBNET + text))).value
        assert isinstance(value, Subnet)
        return value.network_type

    assert network_type("") is None
    assert network_type("network_type: VXLAN") is None
    assert network_type("network_type: GENEVE") is NetworkType.GENEVE
    assert network_type("network_type: VLAN tunnel_id: 4094") is NetworkType.VLAN
    assert network_type("network_type: VXLAN_GPE tunnel_id: 16777215") is NetworkType.VXLAN_GPE


def test_subnet_host_bits_are_cleared_and_options_kept() -> None:
    text = 'id: "s" vpc_id: "v" cidr: "10.0.0.77/24" extra_dhcp_options { name: "26" value: "1400" }'
    value = only(decode_v1_text(state("subnet", text))).value
    assert isinstance(value, Subnet)
    assert str(value.cidr) == "10.0.0.0/24"
    assert value.dhcp_options == (("26", "1400"),)
    assert (value.gateway_address, value.gateway_mac) == (None, None)


def test_allowed_pairs() -> None:
    pairs = (
        'allow_address_pairs { ip_address: "10.0.0.9" mac_address: "AA-BB-CC-00-00-01" }'
        'allow_address_pairs { ip_address: "10.0.9.9/16" }'
        'allow_address_pairs { ip_address: "10.0.0.8" mac_address: "aabb.cc00.0002" }'
    )
    for name in ("port", "neighbor"):
        value = only(decode_v1_text(state(name, GOOD[name] + pairs))).value
        assert value is not None
        assert [(str(pair.prefix), pair.mac) for pair in value.allowed_pairs] == [  # type: ignore[union-attr]
            ("10.0.0.9/32", None),
            ("10.0.0.0/16", None),
            ("10.0.0.8/32", bytes.fromhex("aabbcc000002")),
        ]


def test_ipv6_in_the_ipv4_field_of_dhcp() -> None:
    value = only(decode_v1_text(state("dhcp", GOOD_DHCP.replace("10.0.0.5", "fd00::5")))).value
    assert isinstance(value, DhcpBinding)
    assert (value.ipv4, value.ipv6) == (None, b"\xfd" + bytes(14) + b"\x05")


def test_port_that_is_down_is_fine() -> None:
    value = only(decode_v1_text(state("port", GOOD_PORT + "admin_state_up: false"))).value
    assert isinstance(value, Port)
    assert not value.admin_state_up


def test_icmp_rule_has_type_and_code_and_its_own_number_in_ipv6() -> None:
    def numbers(text: str) -> tuple[int | None, int, int]:
        value = only(decode_v1_text(state("security_group", group_rule(text)))).value
        assert isinstance(value, SecurityGroup)
        (one,) = value.rules
        return one.protocol, one.port_min, one.port_max

    assert numbers("protocol: ICMP port_range_min: 8") == (1, 8, 0)
    assert numbers("protocol: ICMP ethertype: IPV6 port_range_min: 128") == (58, 128, 0)


def test_withdrawn_group_rules_are_left_out() -> None:
    value = only(decode_v1_text(state("security_group", group_rule("operation_type: DELETE protocol: ARP")))).value
    assert isinstance(value, SecurityGroup)
    assert value.rules == ()


def router(*rules: str) -> RouterPatch:
    tables = "".join(f'subnet_routing_tables {{ subnet_id: "s" routing_rules {{ {text} }} }}' for text in rules)
    value = only(decode_v1_text(state("router", GOOD_ROUTER + tables))).value
    assert isinstance(value, RouterPatch)
    return value


def test_tables_of_one_subnet_are_united() -> None:
    (table,) = router('id: "a" destination: "10.1.0.0/16"', 'id: "b" destination: "10.2.0.0/16"').tables
    assert [one.id for one in table.upserts] == ["a", "b"]


@pytest.mark.parametrize("withdrawn", ['id: "a"', 'id: "a" destination: "?"', 'id: "z" destination: "10.1.0.0/16"'])
def test_the_later_of_two_statements_about_a_rule_counts(withdrawn: str) -> None:
    create = 'id: "a" destination: "10.1.0.0/16" next_hop_ip: "10.0.0.7"'
    delete = "operation_type: DELETE " + withdrawn
    (table,) = router(create, delete).tables
    assert (table.upserts, len(table.removals)) == ((), 1)
    (table,) = router(delete, create).tables
    assert ([one.id for one in table.upserts], len(table.removals)) == (["a"], 1)


def test_withdrawn_rule_without_destination_matches_no_prefix() -> None:
    (table,) = router('operation_type: DELETE id: "a"').tables
    (removal,) = table.removals
    assert removal.id == "a"
    assert len(removal.destination.address) not in (4, 16)


def test_rule_without_next_hop() -> None:
    (table,) = router('destination: "0.0.0.0/0" routing_rule_extra_info { destination_type: VPC_GW }').tables
    assert [(one.next_hop, one.to_internet) for one in table.upserts] == [(None, False)]


def test_gateway_of_another_kind_keeps_its_id() -> None:
    value = only(decode_v1_text(state("gateway", GOOD_GATEWAY + "gateway_type: IGW"))).value
    assert isinstance(value, Gateway)
    assert (value.id, value.destinations) == ("w", ())
