"""Revisions, repetitions, conflicts and deletions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from goalstate_proto import common_pb2
from tests.conformance.cloud import Cloud, Reply, eventually, severed
from tests.conformance.network import (
    Rule,
    State,
    deletion,
    dhcp_state,
    neighbor_state,
    port_state,
    router_state,
    subnet_state,
    v1,
    v2,
    vpc_state,
)

pytestmark = pytest.mark.lab


def test_the_same_state_again_changes_nothing(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    nics = [vpc.nic(site, net) for site in cloud.sites for net in (blue, green)]
    cloud.guests(*nics)
    pairs = [("10.0.1.200", ""), ("10.0.1.201", "00:00:5e:00:01:07")]
    states: list[State] = [
        vpc_state(vpc.id),
        subnet_state(blue),
        subnet_state(green),
        router_state("r-again", [(blue, [Rule("10.99.0.0/16", nics[3].ip, "r1")]), green]),
        port_state(nics[0], pairs=pairs),
        port_state(nics[1]),
        *(neighbor_state(nic, layer=1) for nic in nics),
        dhcp_state(nics[0]),
    ]
    cloud.one.program(*states)
    before = cloud.one.footprint()

    for push in (cloud.one.push, cloud.one.push_v1, cloud.one.push):
        reply = push(*states)
        assert not reply.troubles, reply.troubles
        assert cloud.one.footprint() == before
    for state in states:
        cloud.one.push(state)
    assert cloud.one.footprint() == before


def test_revisions(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b, c = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, *_ = cloud.guests(a, b, c)
    cloud.announce(vpc)
    newer = neighbor_state(c, revision=7)
    cloud.one.program(newer, port_state(b, revision=7))
    before = cloud.one.footprint()

    elsewhere = c.but(host_ip="172.16.0.99")
    older: list[State] = [neighbor_state(elsewhere, revision=6), port_state(b, revision=6, up=False)]
    for old in older:
        reply = cloud.one.push(old)
        assert reply.status(old) == "OUT_OF_ORDER"
        assert "7" in reply.reason(old)
    for old in (deletion(neighbor_state(c), revision=6), deletion(port_state(b), revision=6)):
        assert cloud.one.push(old).status(old) == "OUT_OF_ORDER"
    assert cloud.one.footprint() == before
    assert guest.ping(c.ip).received == 1
    assert guest.ping(b.ip).received == 1

    # Equal: the last word counts. 0: unversioned, always taken.
    for revision in (7, 0):
        cloud.one.program(neighbor_state(elsewhere, revision=revision))
        assert severed(guest, c.ip)
        cloud.one.program(neighbor_state(c, revision=revision))
        assert guest.can_reach(c.ip)
    cloud.one.program(neighbor_state(c, revision=8))
    assert guest.ping(c.ip).received == 1


def test_a_deletion_is_not_undone_by_what_is_older(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, c = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, _ = cloud.guests(a, c)
    cloud.announce(vpc)
    cloud.one.program(neighbor_state(c, revision=5))
    cloud.one.program(deletion(neighbor_state(c), revision=6))

    old = neighbor_state(c, revision=5)
    assert cloud.one.push(old).status(old) == "OUT_OF_ORDER"
    assert severed(guest, c.ip)
    cloud.one.program(neighbor_state(c, revision=7))
    assert guest.can_reach(c.ip)


def test_deletions_leave_nothing_behind(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, b, c, d = (vpc.nic(site, net) for site in cloud.sites for net in (blue, green))
    cloud.guests(a, b)
    pairs = [("10.0.1.200", ""), ("10.0.1.201", "00:00:5e:00:01:07")]
    router = router_state("leaves-nothing", [(blue, [Rule("10.99.0.0/16", d.ip, "r1")]), green])
    steps: list[list[State]] = [
        [vpc_state(vpc.id), subnet_state(blue), subnet_state(green)],
        [router_state("leaves-nothing", [(blue, []), green])],
        [port_state(a, pairs=pairs), dhcp_state(a)],
        [port_state(b)],
        [neighbor_state(c, layer=1), neighbor_state(d, layer=1, pairs=pairs)],
    ]
    snapshots = []
    for step in steps:
        snapshots.append(cloud.one.footprint())
        cloud.one.program(*step)
    whole = cloud.one.footprint()
    cloud.one.program(router)
    assert cloud.one.footprint() != whole
    cloud.one.program(router_state("leaves-nothing", [blue, green], update_type=common_pb2.FULL))
    assert cloud.one.footprint() == whole

    for step, snapshot in zip(reversed(steps), reversed(snapshots), strict=True):
        cloud.one.program(*map(deletion, step))
        eventually(lambda expected=snapshot: cloud.one.footprint() == expected, f"as before {step}")  # type: ignore[misc]


def test_deletions_in_the_wrong_order_leave_nothing_behind(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    blue, green = vpc.subnet("10.0.1.0/24"), vpc.subnet("10.0.2.0/24")
    a, d = vpc.nic(cloud.one, blue), vpc.nic(cloud.two, green)
    cloud.guests(a)
    before = cloud.one.footprint()
    states: list[State] = [
        vpc_state(vpc.id),
        subnet_state(blue),
        subnet_state(green),
        router_state("wrong-order", [blue, green]),
        port_state(a),
        dhcp_state(a),
        neighbor_state(d, layer=1),
    ]
    cloud.one.program(*states)
    for state in states:
        reply = cloud.one.push(deletion(state))
        assert not reply.troubles, reply.troubles
    eventually(lambda: cloud.one.footprint() == before, "as before")
    assert cloud.one.agent.status()["problems"] == []


def test_deletions_of_unknown_things_succeed(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    nic = vpc.nic(cloud.one, net)
    before = cloud.one.footprint()
    states: list[State] = [
        vpc_state(vpc.id),
        subnet_state(net),
        router_state("unknown", [net]),
        port_state(nic),
        neighbor_state(nic),
        dhcp_state(nic),
    ]
    for push in (cloud.one.push, cloud.one.push_v1):
        reply = push(*map(deletion, states))
        assert not reply.troubles, reply.troubles
        assert {kind for kind, *_ in reply.statuses} >= {"PORT", "NEIGHBOR", "ROUTER", "DHCP"}
    assert cloud.one.footprint() == before


def test_own_ports_sent_as_neighbours(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.one, net)
    guest, _ = cloud.guests(a, b)
    cloud.one.program(subnet_state(net), port_state(a), port_state(b))
    before = cloud.one.footprint()

    cloud.one.program(neighbor_state(a), neighbor_state(b))
    assert cloud.one.footprint() == before
    assert guest.ping(b.ip).received == 1
    cloud.one.program(deletion(neighbor_state(b)))
    assert guest.ping(b.ip).received == 1


def test_two_neighbours_that_claim_one_address(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a = vpc.nic(cloud.one, net)
    first, second = vpc.nic(cloud.two, (net, 50)), vpc.nic(cloud.two, (net, 50))
    guest, one, two = cloud.guests(a, first, second)
    cloud.one.program(subnet_state(net), port_state(a), neighbor_state(first))
    cloud.two.program(subnet_state(net), port_state(first), neighbor_state(a))
    assert guest.arp(first.ip) == first.mac

    cloud.one.program(neighbor_state(second))
    eventually(lambda: guest.arp(first.ip) == second.mac, "the last wins")
    (conflict,) = [one for one in cloud.one.agent.status()["conflicts"] if one["subnet"] == net.id]
    assert conflict["address"] == first.ip
    assert conflict["holder"] == second.id
    assert conflict["others"] == [first.id]

    cloud.one.program(deletion(neighbor_state(second)))
    eventually(lambda: guest.arp(first.ip) == first.mac, "the other returns")
    assert guest.can_reach(first.ip)
    assert cloud.one.agent.status()["conflicts"] == []


def test_the_same_neighbour_under_two_ids(cloud: Cloud) -> None:
    """What the on-demand path and the push path of real controllers leave: one interface, two ids, no conflict."""
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, _ = cloud.guests(a, b)
    cloud.announce(vpc)
    cloud.one.program(neighbor_state(b, neighbor_id=f"{b.id}_n"))
    assert cloud.one.agent.status()["conflicts"] == []
    for gone in (neighbor_state(b), neighbor_state(b, neighbor_id=f"{b.id}_n")):
        assert guest.ping(b.ip).received == 1
        cloud.one.program(deletion(gone))
    assert severed(guest, b.ip)


def test_two_local_ports_that_claim_one_address(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a = vpc.nic(cloud.one, net)
    first, second = vpc.nic(cloud.one, (net, 50)), vpc.nic(cloud.one, (net, 50))
    guest, *_ = cloud.guests(a, first, second)
    cloud.one.program(subnet_state(net), port_state(a), port_state(first))
    assert guest.arp(first.ip) == first.mac
    cloud.one.program(port_state(second))
    eventually(lambda: guest.arp(first.ip) == second.mac, "the last wins")
    (conflict,) = [one for one in cloud.one.agent.status()["conflicts"] if one["subnet"] == net.id]
    assert (conflict["holder"], conflict["others"]) == (second.id, [first.id])

    cloud.one.program(port_state(first))
    eventually(lambda: guest.arp(first.ip) == first.mac, "the last word counts")
    cloud.one.program(deletion(port_state(first)))
    eventually(lambda: guest.arp(first.ip) == second.mac, "the other returns")


def test_a_local_port_beats_a_neighbour_of_the_same_address(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, here, there = vpc.nic(cloud.one, net), vpc.nic(cloud.one, (net, 50)), vpc.nic(cloud.two, (net, 50))
    guest, *_ = cloud.guests(a, here, there)
    cloud.two.program(subnet_state(net), port_state(there), neighbor_state(a))
    cloud.one.program(subnet_state(net), port_state(a), port_state(here))
    cloud.one.program(neighbor_state(there))
    assert guest.arp(here.ip) == here.mac
    assert guest.ping(here.ip).received == 1

    cloud.one.program(deletion(port_state(here)))
    eventually(lambda: guest.arp(here.ip) == there.mac, "the neighbour is left")
    cloud.one.program(port_state(here))
    eventually(lambda: guest.arp(here.ip) == here.mac, "the port is back")


def test_an_id_that_stands_twice_in_one_message(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, _ = cloud.guests(a, b)
    cloud.announce(vpc)
    wrong = neighbor_state(b.but(mac="aa:bb:cc:00:00:01", host_ip="172.16.0.99"))
    reply = cloud.one.push_v1(wrong, neighbor_state(b))
    assert [status for *_, status in reply.statuses] == ["SUCCESS", "SUCCESS"]
    assert guest.arp(b.ip) == b.mac
    assert guest.can_reach(b.ip)


def test_a_port_that_is_deleted_and_made_anew_in_one_message(cloud: Cloud) -> None:
    """With the same id in another VPC."""
    old, new = cloud.vpc(), cloud.vpc()
    net, other = old.subnet("10.0.1.0/24"), new.subnet("10.0.1.0/24")
    a, b, c, d = (vpc.nic(site, subnet) for vpc, subnet in ((old, net), (new, other)) for site in cloud.sites)
    guest, left, near, far = cloud.guests(a, b, c, d)
    cloud.announce(old)
    cloud.announce(new)
    assert guest.ping(b.ip).received == 1

    moved = a.but(vpc_id=new.id, mac="aa:bb:cc:dd:ee:03", addresses=((other, other.at(77)),))
    cloud.one.succeeds(cloud.one.push_v1(deletion(port_state(a)), port_state(moved)))
    cloud.two.succeeds(cloud.two.push_v1(deletion(neighbor_state(a)), neighbor_state(moved)))
    guest.set_mac(moved.mac)
    guest.remove_ip(net.with_length(a.ip))
    guest.add_ip(other.with_length(moved.ip))
    for one, nic in ((near, c), (far, d)):
        assert one.ping(moved.ip, count=2).received == 2
        assert guest.ping(nic.ip).received == 1
    assert left.arp(moved.ip, within=0.3) is None
    assert left.arp(a.ip, within=0.3) is None


def test_a_port_of_two_addresses_as_two_states(cloud: Cloud) -> None:
    """How V1 controllers send a port with several addresses."""
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, both = vpc.nic(cloud.one, net), vpc.nic(cloud.one, (net, 50), (net, 51))
    guest, owner = cloud.guests(a, both)
    cloud.one.program(subnet_state(net), port_state(a))
    states = [port_state(both.but(addresses=(one,))) for one in both.addresses]
    reply = cloud.one.push_v1(*states)
    assert len(reply.statuses) == 2
    cloud.one.succeeds(reply)
    for _, address in both.addresses:
        assert guest.ping(address).received == 1
    assert owner.ping(a.ip).received == 1


def test_several_messages_on_one_stream(cloud: Cloud) -> None:

    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    guest, _ = cloud.guests(a, b)
    cloud.two.program(subnet_state(net), port_state(b), neighbor_state(a))
    states: list[State] = [subnet_state(net), port_state(a), neighbor_state(b)]
    cloud.one.remember(states)
    replies = cloud.one.agent.push_v2(v2(), *map(v2, states), v2())
    assert [len(reply.operation_statuses) for reply in replies[::4]] == [0, 0]
    assert len(replies) == 5
    for reply in replies:
        cloud.one.succeeds(Reply.of(reply))
    assert guest.can_reach(b.ip)


def test_replies_say_what_they_must(cloud: Cloud) -> None:
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.1.0/24")
    a, b = vpc.nic(cloud.one, net), vpc.nic(cloud.two, net)
    cloud.guests(a)
    states: list[State] = [subnet_state(net), port_state(a), neighbor_state(b)]
    cloud.one.program(subnet_state(net), port_state(a, pairs=[("10.0.1.200", "")]))
    cloud.one.remember(states)
    message = v1(*states)
    message.format_version = 101
    reply = cloud.one.send(message)
    assert reply.wire.format_version == 101
    assert reply.wire.message_total_operation_time > 0
    by_kind = {common_pb2.ResourceType.Name(one.resource_type): one for one in reply.wire.operation_statuses}
    port = by_kind["PORT"]
    assert (port.resource_id, port.operation_type) == (a.id, common_pb2.CREATE)
    assert 0 < port.dataplane_programming_time <= reply.wire.message_total_operation_time
    assert 0 < port.state_elapse_time <= reply.wire.message_total_operation_time


def test_clients_that_contradict_each_other(cloud: Cloud) -> None:
    """Eight controllers push revisions of the same neighbours in different orders: the highest of each counts."""
    vpc = cloud.vpc()
    net = vpc.subnet("10.0.0.0/16")
    a = vpc.nic(cloud.one, net)
    cloud.guests(a)
    cloud.one.program(subnet_state(net), port_state(a))
    empty = cloud.one.footprint()
    nics = [vpc.nic(cloud.two, (net, 1000 + n)) for n in range(100)]

    def states(revision: int) -> list[State]:
        end = f"172.16.9.{revision}"
        changed = [nic.but(host_ip=end, mac=f"aa:{revision:02x}{nic.mac[5:]}") for nic in nics]
        return [neighbor_state(nic, revision=revision) for nic in changed]

    cloud.one.remember(states(1))

    def client(number: int) -> None:
        for revision in sorted(range(1, 9), key=lambda r: (r * (number + 3)) % 11):
            cloud.one.agent.push_v1(v1(*states(revision)))

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(client, number) for number in range(8)]:
            done.result(60.0)
    after = cloud.one.footprint()
    assert cloud.one.push(*states(7)).troubles[0][2] == "OUT_OF_ORDER"

    cloud.one.program(*(deletion(state) for state in states(8)))
    assert cloud.one.footprint() == empty
    cloud.one.program(*states(8))
    assert cloud.one.footprint() == after
