"""The OVSDB client when the database or the switch goes away, and at its own end."""

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import psutil
import pytest

from dataplane.ovs.ovsdb import Ovsdb, OvsdbUnavailableError
from tests.integration.ovsdb_client import SPEC, WITHIN, Client, database, get, result, veths
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


# ---- losses


def test_database_restart_is_survived(host: Host, client: Client) -> None:
    result(client.ovsdb.ensure_bridge(SPEC))
    veths(host, "tap0", "tap1")
    result(client.ovsdb.add_port("tap0", "port-a"))
    result(client.ovsdb.add_port("tap1", "port-b"))
    ofport = client.ovsdb.devices()["tap0"].ofport
    restarts = client.state().restarts

    host.ovs.ovsdb.kill()
    wait_until(lambda: client.losses, WITHIN, "the loss")
    assert not client.ovsdb.connected
    assert client.ovsdb.devices()["tap0"].ofport == ofport
    client.mentioned()
    meanwhile = client.ovsdb.set_external_ids("tap0", {"mark": "late"})
    host.ovs.ovsdb.start()

    result(meanwhile)
    assert (client.connects, client.ovsdb.generation, len(client.losses)) == (2, 2, 1)
    assert client.mentioned() >= {"tap0", "tap1"}
    assert get(host, "interface", "tap0", "external_ids:mark") == "late"
    assert result(client.ovsdb.ensure_bridge(SPEC)) == {"vxlan0": 100, "geneve0": 101}
    client.sees("tap0", lambda d: d.mac is not None and d.ofport == ofport, "as before")
    assert client.state().restarts == restarts


def test_device_that_vanished_during_an_outage_is_reported(host: Host, client: Client) -> None:
    result(client.ovsdb.ensure_bridge(SPEC))
    veths(host, "tap0")
    result(client.ovsdb.add_port("tap0", "port-a"))
    saved = database(host)
    result(client.ovsdb.del_port("tap0"))
    host.ovs.ovsdb.kill()
    wait_until(lambda: client.losses, WITHIN, "the loss")
    client.mentioned()
    (host.rundir / "conf.db").write_bytes(saved)
    host.ovs.ovsdb.start()
    wait_until(lambda: "tap0" in client.ovsdb.devices(), WITHIN, "the old device")
    host.ovs.ovsdb.kill()
    wait_until(lambda: len(client.losses) == 2, WITHIN, "the second loss")
    assert client.mentioned() == {"tap0"}
    host.ovs.ovsdb.start()
    wait_until(lambda: client.connects == 3, WITHIN, "connected again")
    result(client.ovsdb.del_port("tap0"))
    assert client.mentioned() == {"tap0"}


def test_database_may_come_after_the_client(host: Host) -> None:
    host.ovs.ovsdb.stop()
    client = Client(host.db_socket)
    client.ovsdb.start()
    future = client.ovsdb.ensure_bridge(SPEC)
    host.ovs.ovsdb.start()
    assert result(future) == {"vxlan0": 100, "geneve0": 101}
    assert client.losses == []
    client.ovsdb.close()


def test_switch_restart_is_noticed(host: Host, client: Client) -> None:
    result(client.ovsdb.ensure_bridge(SPEC))
    before = client.state().restarts
    for stop in (host.ovs.vswitchd.kill, host.ovs.vswitchd.stop):
        stop()
        host.ovs.vswitchd.start()

        def noticed(than: int = before) -> bool:
            state = client.bridges[-1]
            return state is not None and state.restarts > than

        wait_until(noticed, WITHIN, "the restart")
        before = client.state().restarts
    assert client.losses == []


def test_switch_that_does_not_run_fails_requests_in_time(host: Host) -> None:
    client = Client(host.db_socket, timeout=1.0).start()
    result(client.ovsdb.ensure_bridge(SPEC))
    veths(host, "tap0")
    host.ovs.vswitchd.stop()

    with pytest.raises(OvsdbUnavailableError, match=r"tap0: no OpenFlow port yet .*does it run"):
        client.ovsdb.add_port("tap0", "port-a").result(WITHIN)

    host.ovs.vswitchd.start()
    assert result(client.ovsdb.add_port("tap0", "port-a")) > 0
    client.ovsdb.close()


