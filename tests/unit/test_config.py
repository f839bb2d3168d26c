"""Settings: what wins, what is refused, and how the refusal reads."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from aca.config import ConfigError, Settings, load_settings, setting_infos

ADDRESS = {"ACA_HOST__ADDRESSES": "192.0.2.11"}
EXAMPLE = Path(__file__).parents[2] / "deploy" / "aca.toml"


def write(directory: Path, text: str) -> Path:
    file = directory / "aca.toml"
    file.write_text(text)
    return file


def refusal(file: Path | None = None, environment: dict[str, str] | None = None, **flags: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_settings(file, ADDRESS if environment is None else environment, flags)
    return str(caught.value)


def value_of(settings: Settings, name: str) -> object:
    value: object = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


def test_defaults() -> None:
    settings = load_settings(environment=ADDRESS)
    assert settings.host.id == socket.gethostname()
    assert settings.grpc.listen == ("0.0.0.0:50001",)
    assert settings.grpc.max_message_mib == 512
    assert settings.admin.socket == Path("/run/aca/admin.sock")
    assert settings.dataplane.ovs.bridge == "br-int"
    assert settings.dataplane.default_network_type == "vxlan"


def test_the_environment_wins_over_the_file_and_a_flag_over_both(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
        host.addresses = ["192.0.2.1"]
        grpc.listen = ["127.0.0.1:1", "[::1]:1"]
        [dataplane]
        workers = 2
        [dataplane.ovs]
        bridge = "from-file"
        vxlan_port = 1111
        """,
    )
    environment = {"ACA_DATAPLANE__OVS__BRIDGE": "from-env", "ACA_DATAPLANE__OVS__VXLAN_PORT": "2222", "PATH": "/bin"}
    settings = load_settings(file, environment, {"dataplane.ovs.bridge": "from-flag"})
    assert settings.host.addresses == ("192.0.2.1",)
    assert settings.grpc.listen == ("127.0.0.1:1", "[::1]:1")
    assert settings.dataplane.workers == 2
    assert settings.dataplane.ovs.vxlan_port == 2222
    assert settings.dataplane.ovs.bridge == "from-flag"


