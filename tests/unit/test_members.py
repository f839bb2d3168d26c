"""Who is in each subnet and segment."""

from __future__ import annotations

from dataplane.addresses import parse_mac
from dataplane.model import (
    AddressPair,
    FixedIp,
    Layer,
    Neighbor,
    NeighborWanted,
    NetworkType,
    PortWanted,
    Segment,
    SubnetRef,
    SubnetWanted,
)
from dataplane.ovs.members import Members
from tests.unit.desired_world import MAC, THERE, YONDER, pair, port, subnet

SEGMENT = Segment(NetworkType.VXLAN, 10)
OTHER = Segment(NetworkType.VXLAN, 11)
S, T = SubnetRef("s", SEGMENT), SubnetRef("t", SEGMENT)
SHARED = pair("10.0.0.200", "00:00:5e:00:01:01")


def local(name: str, *refs: SubnetRef, pairs: tuple[AddressPair, ...] = ()) -> PortWanted:
    subnets = tuple(SubnetWanted(subnet(ref.subnet_id), ref) for ref in refs)
    held: tuple[FixedIp, ...] = ()
    return PortWanted(port(name, "s 10.0.0.5", pairs=pairs), subnets, held, frozenset(one.id for one in subnets))


def remote(name: str, *refs: SubnetRef, host: bytes = THERE, pairs: tuple[AddressPair, ...] = ()) -> NeighborWanted:
    mac = MAC("fa:16:3e:00:02:01")
    fixed_ips = tuple(FixedIp(ref.subnet_id, bytes((10, 0, 0, 9))) for ref in refs)
    return NeighborWanted(Neighbor(name, 1, "vpc", mac, host, fixed_ips, Layer.L2, pairs), refs)


def test_ports_and_hosts_are_listed_once_and_sorted() -> None:
    members = Members()
    members.add_port(local("q", S), 9)
    members.add_port(local("p", S), 5)
    for name, host in (("n1", YONDER), ("n2", THERE), ("n3", THERE)):
        members.add_neighbor(remote(name, S, host=host))
    found = members.subnet("s")
    assert found is not None
    assert (found.local, found.remote) == ((5, 9), (THERE, YONDER))


def test_a_host_stays_until_its_last_neighbour_goes() -> None:
    members = Members()
    members.add_neighbor(remote("n1", S))
    members.add_neighbor(remote("n2", S))
    members.take_changed()
    members.drop_neighbor(remote("n1", S))
    assert members.take_changed() == ([], [])
    members.drop_neighbor(remote("n2", S))
    assert members.take_changed() == (["s"], [SEGMENT])
    assert members.subnet("s") is None and members.segment(SEGMENT) == []


def test_only_what_changes_the_list_is_a_change() -> None:
    members = Members()
    members.add_neighbor(remote("n1", S))
    assert members.take_changed() == (["s"], [SEGMENT])
    members.add_neighbor(remote("n2", S))
    assert members.take_changed() == ([], [])
    members.add_neighbor(remote("n3", S, host=YONDER))
    assert members.take_changed() == (["s"], [SEGMENT])


def test_macs_that_several_may_own_are_counted() -> None:
    members = Members()
    members.add_port(local("p", S, pairs=(SHARED,)), 5)
    members.add_neighbor(remote("n", S, pairs=(SHARED,)))
    members.drop_port(local("p", S, pairs=(SHARED,)))
    found = members.subnet("s")
    assert found is not None and found.shared_macs == (parse_mac("00:00:5e:00:01:01"),)
    members.take_changed()
    members.drop_neighbor(remote("n", S, pairs=(SHARED,)))
    assert members.take_changed() == (["s"], [SEGMENT])
    assert members.subnet("s") is None


def test_a_segment_knows_all_its_subnets() -> None:
    members = Members()
    members.add_port(local("p", S), 5)
    members.add_neighbor(remote("n", T))
    assert [one.ref for one in members.segment(SEGMENT)] == [S, T]


def test_a_subnet_that_changes_its_segment_leaves_the_old_one() -> None:
    members = Members()
    members.add_neighbor(remote("n", S))
    members.take_changed()
    moved = SubnetRef("s", OTHER)
    members.add_neighbor(remote("n", moved))
    members.drop_neighbor(remote("n", S))
    assert members.take_changed() == (["s"], [SEGMENT, OTHER])
    assert members.segment(SEGMENT) == []
    assert [one.remote for one in members.segment(OTHER)] == [(THERE,)]


def test_a_port_that_was_never_here_can_be_dropped() -> None:
    members = Members()
    members.add_port(local("p", S, pairs=(SHARED,)), 5)
    members.drop_port(local("q", S, T, pairs=(SHARED,)))
    found = members.subnet("s")
    assert found is not None and len(found.shared_macs) == 1
