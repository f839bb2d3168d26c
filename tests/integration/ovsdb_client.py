"""An OVSDB client under test, and what its tests share."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest

from dataplane.ovs.ovsdb import BridgeSpec, BridgeState, Device, Ovsdb, OvsdbError, Tunnel
from tests.lab import Host, wait_until

T = TypeVar("T")

WITHIN = 20.0
VXLAN = Tunnel("vxlan0", "vxlan", "172.16.0.1", 4789, 100)
GENEVE = Tunnel("geneve0", "geneve", "172.16.0.1", 6081, 101)
SPEC = BridgeSpec("br-int", "netdev", "00000000000000aa", (VXLAN, GENEVE), (("aca-host", "h1"),))


class Client:
    """An Ovsdb with a record of what it reported."""

    def __init__(self, remote: str, timeout: float = WITHIN) -> None:
        self.connects = 0
        self.losses: list[str] = []
        self.reported: list[frozenset[str]] = []
        self.bridges: list[BridgeState | None] = []
        self.ovsdb = Ovsdb(
            remote,
            "br-int",
            on_connected=self._connected,
            on_lost=self.losses.append,
            on_devices=self.reported.append,
            on_bridge=self.bridges.append,
            timeout=timeout,
        )

    def _connected(self) -> None:
        self.connects += 1

    def start(self) -> "Client":
        self.ovsdb.start()
        wait_until(lambda: self.connects > 0, WITHIN, "connected")
        return self

    def state(self) -> BridgeState:
        """Our bridge, which must be there."""
        state = self.ovsdb.bridge_state()
        assert state is not None
        return state

    def mentioned(self) -> set[str]:
        """The devices reported since the last call."""
        names: set[str] = set()
        while self.reported:
            names |= self.reported.pop(0)
        return names

    def sees(self, name: str, condition: Callable[[Device], bool], what: str) -> Device:
        def device() -> Device | None:
            found = self.ovsdb.by_name(name)
            return found if found is not None and condition(found) else None

        seen = wait_until(device, WITHIN, f"{name} {what}")
        assert seen is not None
        return seen


def result(future: Future[T]) -> T:
    return future.result(WITHIN + 5)


def refused(future: Future[Any]) -> str:
    with pytest.raises(OvsdbError) as caught:
        future.result(WITHIN + 5)
    return str(caught.value)


def get(host: Host, table: str, record: str, column: str) -> str:
    return host.vsctl("get", table, record, column).strip().strip('"')


def database(host: Host) -> bytes:
    return (host.rundir / "conf.db").read_bytes()


def veths(host: Host, *names: str) -> None:
    host.namespace.ip(*(f"link add {name} type veth peer name p-{name}" for name in names))