def test_every_setting_can_be_given_in_each_of_the_three_ways(tmp_path: Path) -> None:
    samples = {
        "host.id": ("h", "h"),
        "host.addresses": ("192.0.2.1,2001:db8::1", ("192.0.2.1", "2001:db8::1")),
        "host.tunnel_address": ("198.51.100.1", "198.51.100.1"),
        "host.tunnel_interface": ("eth1", "eth1"),
        "grpc.listen": ("unix:/run/a,127.0.0.1:0", ("unix:/run/a", "127.0.0.1:0")),
        "controller.addresses": ("ncm.example:9016,unix:/run/c", ("ncm.example:9016", "unix:/run/c")),
        "controller.tls_ca": ("/etc/ca", Path("/etc/ca")),
        "controller.tls_certificate": ("/etc/c", Path("/etc/c")),
        "controller.tls_key": ("/etc/k", Path("/etc/k")),
        "on_demand.enabled": ("false", False),
        "on_demand.max_kept_kib": ("70", 70),
        "kafka.bootstrap_servers": ("k1.example:9092,[2001:db8::1]:9093", ("k1.example:9092", "[2001:db8::1]:9093")),
        "kafka.assigned": ("cell.7:12,all", ("cell.7:12", "all")),
        "kafka.compacted": ("state", ("state",)),
        "kafka.group_topics": ("a,b", ("a", "b")),
        "kafka.group_id": ("g", "g"),
        "kafka.shared_group": ("true", True),
        "kafka.group_protocol": ("consumer", "consumer"),
        "kafka.told": ("true", True),
        "kafka.v1_topics": ("old", ("old",)),
        "kafka.dead_letter_topic": ("dead", "dead"),
        "kafka.reply_topic": ("replies", "replies"),
        "kafka.properties": ("sasl.username=u,linger.ms=5", {"sasl.username": "u", "linger.ms": "5"}),
        "kafka.property_files": ("sasl.password=/etc/p", {"sasl.password": Path("/etc/p")}),
        "admin.socket": ("/tmp/a", Path("/tmp/a")),
        "dataplane.kind": ("ovs", "ovs"),
        "dataplane.default_network_type": ("geneve", "geneve"),
        "dataplane.ovs.run_directory": ("/r", Path("/r")),
        "dataplane.ovs.database": ("tcp:127.0.0.1:6640", "tcp:127.0.0.1:6640"),
        "dataplane.ovs.openflow": ("tcp:[::1]:6653", "tcp:[::1]:6653"),
        "dataplane.ovs.tls_ca": ("/etc/ca", Path("/etc/ca")),
        "dataplane.ovs.tls_certificate": ("/etc/c", Path("/etc/c")),
        "dataplane.ovs.tls_key": ("/etc/k", Path("/etc/k")),
        "dataplane.ovs.tls_peer_name": ("h1.example", "h1.example"),
        "dataplane.ovs.bridge": ("br0", "br0"),
        "dataplane.ovs.datapath_type": ("netdev", "netdev"),
        "dataplane.make_devices": ("tap", "tap"),
        "dataplane.port_namespace_prefix": ("ports-", "ports-"),
        "dataplane.netlink.namespace_prefix": ("net-", "net-"),
        "dataplane.tunnel_mtu": ("1400", 1400),
        "reconcile.controller_replays": ("true", True),
        "reconcile.sweep_limit": ("0.25", 0.25),
        "reconcile.survey_every_s": ("60", 60.0),
        "faults.rules": ("crash at reply,fail at apply.port 2", ("crash at reply", "fail at apply.port 2")),
        "log.level": ("debug", "debug"),
        "log.format": ("json", "json"),
    }
    # A certificate, its key and the authorities go together.
    tls = {f"ACA_CONTROLLER__TLS_{name}": "/etc/x" for name in ("CA", "CERTIFICATE", "KEY")}
    for info in setting_infos():
        text, value = samples.get(info.name, ("7", 7))
        needed = {} if info.name == "host.addresses" else dict(ADDRESS)
        if info.name.startswith("controller.tls_") and info.name != "controller.tls_ca":
            needed |= {name: file for name, file in tls.items() if name != info.environment}
        if info.name.startswith("kafka.") and info.name != "kafka.bootstrap_servers":
            needed["ACA_KAFKA__BOOTSTRAP_SERVERS"] = "127.0.0.1:9092"
        if info.name == "reconcile.controller_replays":
            needed["ACA_CONTROLLER__ADDRESSES"] = "127.0.0.1:1"
        assert value_of(load_settings(None, {**needed, info.environment: text}), info.name) == value
        assert value_of(load_settings(None, needed, {info.name: text}), info.name) == value
        file = write(tmp_path, f'{info.name} = "{text}"')
        assert value_of(load_settings(file, needed), info.name) == value


def test_addresses_of_data_path_and_management() -> None:
    own = load_settings(environment={"ACA_HOST__ADDRESSES": "192.0.2.11"}).host
    assert own.data_path_address == "192.0.2.11"
    both = load_settings(environment={**ADDRESS, "ACA_HOST__TUNNEL_ADDRESS": "198.51.100.1"}).host
    assert both.data_path_address == "198.51.100.1"
    assert both.packed_addresses == {bytes([192, 0, 2, 11])}


def test_tunnels_end_at_the_first_ipv4_address() -> None:
    host = load_settings(environment={"ACA_HOST__ADDRESSES": "2001:DB8::b,192.0.2.11"}).host
    assert host.addresses == ("2001:db8::b", "192.0.2.11")
    assert host.data_path_address == "192.0.2.11"


def test_a_host_without_an_ipv4_address_for_tunnels_is_refused() -> None:
    (line,) = refusal(environment={"ACA_HOST__ADDRESSES": "2001:db8::b"}).splitlines()
    assert line == "host.tunnel_address must be set: tunnels end at IPv4 addresses, and host.addresses has none"


