"""The OVSDB client against a real database server and switch."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace

import pytest

from tests.integration.ovsdb_client import GENEVE, SPEC, VXLAN, WITHIN, Client, database, get, refused, result, veths
from tests.lab import Host, Lab, wait_until

pytestmark = pytest.mark.lab


@pytest.fixture
def host(lab: Lab) -> Host:
    return lab.host("h1")


@pytest.fixture
def client(host: Host) -> Iterator[Client]:
    started = Client(host.db_socket).start()
    yield started
    started.ovsdb.close()


# ---- the bridge


def test_bridge_is_made_from_nothing(host: Host, client: Client) -> None:
    assert result(client.ovsdb.ensure_bridge(SPEC)) == {"vxlan0": 100, "geneve0": 101}

    assert get(host, "bridge", "br-int", "fail_mode") == "secure"
    assert get(host, "bridge", "br-int", "datapath_type") == "netdev"
    assert get(host, "bridge", "br-int", "datapath_id") == "00000000000000aa"
    assert get(host, "bridge", "br-int", "external_ids:aca-host") == "h1"
    assert get(host, "interface", "vxlan0", "type") == "vxlan"
    assert get(host, "interface", "geneve0", "options") == (
        '{dst_port="6081", key=flow, local_ip="172.16.0.1", remote_ip=flow}'
    )
    assert "OFPST_PORT_DESC" in host.ofctl("show", "br-int")
    state = client.state()
    assert (state.ports, state.errors, state.datapath_id) == (
        {"vxlan0": 100, "geneve0": 101},
        {},
        "00000000000000aa",
    )
    assert client.ovsdb.devices() == {}


def test_bridge_that_is_as_wanted_is_not_written(host: Host, client: Client) -> None:
    result(client.ovsdb.ensure_bridge(SPEC))
    written = database(host)

    assert result(client.ovsdb.ensure_bridge(SPEC)) == {"vxlan0": 100, "geneve0": 101}
    another = Client(host.db_socket).start()
    assert result(another.ovsdb.ensure_bridge(SPEC)) == {"vxlan0": 100, "geneve0": 101}
    another.ovsdb.close()

    assert database(host) == written


def test_what_is_there_is_completed_and_the_rest_kept(host: Host, client: Client) -> None:
    veths(host, "tap0")
    host.vsctl(
        *("add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev", "protocols=OpenFlow13"),
        *("other_config:hwaddr=02:00:00:00:00:99", "other_config:datapath-id=00000000000000bb"),
        *("external_ids:theirs=yes", "--", "add-port", "br-int", "tap0"),
        *("--", "add-port", "br-int", "vxlan0", "--", "set", "interface", "vxlan0", "type=vxlan"),
        *("options:remote_ip=10.9.9.9", "options:csum=true", "options:dst_port=8472"),
    )
    row = get(host, "interface", "vxlan0", "_uuid")

    assert result(client.ovsdb.ensure_bridge(SPEC)) == {"vxlan0": 100, "geneve0": 101}

    assert get(host, "bridge", "br-int", "protocols") == "[OpenFlow13, OpenFlow14]"
    assert get(host, "bridge", "br-int", "fail_mode") == "secure"
    assert get(host, "bridge", "br-int", "datapath_id") == "00000000000000bb"
    assert get(host, "bridge", "br-int", "other_config:hwaddr") == "02:00:00:00:00:99"
    assert get(host, "bridge", "br-int", "external_ids") == "{aca-host=h1, theirs=yes}"
    assert get(host, "interface", "vxlan0", "_uuid") == row
    assert get(host, "interface", "vxlan0", "options") == (
        '{csum="true", dst_port="4789", key=flow, local_ip="172.16.0.1", remote_ip=flow}'
    )
    assert client.ovsdb.by_name("tap0") is not None


def test_tunnel_address_changes_in_place(host: Host, client: Client) -> None:
    result(client.ovsdb.ensure_bridge(SPEC))
    row = get(host, "interface", "vxlan0", "_uuid")
    moved = replace(SPEC, tunnels=(replace(VXLAN, local_ip="172.16.0.9"), GENEVE))

    assert result(client.ovsdb.ensure_bridge(moved)) == {"vxlan0": 100, "geneve0": 101}

    assert get(host, "interface", "vxlan0", "options:local_ip") == "172.16.0.9"
    assert get(host, "interface", "vxlan0", "_uuid") == row


def test_other_bridges_are_left_alone(host: Host, client: Client) -> None:
    veths(host, "tap0")
    host.vsctl("add-port", "br-phy", "tap0", "--", "add-port", "br-phy", "gre0", "--", "set", "interface", "gre0",
               "type=gre", "options:remote_ip=flow")  # fmt: skip

    def foreign() -> list[str]:
        return [
            host.vsctl(f"--columns={columns}", "list", table, *names)
            for table, columns, names in (
                ("bridge", "_uuid,ports,protocols,fail_mode,external_ids,other_config", ["br-phy"]),
                ("interface", "_uuid,type,ofport,external_ids,options", ["uplink", "tap0", "gre0", "br-phy"]),
            )
        ]

    before = foreign()
    result(client.ovsdb.ensure_bridge(SPEC))
    result(client.ovsdb.del_port("tap0"))
    assert "no interface tap0" in refused(client.ovsdb.set_external_ids("tap0", {"iface-id": "x"}))
    assert "tap0: it is on another bridge" in refused(client.ovsdb.add_port("tap0", "x"))
    wrong = replace(SPEC, tunnels=(replace(VXLAN, name="gre0"),))
    assert "gre0: it is on another bridge" in refused(client.ovsdb.ensure_bridge(wrong))

    assert foreign() == before
    assert client.ovsdb.devices() == {}
    assert client.mentioned() == set()


def test_refused_tunnel_is_named_with_the_reason_and_can_be_corrected(host: Host, client: Client) -> None:
    bogus = replace(SPEC, tunnels=(replace(VXLAN, kind="bogus"), GENEVE))
    error = refused(client.ovsdb.ensure_bridge(bogus))
    assert "tunnel vxlan0 (bogus): could not open network device vxlan0" in error
    assert "vxlan0" in client.state().errors

    clash = replace(SPEC, tunnels=(VXLAN, replace(VXLAN, name="vxlan1", ofport_request=102)))
    # Two ports of one configuration: the switch takes whichever it meets first.
    assert "(vxlan): could not add network device vxlan" in refused(client.ovsdb.ensure_bridge(clash))
    result(client.ovsdb.del_port("vxlan1"))

    assert result(client.ovsdb.ensure_bridge(SPEC)) == {"vxlan0": 100, "geneve0": 101}


def test_bridge_that_the_switch_cannot_make_is_an_error(client: Client) -> None:
    error = refused(client.ovsdb.ensure_bridge(replace(SPEC, datapath_type="nonsense")))
    assert "bridge br-int" in error
    assert "nonsense" in error


def test_flow_restore_wait_is_not_left(host: Host, client: Client) -> None:
    host.vsctl("set", "open_vswitch", ".", "other_config:flow-restore-wait=true", "other_config:theirs=1")
    result(client.ovsdb.ensure_bridge(SPEC))
    assert get(host, "open_vswitch", ".", "other_config") == '{theirs="1"}'
    state = client.state()
    assert not state.flow_restore_wait


def test_deleted_bridge_is_reported(host: Host, client: Client) -> None:
    veths(host, "tap0")
    result(client.ovsdb.ensure_bridge(SPEC))
    result(client.ovsdb.add_port("tap0", "port-a"))
    client.mentioned()

    host.vsctl("del-br", "br-int")

    wait_until(lambda: client.bridges and client.bridges[-1] is None, WITHIN, "the bridge is gone")
    assert client.mentioned() == {"tap0"}
    assert client.ovsdb.devices() == {}
    assert client.ovsdb.bridge_state() is None
    assert "no bridge br-int" in refused(client.ovsdb.add_port("tap0", "port-a"))


def test_bridge_external_ids_are_merged(host: Host, client: Client) -> None:
    result(client.ovsdb.ensure_bridge(SPEC))
    result(client.ovsdb.set_bridge_external_ids({"round": "7", "aca-host": None}))
    assert get(host, "bridge", "br-int", "external_ids") == '{round="7"}'


# ---- devices


def test_devices_come_change_and_go(host: Host, client: Client) -> None:
    result(client.ovsdb.ensure_bridge(SPEC))
    veths(host, "tap0")
    host.vsctl("add-port", "br-int", "tap0", "--", "set", "interface", "tap0", "external_ids:iface-id=port-a")
    device = client.sees("tap0", lambda d: d.ofport is not None and d.mac is not None, "attached")
    assert (device.iface_id, device.error, device.mtu) == ("port-a", "", 1500)
    assert client.ovsdb.by_iface_id("port-a") == device
    assert device.ofport == int(get(host, "interface", "tap0", "ofport"))
    assert client.mentioned() == {"tap0"}

    host.vsctl("set", "interface", "tap0", "ofport_request=77")
    client.sees("tap0", lambda d: d.ofport == 77, "renumbered")
    assert client.mentioned() == {"tap0"}

    host.vsctl("set", "interface", "tap0", "external_ids:iface-id=port-b")
    client.sees("tap0", lambda d: d.iface_id == "port-b", "renamed")
    assert client.ovsdb.by_iface_id("port-a") is None
    assert client.mentioned() == {"tap0"}

    host.namespace.ip("link del tap0")
    gone = client.sees("tap0", lambda d: d.ofport is None, "without its device")
    assert "no such device" in gone.error.lower()
    assert "tap0" in client.mentioned()

    host.vsctl("del-port", "tap0")
    wait_until(lambda: not client.ovsdb.devices(), WITHIN, "no device")
    assert client.mentioned() == {"tap0"}
    assert client.ovsdb.by_iface_id("port-b") is None


def test_delete_and_create_at_once_is_another_device(host: Host, client: Client) -> None:
    result(client.ovsdb.ensure_bridge(SPEC))
    veths(host, "tap0")
    result(client.ovsdb.add_port("tap0", "port-a"))
    before = client.sees("tap0", lambda d: d.mac is not None, "attached")
    client.mentioned()

    host.vsctl("del-port", "tap0", "--", "add-port", "br-int", "tap0", "--", "set", "interface", "tap0",
               "external_ids:iface-id=port-a")  # fmt: skip

    client.sees("tap0", lambda d: d.uuid != before.uuid, "another")
    assert "tap0" in client.mentioned()


def test_add_port_attaches_and_updates(host: Host, client: Client) -> None:
    result(client.ovsdb.ensure_bridge(SPEC))
    veths(host, "tap0")

    ofport = result(client.ovsdb.add_port("tap0", "port-a", 1400, {"owner": "aca"}))

    assert ofport == int(get(host, "interface", "tap0", "ofport")) > 0
    assert get(host, "interface", "tap0", "external_ids") == "{iface-id=port-a, owner=aca}"
    device = client.sees("tap0", lambda d: d.mtu == 1400, "with its MTU")
    assert device.ofport == ofport
    written = database(host)
    assert result(client.ovsdb.add_port("tap0", "port-a", 1400, {"owner": "aca"})) == ofport
    assert database(host) == written
    assert result(client.ovsdb.add_port("tap0", "port-b", 1300)) == ofport
    assert get(host, "interface", "tap0", "mtu_request") == "1300"

    result(client.ovsdb.del_port("tap0"))
    assert host.vsctl("list-ports", "br-int").split() == ["geneve0", "vxlan0"]
    assert client.ovsdb.by_name("tap0") is None
    result(client.ovsdb.del_port("tap0"))


def test_device_that_is_not_there_is_attached_when_it_comes(host: Host, client: Client) -> None:
    result(client.ovsdb.ensure_bridge(SPEC))
    assert "tap0: could not open network device tap0 (No such device)" in refused(
        client.ovsdb.add_port("tap0", "port-a")
    )
    assert client.sees("tap0", lambda d: d.error != "", "refused").ofport is None

    veths(host, "tap0")

    assert client.sees("tap0", lambda d: d.ofport is not None, "attached").error == ""


def test_impossible_requests_do_not_harm_those_beside_them(host: Host, client: Client) -> None:
    result(client.ovsdb.ensure_bridge(SPEC))
    names = [f"tap{n}" for n in range(8)]
    veths(host, *names)
    # 0 is outside the column's range: the server refuses the whole transaction.
    futures = [client.ovsdb.add_port(name, name, 0 if name == "tap5" else 1400) for name in names]

    assert "tap5: constraint violation" in refused(futures.pop(5))
    assert len({result(future) for future in futures}) == 7
    assert "cannot be stored" in refused(client.ovsdb.set_external_ids("tap0", {"k": "\0"}))
    result(client.ovsdb.set_external_ids("tap0", {"k": "Grüße"}))
    assert client.ovsdb.devices()["tap0"].external_ids["k"] == "Grüße"
    assert client.losses == []


def test_local_port_and_tunnels_cannot_be_taken_for_devices(client: Client) -> None:
    result(client.ovsdb.ensure_bridge(SPEC))
    assert "local port" in refused(client.ovsdb.del_port("br-int"))
    assert "has that name" in refused(client.ovsdb.add_port("vxlan0", "port-a"))
    assert "has that name" in refused(client.ovsdb.add_port("br-int", "port-a"))


def test_marks_are_written_and_not_reported(host: Host, client: Client) -> None:
    result(client.ovsdb.ensure_bridge(SPEC))
    veths(host, "tap0")
    result(client.ovsdb.add_port("tap0", "port-a"))
    client.sees("tap0", lambda d: d.mac is not None and d.mtu is not None, "attached")
    client.mentioned()

    result(client.ovsdb.set_external_ids("tap0", {"aca-installed": "true", "aca-installed-ts": "1"}))
    result(client.ovsdb.set_external_ids("tap0", {"aca-installed-ts": None, "never-there": None}))

    assert get(host, "interface", "tap0", "external_ids") == '{aca-installed="true", iface-id=port-a}'
    assert client.ovsdb.devices()["tap0"].external_ids["aca-installed"] == "true"
    assert client.mentioned() == set()
    assert "no interface tap9" in refused(client.ovsdb.set_external_ids("tap9", {"a": "b"}))


def test_marks_from_many_threads_all_arrive_in_order(host: Host, client: Client) -> None:
    result(client.ovsdb.ensure_bridge(SPEC))
    names = [f"tap{n}" for n in range(8)]
    veths(host, *names)
    for future in [client.ovsdb.add_port(name, name) for name in names]:
        result(future)
    futures: list[Future[None]] = []

    def mark(name: str) -> None:
        for count in range(100):
            futures.append(client.ovsdb.set_external_ids(name, {"count": str(count), f"k{count}": "x"}))
            if count:
                futures.append(client.ovsdb.set_external_ids(name, {f"k{count - 1}": None}))

    threads = [threading.Thread(target=mark, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN)
    for marked in futures:
        result(marked)

    for name in names:
        assert get(host, "interface", name, "external_ids") == f'{{count="99", iface-id={name}, k99=x}}'


def test_many_devices_at_once(host: Host, client: Client) -> None:
    result(client.ovsdb.ensure_bridge(SPEC))
    names = [f"tap{n}" for n in range(200)]
    veths(host, *names)
    before = int(get(host, "open_vswitch", ".", "next_cfg"))

    host.ovs.ovsdb.pause()
    try:
        futures = [client.ovsdb.add_port(name, f"port-{name}") for name in names]
    finally:
        host.ovs.ovsdb.resume()

    assert len({result(future) for future in futures}) == 200
    # Some are on their way before the others are asked for; those go together.
    assert int(get(host, "open_vswitch", ".", "next_cfg")) - before <= 2
    assert {d.iface_id for d in client.ovsdb.devices().values()} == {f"port-{name}" for name in names}
    assert client.mentioned() == set(names)
