"""Which resources of a message count, in what form, and how repeated ones are taken."""

from __future__ import annotations

from itertools import chain

import pytest

from aca.goalstate.decode import decode_neighbor_rules, decode_v1, decode_v2
from dataplane.addresses import parse_address
from dataplane.model import FixedIp, Kind, Layer, Neighbor, Port
from goalstate_proto.common_pb2 import CREATE, DELETE, ResourceType
from goalstate_proto.goalstate_pb2 import GoalState, GoalStateV2
from goalstate_proto.goalstateprovisioner_pb2 import NeighborRulesRequest
from goalstate_proto.neighbor_pb2 import NeighborState
from goalstate_proto.port_pb2 import PortState
from tests.unit.goal_states import decode_v1_text, decode_v2_text, only

ME = frozenset(("192.0.2.11", "2001:db8::11"))


def neighbor_state(number: int, own_id: str | None = None) -> NeighborState:
    state = NeighborState(operation_type=CREATE)
    state.configuration.id = f"port-{number}" if own_id is None else own_id
    state.configuration.vpc_id = "vpc"
    state.configuration.mac_address = f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}"
    state.configuration.host_ip_address = f"192.0.2.{number % 100 + 100}"
    state.configuration.fixed_ips.add(subnet_id="subnet", ip_address=f"10.0.{number >> 8}.{number & 255}")
    return state


def port_state(address: str, mac: str = "02:00:00:00:00:01", own_id: str = "p", revision: int = 1) -> PortState:
    state = PortState(operation_type=CREATE)
    state.configuration.id = own_id
    state.configuration.revision_number = revision
    state.configuration.vpc_id = "vpc"
    state.configuration.mac_address = mac
    state.configuration.fixed_ips.add(subnet_id="subnet", ip_address=address)
    return state


def named(message: GoalStateV2, local: frozenset[str] = ME) -> list[str]:
    return sorted(change.id for change in chain.from_iterable(decode_v2(message, local)))


def test_neighbors_come_in_slices_and_last() -> None:
    message = GoalState(
        port_states=[port_state("10.0.0.1")], neighbor_states=[neighbor_state(number) for number in range(9001)]
    )
    lists = list(decode_v1(message))
    assert [(changes[0].kind, len(changes)) for changes in lists] == [
        (Kind.PORT, 1),
        (Kind.NEIGHBOR, 4000),
        (Kind.NEIGHBOR, 4000),
        (Kind.NEIGHBOR, 1001),
    ]
    ids = [change.id for changes in lists[1:] for change in changes]
    assert ids == [f"port-{number}" for number in range(9001)]
    rules = NeighborRulesRequest(neigborstates=message.neighbor_states)
    assert list(decode_neighbor_rules(rules)) == lists[1:]


def test_equal_texts_of_neighbors_are_kept_once() -> None:
    message = GoalState(neighbor_states=[neighbor_state(1), neighbor_state(101)])
    one, other = (change.value for change in chain.from_iterable(decode_v1(message)))
    assert isinstance(one, Neighbor)
    assert isinstance(other, Neighbor)
    assert one.vpc_id is other.vpc_id
    assert one.host is other.host
    assert one.fixed_ips[0].subnet_id is other.fixed_ips[0].subnet_id


def test_every_form_of_neighbor() -> None:
    mixed = neighbor_state(1)
    mixed.configuration.mac_address = "0200.0000.0001"
    mixed.configuration.host_ip_address = "2001:db8::7"
    mixed.configuration.fixed_ips.add(neighbor_type="L3", subnet_id="other", ip_address="fd00::1")
    value = only(list(chain.from_iterable(decode_v1(GoalState(neighbor_states=[mixed]))))).value
    assert isinstance(value, Neighbor)
    assert value.layer is Layer.L3
    assert value.mac == bytes.fromhex("020000000001")
    assert value.host == parse_address("2001:db8::7")
    assert value.fixed_ips == (
        FixedIp("subnet", parse_address("10.0.0.1")),
        FixedIp("other", parse_address("fd00::1")),
    )


@pytest.mark.parametrize(("key", "own_id", "wanted"), [("L2/x", "", "x"), ("L3/x", "", "x"), ("x_n", "", "x_n")])
def test_map_key_stands_in_for_a_missing_id(key: str, own_id: str, wanted: str) -> None:
    message = GoalStateV2()
    message.neighbor_states[key].CopyFrom(neighbor_state(1, own_id))
    message.neighbor_states["L2/y"].CopyFrom(neighbor_state(2, "configured"))
    changes = {change.id: change for change in chain.from_iterable(decode_v2(message, ME))}
    assert changes.keys() == {wanted, "configured"}
    assert all(change.error == "" and change.resource_id == change.id for change in changes.values())


def test_bare_delete_in_v2() -> None:
    change = only(decode_v2_text('router_states { key: "r" value { operation_type: DELETE } }'))
    assert (change.id, change.delete, change.error) == ("r", True, "")


