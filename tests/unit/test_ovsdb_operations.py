"""What is written to the database for what is wanted."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.ovs.ovsdb import BridgeSpec, OvsdbError, Tunnel
from dataplane.ovs.ovsdb import operations as ops
from dataplane.ovs.ovsdb.rows import InterfaceRow
from tests.unit.ovsdb_views import BRIDGE, ROOT

VXLAN = Tunnel("vxlan0", "vxlan", "172.16.0.1", 4789, 100)
SPEC = BridgeSpec("br-int", "netdev", "00000000000000aa", (VXLAN,), (("aca", "1"),))
KEYS = st.sampled_from("abcde")


def apply_map(present: dict[str, str], operations: tuple[ops.Operation, ...]) -> dict[str, str]:
    """What a server makes of mutations of one map column (RFC 7047 section 5.1): insert keeps a key that is there."""
    result = dict(present)
    for operation in operations:
        for _, mutator, (_, values) in operation["mutations"]:
            if mutator == "delete":
                for key in values:
                    result.pop(key, None)
            else:
                for key, value in values:
                    result.setdefault(key, value)
    return result


@given(st.dictionaries(KEYS, KEYS), st.dictionaries(KEYS, st.none() | KEYS))
def test_merging_a_map_sets_deletes_and_keeps(present: dict[str, str], wanted: dict[str, str | None]) -> None:
    expected = {**present, **{k: v for k, v in wanted.items() if v is not None}}
    for key, value in wanted.items():
        if value is None:
            expected.pop(key, None)
    operations = ops.merge_map("Interface", "u", "external_ids", present, wanted)
    assert apply_map(present, operations) == expected
    assert (operations == ()) == (expected == present)


def test_bridge_as_wanted_needs_nothing() -> None:
    bridge = replace(BRIDGE, external_ids={"aca": "1", "theirs": "2"}, other_config={"datapath-id": "1"})
    assert ops.update_bridge(bridge, SPEC) == ()


@pytest.mark.parametrize(
    ("present", "wanted", "refused"),
    [("", "system", False), ("system", "", False), ("", "netdev", True), ("netdev", "system", True)],
)
def test_a_bridge_of_another_datapath_type_is_left_alone(present: str, wanted: str, refused: bool) -> None:
    """An empty one is the system's. Changing it would make the bridge anew, with everything on it."""
    bridge = replace(BRIDGE, datapath_type=present)
    spec = BridgeSpec("br-int", wanted, None, (), ())
    if refused:
        with pytest.raises(OvsdbError, match="delete the bridge"):
            ops.update_bridge(bridge, spec)
    else:
        assert ops.update_bridge(bridge, spec) == ()


@pytest.mark.parametrize(
    ("present", "written"),
    [(set(), False), ({"OpenFlow13", "OpenFlow14"}, False), ({"OpenFlow13"}, True)],
)
def test_protocols_are_only_added_to(present: set[str], written: bool) -> None:
    bridge = replace(BRIDGE, protocols=frozenset(present))
    operations = ops.update_bridge(bridge, BridgeSpec("br-int", "netdev", None, (), ()))
    assert [o["mutations"] for o in operations] == [[["protocols", "insert", ["set", ["OpenFlow14"]]]]] * written


def test_datapath_id_of_others_is_kept() -> None:
    spec = BridgeSpec("br-int", "netdev", "00000000000000cc", (), ())
    assert ops.update_bridge(replace(BRIDGE, other_config={"datapath-id": "00000000000000bb"}), spec) == ()
    assert ops.update_bridge(BRIDGE, spec) != ()


def test_tunnel_as_wanted_needs_nothing() -> None:
    options = {**ops.tunnel_options(VXLAN), "csum": "true"}
    row = InterfaceRow("i", "vxlan0", "p", kind="vxlan", options=options, ofport=100, ofport_request=100)
    assert ops.update_tunnel(row, VXLAN) == ()
    assert ops.update_tunnel(row, replace(VXLAN, ofport_request=0)) == ()
    [changed] = ops.update_tunnel(row, replace(VXLAN, local_ip=""))
    assert changed["mutations"] == [["options", "delete", ["set", ["local_ip"]]]]


def test_flow_restore_wait_is_cleared_only_if_there() -> None:
    assert ops.clear_flow_restore_wait(ROOT) == ()
    held = replace(ROOT, other_config={"flow-restore-wait": "true", "x": "y"})
    [cleared] = ops.clear_flow_restore_wait(held)
    assert cleared["mutations"] == [["other_config", "delete", ["set", ["flow-restore-wait"]]]]


def test_nothing_ever_sets_flow_restore_wait() -> None:
    assert "flow-restore-wait" not in str(ops.create_bridge(ROOT, SPEC))


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_text_that_would_break_the_connection_is_refused(text: str) -> None:
    with pytest.raises(OvsdbError):
        ops.check_text("fine", text)


def test_other_text_is_taken() -> None:
    ops.check_text("", "Grüße", "a\nb", '"', "\U0001f600")


LISTENER = "pssl:6653:172.16.0.1"


@pytest.mark.parametrize(
    ("present", "is_there"),
    [
        ((), False),
        ((LISTENER,), True),
        (("pssl:6653",), True),
        (("pssl:",), True),
        (("pssl:6653:192.0.2.7", "tcp:192.0.2.9:6653"), True),
        (("pssl:6654:172.16.0.1",), False),
        (("ptcp:6653:172.16.0.1",), False),
        (("ssl:172.16.0.1:6653",), False),
    ],
)
def test_the_bridge_listens_beside_what_others_have_set(present: tuple[str, ...], is_there: bool) -> None:
    operations = ops.add_listeners(replace(BRIDGE, controllers=frozenset(present)), [LISTENER])
    assert (operations == ()) == is_there
    if operations:
        made, joined = operations
        assert made["row"] == {"target": LISTENER, "connection_mode": "out-of-band"}
        assert joined["mutations"] == [["controller", "insert", ["set", [["named-uuid", made["uuid-name"]]]]]]


def test_a_bridge_that_is_made_listens_at_once() -> None:
    operations = ops.create_bridge(ROOT, replace(SPEC, listeners=(LISTENER,)))
    (listener,) = [one for one in operations if one.get("table") == "Controller"]
    (bridge,) = [one for one in operations if one["op"] == "insert" and one["table"] == "Bridge"]
    assert bridge["row"]["controller"] == ["set", [["named-uuid", listener["uuid-name"]]]]