def test_database_that_hangs_fails_requests_in_time(host: Host) -> None:
    client = Client(host.db_socket, timeout=1.0).start()
    result(client.ovsdb.ensure_bridge(SPEC))
    host.ovs.ovsdb.pause()
    try:
        with pytest.raises(OvsdbUnavailableError, match="br-int: the database does not answer"):
            client.ovsdb.set_bridge_external_ids({"a": "b"}).result(WITHIN)
        with pytest.raises(OvsdbUnavailableError):
            client.ovsdb.set_bridge_external_ids({"a": "c"}).result(WITHIN)
    finally:
        host.ovs.ovsdb.resume()
    result(client.ovsdb.set_bridge_external_ids({"a": "d"}))
    assert get(host, "bridge", "br-int", "external_ids:a") == "d"
    client.ovsdb.close()


@pytest.mark.long
def test_database_that_hangs_is_a_loss(host: Host, client: Client) -> None:
    host.ovs.ovsdb.pause()
    try:
        wait_until(lambda: client.losses, 30.0, "the loss")
    finally:
        host.ovs.ovsdb.resume()
    wait_until(lambda: client.connects == 2, WITHIN, "connected again")


# ---- ends


def test_close_fails_what_is_pending(host: Host) -> None:
    client = Client(host.db_socket).start()
    result(client.ovsdb.ensure_bridge(SPEC))
    host.ovs.vswitchd.stop()
    pending: list[Future[Any]] = [
        client.ovsdb.add_port("tap0", "port-a"),
        client.ovsdb.set_external_ids("tap9", {"a": "b"}),
    ]
    client.ovsdb.close()
    client.ovsdb.close()
    late = client.ovsdb.del_port("tap0")

    for future in (pending[0], late):
        with pytest.raises(OvsdbUnavailableError, match="closed"):
            future.result(0)
    assert pending[1].done()
    assert "br-int" in host.vsctl("list-br")


def test_close_in_a_callback(host: Host) -> None:
    ended = threading.Event()

    def close() -> None:
        ovsdb.close()
        ended.set()

    ovsdb = Ovsdb(host.db_socket, "br-int", on_connected=close, on_lost=lambda _: None, on_devices=lambda _: None)
    ovsdb.start()
    assert ended.wait(WITHIN)
    wait_until(lambda: all(t.name != "ovsdb" for t in threading.enumerate()), WITHIN, "the thread's end")


def test_nothing_is_left_after_many_lives(host: Host, tmp_path_factory: pytest.TempPathFactory) -> None:
    process = psutil.Process()

    def live() -> None:
        client = Client(host.db_socket).start()
        result(client.ovsdb.ensure_bridge(SPEC))
        client.ovsdb.close()
        nowhere = Client(f"unix:{tmp_path_factory.getbasetemp()}/no.sock")
        nowhere.ovsdb.start()
        nowhere.ovsdb.set_bridge_external_ids({"a": "b"})
        nowhere.ovsdb.close()

    live()
    # What tests before this one have left to the collector must not go while we count.
    gc.collect()
    before = (process.num_fds(), threading.active_count())
    for _ in range(50):
        live()
    assert (process.num_fds(), threading.active_count()) == before


def test_failing_callbacks_do_no_harm(host: Host) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no")

    ovsdb = Ovsdb(
        host.db_socket, "br-int", on_connected=fail, on_lost=fail, on_devices=fail, on_bridge=fail, timeout=WITHIN
    )
    ovsdb.start()
    veths(host, "tap0")
    result(ovsdb.ensure_bridge(SPEC))
    assert result(ovsdb.add_port("tap0", "port-a")) > 0
    ovsdb.close()


def test_unknown_kind_of_remote_is_refused() -> None:
    with pytest.raises(ValueError, match="must be unix:PATH"):
        Ovsdb("db.sock", "br-int", on_connected=print, on_lost=print, on_devices=print)