def test_several_states_of_one_port_in_v1_are_one_port() -> None:
    states = [port_state("10.0.0.2"), port_state("10.0.0.9", own_id="q"), port_state("10.0.0.1")]
    first, other, second = chain.from_iterable(decode_v1(GoalState(port_states=states)))
    assert first == second
    assert isinstance(first.value, Port)
    assert first.value.fixed_ips == (
        FixedIp("subnet", parse_address("10.0.0.2")),
        FixedIp("subnet", parse_address("10.0.0.1")),
    )
    assert isinstance(other.value, Port)
    assert other.value.fixed_ips == (FixedIp("subnet", parse_address("10.0.0.9")),)


@pytest.mark.parametrize(
    "later",
    [port_state("10.0.0.2", mac="02:00:00:00:00:02"), port_state("10.0.0.2", revision=2)],
    ids=["mac", "revision"],
)
def test_states_that_differ_in_more_than_the_address_stay_apart(later: PortState) -> None:
    first, second = chain.from_iterable(decode_v1(GoalState(port_states=[port_state("10.0.0.1"), later])))
    assert isinstance(first.value, Port)
    assert isinstance(second.value, Port)
    assert [fixed_ip.address[-1] for fixed_ip in first.value.fixed_ips] == [1]
    assert [fixed_ip.address[-1] for fixed_ip in second.value.fixed_ips] == [2]


def test_a_deletion_between_two_states_of_a_port_keeps_them_apart() -> None:
    delete = PortState(operation_type=DELETE)
    delete.configuration.id = "p"
    states = [port_state("10.0.0.1"), delete, port_state("10.0.0.2")]
    first, middle, last = chain.from_iterable(decode_v1(GoalState(port_states=states)))
    assert middle.delete
    assert isinstance(first.value, Port)
    assert isinstance(last.value, Port)
    assert [fixed_ip.address[-1] for fixed_ip in (*first.value.fixed_ips, *last.value.fixed_ips)] == [1, 2]


def test_bad_state_of_a_port_does_not_harm_its_others() -> None:
    states = [port_state("10.0.0.1"), port_state("nowhere"), port_state("10.0.0.2")]
    first, bad, last = chain.from_iterable(decode_v1(GoalState(port_states=states)))
    assert bad.error == "PORT p: fixed_ips[0].ip_address 'nowhere' is not an IP address"
    assert first == last
    assert isinstance(last.value, Port)
    assert len(last.value.fixed_ips) == 2


def host_message() -> GoalStateV2:
    """Two neighbours, a router and a port."""
    message = GoalStateV2()
    message.neighbor_states["L2/a"].CopyFrom(neighbor_state(1, "a"))
    message.neighbor_states["L3/b"].CopyFrom(neighbor_state(2, "b"))
    message.router_states["r"].configuration.id = "r"
    message.port_states["p"].CopyFrom(port_state("10.0.0.1"))
    return message


def give(message: GoalStateV2, host: str, *names: tuple[str, str]) -> None:
    for kind, name in names:
        message.host_resources[host].resources.add(type=ResourceType.Value(kind), id=name)


def test_without_host_resources_everything_counts() -> None:
    assert named(host_message()) == ["a", "b", "p", "r"]
    assert named(host_message(), frozenset()) == ["a", "b", "p", "r"]


def test_what_is_named_for_others_only_is_skipped() -> None:
    message = host_message()
    give(message, "192.0.2.12", ("NEIGHBOR", "L2/a"), ("NEIGHBOR", "L3/b"), ("ROUTER", "192.0.2.12/r"), ("PORT", "p"))
    assert named(message) == []
    give(message, "192.0.2.11", ("NEIGHBOR", "L2/b"), ("ROUTER", "192.0.2.11/r"))
    assert named(message) == ["b", "r"]


def test_what_nobody_is_named_for_counts() -> None:
    message = host_message()
    give(message, "192.0.2.12", ("NEIGHBOR", "L2/a"), ("NEIGHBOR", "L2/unknown"), ("PORT", ""))
    assert named(message) == ["b", "p", "r"]


def test_a_name_is_of_its_kind() -> None:
    message = host_message()
    give(message, "192.0.2.12", ("NEIGHBOR", "p"), ("PORT", "a"), ("VPC", "r"))
    assert named(message) == ["a", "b", "p", "r"]


@pytest.mark.parametrize("host", ["2001:DB8:0::11", "2001:db8:0:0:0:0:0:11", "::ffff:192.0.2.11", "::FFFF:c000:20b"])
def test_hosts_are_compared_as_addresses(host: str) -> None:
    message = host_message()
    give(message, "192.0.2.12", ("PORT", "p"), ("NEIGHBOR", "a"))
    give(message, host, ("PORT", "p"))
    assert named(message) == ["b", "p", "r"]


def test_a_host_key_that_is_no_address_is_another_host() -> None:
    message = host_message()
    give(message, "compute-7", ("PORT", "p"))
    assert named(message) == ["a", "b", "r"]


def test_resources_with_equal_ids_of_one_map_are_taken_in_key_order() -> None:
    text = """
        vpc_states { key: "2" value { configuration { id: "v" name: "second" } } }
        vpc_states { key: "1" value { configuration { id: "v" name: "first" } } }
    """
    assert [getattr(change.value, "name", None) for change in decode_v2_text(text)] == ["first", "second"]
    assert [change.id for change in decode_v1_text('vpc_states { configuration { id: "v" } }' * 2)] == ["v", "v"]