@pytest.mark.parametrize("level", ["WARNING", "Warning", "warning"])
def test_a_log_level_may_be_written_in_any_case(level: str) -> None:
    assert load_settings(environment={**ADDRESS, "ACA_LOG__LEVEL": level}).log.level == "warning"


def test_own_addresses_must_be_given() -> None:
    text = refusal(environment={})
    assert "host.addresses must be set" in text
    assert "ACA_HOST__ADDRESSES" in text
    assert "--host-addresses" in text


@pytest.mark.parametrize(
    ("line", "name", "allowed"),
    [
        ('grpc.listne = "x"', "grpc.listne", "listen, max_message_mib, max_concurrent_messages"),
        ("dataplane.ovs.port = 1", "dataplane.ovs.port", "vxlan_port"),
        ("unknown.deeply.nested = 1", "unknown", "sections: host, grpc, controller, kafka, on_demand, admin"),
        ('dataplane = "ovs"', "dataplane is a section", "kind"),
    ],
)
def test_unknown_keys_of_the_file_are_refused(tmp_path: Path, line: str, name: str, allowed: str) -> None:
    file = write(tmp_path, line)
    text = refusal(file)
    assert f"{file}: {name}" in text
    assert allowed in text


def test_unknown_variables_are_refused() -> None:
    text = refusal(environment={**ADDRESS, "ACA_GRPC_LISTEN": "0.0.0.0:1", "ACA_LOG__COLOUR": "red"})
    assert "ACA_GRPC_LISTEN is not a setting; did you mean ACA_GRPC__LISTEN?" in text
    assert "ACA_LOG__COLOUR is not a setting" in text


def test_variables_that_are_no_settings_of_ours_are_left_alone() -> None:
    linked = {"ACA_SERVICE_HOST": "10.0.0.1", "ACA_SERVICE_PORT_GRPC": "50001", "ACA_PORT_50001_TCP_ADDR": "10.0.0.1"}
    settings = load_settings(environment={**ADDRESS, **linked, "ACA_CONFIG": "f", "ACADEMY": "x"})
    assert settings == load_settings(environment=ADDRESS)


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("ACA_HOST__ADDRESSES", "192.0.2.300", "IPv4 or IPv6 address"),
        ("ACA_HOST__ADDRESSES", "192.0.2.1,127.0.0.1", "(item 2)"),
        ("ACA_HOST__ADDRESSES", "", "must not be empty"),
        ("ACA_HOST__TUNNEL_ADDRESS", "224.0.0.1", "that a host can own"),
        ("ACA_HOST__TUNNEL_ADDRESS", "2001:db8::b", "tunnels end at IPv4 addresses"),
        ("ACA_GRPC__LISTEN", "50001", "ADDRESS:PORT"),
        ("ACA_GRPC__LISTEN", "127.0.0.1:65536", "ADDRESS:PORT"),
        ("ACA_GRPC__LISTEN", "example.org:1", "IP address or 'localhost'"),
        ("ACA_GRPC__LISTEN", "unix:relative", "unix:/ABSOLUTE/PATH"),
        ("ACA_GRPC__MAX_MESSAGE_MIB", "4096", "less than or equal to 2047"),
        ("ACA_DATAPLANE__WORKERS", "many", "is refused: must be an integer"),
        ("ACA_DATAPLANE__WORKERS", "1.5", "is refused: must be an integer"),
        ("ACA_DATAPLANE__READY_WAIT_S", "long", "is refused: must be a number"),
        ("ACA_DATAPLANE__KIND", "abacus", "must be 'ovs'"),
        ("ACA_DATAPLANE__DEFAULT_NETWORK_TYPE", "gre", "'vxlan' or 'geneve'"),
        ("ACA_DATAPLANE__OVS__BRIDGE", "a-name-of-16-byt", "1 to 15 bytes"),
        ("ACA_DATAPLANE__OVS__DATABASE", "/db.sock", "unix:PATH, tcp:ADDRESS:PORT or ssl:"),
        ("ACA_DATAPLANE__MAKE_DEVICES", "maybe", "'no', 'tap' or 'veth'"),
        ("ACA_LOG__LEVEL", "loud", "'debug', 'info', 'warning' or 'error'"),
    ],
)
def test_bad_values_are_refused_with_name_value_and_what_is_allowed(variable: str, value: str, allowed: str) -> None:
    (line,) = refusal(environment={**ADDRESS, variable: value}).splitlines()
    assert line.startswith(f"environment variable {variable}")
    assert allowed in line
    assert repr(value.split(",")[-1]) in line


