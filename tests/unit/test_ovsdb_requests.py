"""When a request is refused, when it waits, when it is done."""

from dataclasses import replace

import pytest

from dataplane.ovs.ovsdb import BridgeSpec, OvsdbError, Tunnel
from dataplane.ovs.ovsdb.operations import tunnel_options
from dataplane.ovs.ovsdb.requests import (
    AddPort,
    DelPort,
    Done,
    EnsureBridge,
    Plan,
    SetBridgeExternalIds,
    SetExternalIds,
)
from dataplane.ovs.ovsdb.rows import InterfaceRow
from tests.unit.ovsdb_views import BRIDGE, FakeView

VXLAN = Tunnel("vxlan0", "vxlan", "", 4789, 0)
ENSURE = EnsureBridge(BridgeSpec("br-int", "netdev", None, (VXLAN,), ()))
ADD = AddPort("tap0", None, {"iface-id": "a"})


def with_tunnel(**columns: object) -> FakeView:
    view = FakeView()
    view.attach("vxlan0", kind="vxlan", options=tunnel_options(VXLAN), **columns)
    return view


def test_bridge_as_wanted_is_done_without_a_transaction() -> None:
    view = with_tunnel(ofport=7)
    assert ENSURE.plan(view) == Plan(wait=True)
    assert ENSURE.outcome(view) == Done({"vxlan0": 7})


def test_bridge_waits_for_the_ports_of_its_tunnels() -> None:
    view = with_tunnel()
    assert ENSURE.outcome(view) is None
    assert "vxlan0" in ENSURE.lacks(view)
    view.attach("vxlan0", ofport=-1)
    assert ENSURE.outcome(view) is None


def test_old_errors_are_looked_at_again_before_they_are_believed() -> None:
    view = with_tunnel(ofport=-1, error="File exists")
    assert ENSURE.plan(view) == Plan(bump=True, wait=True)
    with pytest.raises(OvsdbError, match=r"tunnel vxlan0 \(vxlan\): File exists"):
        ENSURE.outcome(view)
    view = FakeView()
    view.attach("tap0", ofport=-1, error="No such device", external_ids={"iface-id": "a"})
    assert ADD.plan(view) == Plan(bump=True, wait=True)
    with pytest.raises(OvsdbError, match="device tap0: No such device"):
        ADD.outcome(view)


def test_bridge_whose_running_state_is_unknown_is_looked_at_again() -> None:
    view = with_tunnel(ofport=7)
    view.bridge_row = replace(BRIDGE, datapath_id="")
    assert ENSURE.plan(view) == Plan(bump=True, wait=True)
    with pytest.raises(OvsdbError, match="netdev"):
        ENSURE.outcome(view)


def test_new_bridge_does_not_take_a_name_that_is_in_use() -> None:
    view = FakeView(bridge_row=None, other_ports={"br-int"})
    with pytest.raises(OvsdbError, match="br-int"):
        ENSURE.plan(view)
    with pytest.raises(OvsdbError, match="ovs-vsctl init"):
        ENSURE.plan(FakeView(root_row=None))


@pytest.mark.parametrize("kind", ["", "system", "internal", "tap", "patch", "dpdk"])
def test_tunnel_does_not_replace_a_device(kind: str) -> None:
    view = FakeView()
    view.attach("vxlan0", kind=kind)
    with pytest.raises(OvsdbError, match="has that name"):
        ENSURE.plan(view)


def test_ports_of_other_bridges_are_refused() -> None:
    view = FakeView(interfaces={n: InterfaceRow("i", n) for n in ("vxlan0", "tap0")}, other_ports={"tap1"})
    for request in (ENSURE, ADD):
        with pytest.raises(OvsdbError, match="on another bridge"):
            request.plan(view)
    with pytest.raises(OvsdbError, match="no interface tap0"):
        SetExternalIds("tap0", {"a": "b"}).plan(view)
    with pytest.raises(OvsdbError, match="another interface"):
        AddPort("tap1", None, {}).plan(view)
    assert DelPort("tap0").plan(view) == Plan()


def test_members_of_a_bond_are_not_detached() -> None:
    view = FakeView()
    view.attach("eth0", alone=False)
    with pytest.raises(OvsdbError, match="one of several"):
        DelPort("eth0").plan(view)


def test_what_vanishes_meanwhile_is_an_error() -> None:
    for request in (ADD, SetExternalIds("tap0", {"a": "b"})):
        with pytest.raises(OvsdbError, match="by somebody"):
            request.outcome(FakeView())
    with pytest.raises(OvsdbError, match="no bridge br-int"):
        SetBridgeExternalIds("br-int", {}).outcome(FakeView(bridge_row=None))


def test_later_values_win_when_merged() -> None:
    first, second = SetExternalIds("tap0", {"a": "1", "b": "1"}), SetExternalIds("tap0", {"a": None, "c": "2"})
    assert first.merge(second) == SetExternalIds("tap0", {"a": None, "b": "1", "c": "2"})
    assert first.merge(SetExternalIds("tap1", {})) is None
    assert first.merge(DelPort("tap0")) is None
    assert DelPort("tap0").merge(DelPort("tap0")) == DelPort("tap0")