def test_a_refusal_names_the_place_the_value_comes_from(tmp_path: Path) -> None:
    file = write(tmp_path, "dataplane.workers = 0\ngrpc.listen = 5")
    assert f"{file}: dataplane.workers: 0 is refused" in refusal(file)
    assert f"{file}: grpc.listen: 5 is refused" in refusal(file)
    with pytest.raises(ConfigError, match="flag --dataplane-workers: '0' is refused"):
        load_settings(None, ADDRESS, {"dataplane.workers": "0"})


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    file = write(tmp_path, 'log.level = "loud"\nlog.colour = "red"')
    text = refusal(file, {"ACA_DATAPLANE__WORKERS": "0"})
    for name in ("log.level", "log.colour", "ACA_DATAPLANE__WORKERS", "host.addresses"):
        assert name in text


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "missing.toml")
    assert "is not TOML" in refusal(write(tmp_path, "[host"))


def test_the_example_configuration_shows_every_setting_with_its_default(tmp_path: Path) -> None:
    example = EXAMPLE.read_text()
    shown = re.sub(r"^# (\w+ = )", r"\1", example, flags=re.MULTILINE)
    settings = load_settings(write(tmp_path, shown), {})
    assert settings.model_dump(exclude={"host"}) == load_settings(environment=ADDRESS).model_dump(exclude={"host"})
    keys = re.findall(r"^(?:# )?(\w+) = ", example, flags=re.MULTILINE)
    assert sorted(keys) == sorted(info.path[-1] for info in setting_infos())
    assert load_settings(EXAMPLE, {}).host.addresses == ("192.0.2.11",)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('assigned = ["t:0"]', "kafka.bootstrap_servers must be set"),
        ('assigned = ["t:x"]', "TOPIC:PARTITION"),
        ('bootstrap_servers = "h:1"\ncompacted = ["t"]\ngroup_topics = ["t"]', "goes on where it was"),
        ('bootstrap_servers = "h:1"\nproperties = { "group.id" = "x" }', "the agent sets it"),
        ('bootstrap_servers = "h"', "HOST:PORT"),
    ],
)
def test_kafka_settings_that_are_wrong_are_refused(tmp_path: Path, lines: str, words: str) -> None:
    assert words in refusal(write(tmp_path, f"[kafka]\n{lines}"), ADDRESS).replace("servers: must", "servers must")


def test_a_refusal_of_kafka_properties_shows_no_secret(tmp_path: Path) -> None:
    text = refusal(write(tmp_path, '[kafka.properties]\n"sasl.password" = "wrong-horse"\n"bad" = "x"'), ADDRESS)
    assert "kafka.properties" in text and "'bad' is not the name of a property" in text
    assert "wrong-horse" not in text


RESCUE = {
    **ADDRESS,
    "ACA_DATAPLANE__OVS__DATABASE": "ssl:192.0.2.11:6640",
    "ACA_DATAPLANE__OVS__OPENFLOW": "ssl:192.0.2.11:6653",
    "ACA_DATAPLANE__OVS__TLS_CA": "/ca",
    "ACA_DATAPLANE__OVS__TLS_CERTIFICATE": "/c",
    "ACA_DATAPLANE__OVS__TLS_KEY": "/k",
}


@pytest.mark.parametrize("missing", ["TLS_CA", "TLS_CERTIFICATE", "TLS_KEY"])
def test_ssl_without_its_files_is_refused(missing: str) -> None:
    incomplete = {name: value for name, value in RESCUE.items() if not name.endswith(missing)}
    (line,) = refusal(environment=incomplete).splitlines()
    assert line.startswith(f"dataplane.ovs.{missing.lower()}: must be set")


@pytest.mark.parametrize(
    ("settings", "at_fault", "why"),
    [
        ({"OVS__OPENFLOW": ""}, "ACA_DATAPLANE__OVS__OPENFLOW", "not the one to program"),
        ({"OVS__OPENFLOW": "unix:/run/br-int.mgmt"}, "ACA_DATAPLANE__OVS__OPENFLOW", "not the one to program"),
        ({"OVS__DATABASE": "unix:/run/db.sock"}, "ACA_DATAPLANE__OVS__DATABASE", "whose bridge is at ssl:192.0.2.11"),
        ({"MAKE_DEVICES": "veth"}, "ACA_DATAPLANE__MAKE_DEVICES", "cannot be made on another host"),
    ],
)
def test_what_cannot_go_with_another_hosts_switch_is_refused(
    settings: dict[str, str], at_fault: str, why: str
) -> None:
    changed = {f"ACA_DATAPLANE__{name}": value for name, value in settings.items()}
    (line,) = refusal(environment={**RESCUE, **changed}).splitlines()
    assert at_fault in line and why in line


def test_another_hosts_tunnel_interface_cannot_be_followed() -> None:
    assert "host.tunnel_address" in refusal(environment={**RESCUE, "ACA_HOST__TUNNEL_INTERFACE": "eth1"})


def test_the_same_settings_are_right_where_that_data_plane_is_not_used() -> None:
    elsewhere = {"ACA_DATAPLANE__OVS__DATABASE": "tcp:192.0.2.1:1", "ACA_DATAPLANE__KIND": "netlink"}
    assert load_settings(environment={**ADDRESS, **elsewhere}).dataplane.kind == "netlink"


@pytest.mark.parametrize(
    "remote", ["ssl:192.0.2.1", "ssl:switch.example:1", "tcp:2001:db8::1:6640", "tcp:192.0.2.300:1", "tcp:192.0.2.1:0"]
)
def test_a_remote_without_numeric_address_and_port_is_refused(remote: str) -> None:
    assert repr(remote) in refusal(environment={**ADDRESS, "ACA_DATAPLANE__OVS__DATABASE": remote})


def test_controllers_that_cannot_be_asked_are_refused() -> None:
    assert load_settings(environment=ADDRESS).asks_on_demand is False
    asked = {**ADDRESS, "ACA_CONTROLLER__ADDRESSES": "ncm.example:9016"}
    assert load_settings(environment=asked).asks_on_demand is True
    assert load_settings(environment={**asked, "ACA_ON_DEMAND__ENABLED": "false"}).asks_on_demand is False
    for address in ("ncm.example", "ncm.example:0", ":9016", "[ncm]:9016", "unix:relative", "host:99999"):
        text = refusal(None, {**ADDRESS, "ACA_CONTROLLER__ADDRESSES": f"192.0.2.1:9016,{address}"})
        assert "ACA_CONTROLLER__ADDRESSES (item 2)" in text and repr(address) in text


def test_tls_files_go_together() -> None:
    lone = refusal(None, {**ADDRESS, "ACA_CONTROLLER__TLS_CA": "/ca", "ACA_CONTROLLER__TLS_CERTIFICATE": "/c"})
    assert "controller.tls_key" in lone and "go together" in lone
    bare = refusal(None, {**ADDRESS, "ACA_CONTROLLER__TLS_KEY": "/k", "ACA_CONTROLLER__TLS_CERTIFICATE": "/c"})
    assert "ACA_CONTROLLER__TLS_KEY" in bare and "controller.tls_ca" in bare


def test_a_replay_needs_a_controller() -> None:
    text = refusal(environment={**ADDRESS, "ACA_RECONCILE__CONTROLLER_REPLAYS": "true"})
    assert text == "reconcile.controller_replays needs controller.addresses: nobody is told of a start"
