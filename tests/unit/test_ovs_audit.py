"""Comparing what stands with what should, without a switch: what counts as drift, as a leftover, as the agent's own."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from dataplane.model import Key, Kind, NeighborWanted, NetworkType, Segment, SubnetRef
from dataplane.ovs.activity import Activity
from dataplane.ovs.book import FlowBook, Owner, Transaction
from dataplane.ovs.comparison import compare
from dataplane.ovs.drift import Changed, DriftWatch
from dataplane.ovs.members import Members
from dataplane.ovs.neighbors import NeighborBook
from dataplane.ovs.openflow import actions, messages, oxm
from dataplane.ovs.openflow.errors import DecodeError
from dataplane.ovs.openflow.messages import FlowStat, FlowUpdates
from dataplane.ovs.ovsdb import BridgeState, OvsdbError
from dataplane.ovs.pipeline.layout import COOKIE_MARK, PIPELINE_VERSION, Feature, Flow, cookie
from dataplane.ovs.pipeline.neighbor import flow_maker, neighbor_flows
from dataplane.ovs.surveyor import Surveyor
from dataplane.ovs.takeover import other_agent, take_over
from dataplane.ovs.work import Work
from tests.unit.desired_world import THERE, neighbor
from tests.unit.fake_plane import WAIT_S, FlowTable

REF = SubnetRef("s", Segment(NetworkType.VXLAN, 10))
PORT: Owner = (Feature.PORT, "p")
OTHER: Owner = (Feature.PORT, "q")
FLOWS = [Flow(60, priority, oxm.in_port(priority), actions.goto_table(61)) for priority in range(1, 6)]


def done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class ReadableTable:
    """A FlowTable that can be read back like a switch. `before_answer` runs while an answer is on its way."""

    def __init__(self, table: FlowTable) -> None:
        self.table = table
        self.before_answer = lambda: None

    def stats(self, cookie: int, mask: int, table: int = messages.TABLE_ALL) -> list[FlowStat]:
        found = [
            FlowStat(*identity[:2], mark, identity[2], instructions, 0, 0)
            for identity, (mark, instructions) in self.table.flows.items()
            if not (mark ^ cookie) & mask and table in (messages.TABLE_ALL, identity[0])
        ]
        self.before_answer()
        return found

    def aggregate(self, cookie: int, mask: int, table: int = messages.TABLE_ALL) -> Future[int]:
        return done(len(self.stats(cookie, mask, table)))

    def dump_flows(self, table: int = 255, cookie: int = 0, mask: int = 0) -> Future[list[FlowStat]]:
        return done(self.stats(cookie, mask, table))

    def flows_of(self, cookies: Sequence[int]) -> Future[list[FlowStat]]:
        return done([flow for one in cookies for flow in self.stats(one, messages.COOKIE_EXACT)])


class World:
    """A port with five flows and two neighbours, on a switch that has them."""

    def __init__(self) -> None:
        self.book = FlowBook()
        self.neighbors = NeighborBook(Members())
        self.activity = Activity()
        self.table = FlowTable()
        self.switch: Any = ReadableTable(self.table)
        self.surveyor = Surveyor(threading.RLock(), self.book, self.neighbors, self.activity, WAIT_S)
        transaction = Transaction()
        self.book.set(transaction, PORT, Key(Kind.PORT, "p"), FLOWS)
        self.neighbors.upsert([self.neighbor("n"), self.neighbor("m", "10.0.0.8")], transaction)
        self.send(transaction)

    def neighbor(self, name: str, ip: str = "10.0.0.7") -> NeighborWanted:
        mac = f"fa:16:3e:00:02:{ord(name):02x}"
        return NeighborWanted(neighbor(name, f"s {ip}", mac=mac, host=THERE), (REF,))

    def send(self, transaction: Transaction) -> None:
        for body in transaction.take()[0]:
            self.table.apply(body)

    def working(self) -> Work:
        """A call of `apply` that changes the port."""
        work = Work(self.switch)
        work.transaction.delete_owner(cookie(*PORT), (), (Key(Kind.PORT, "p"), PORT))
        self.activity.begin(work)
        return work

    def lose(self, count: int) -> None:
        for identity in list(self.table.flows)[:count]:
            del self.table.flows[identity]


def test_nothing_is_wrong_with_what_is_as_it_should_be() -> None:
    world = World()
    found = world.surveyor.look_at_all(world.switch)
    assert found.standing == 9 and not (found.missing or found.altered or found.leftovers)
    assert world.surveyor.surplus(world.switch) == 0


def test_what_is_lost_is_missing_and_whose_it_is_is_told() -> None:
    world = World()
    world.lose(6)
    found = world.surveyor.look_at_all(world.switch)
    assert len(found.missing) == 6 and PORT in found.owners() and len(found.owners()) == 2
    assert world.surveyor.surplus(world.switch) == -6


@pytest.mark.parametrize("cookie_too", [False, True])
def test_what_does_something_else_is_altered_unless_it_is_somebody_elses(cookie_too: bool) -> None:
    world = World()
    identity, (mark, _) = next(iter(world.table.flows.items()))
    world.table.flows[identity] = (5 if cookie_too else mark, b"")
    found = world.surveyor.look_at_all(world.switch)
    assert (len(found.missing), len(found.altered)) == ((1, 0) if cookie_too else (0, 1))
    assert not found.leftovers


def test_fields_in_another_order_are_the_same_match() -> None:
    match = oxm.metadata(7) + oxm.xreg(2, 9) + oxm.in_port(3)
    spelled = oxm.in_port(3) + oxm.reg(4, 0) + oxm.reg(5, 9) + oxm.metadata(7)
    found = compare({(1, 2, match): (3, b"")}, [FlowStat(1, 2, 3, spelled, b"", 0, 0)])
    assert not (found.missing or found.altered or found.unknown)


def test_what_nobody_wants_is_a_leftover_if_it_is_ours() -> None:
    world = World()
    stale = (51, 100, oxm.eth_dst(bytes(6)))
    world.table.flows[stale] = (cookie(Feature.NEIGHBOR, "gone"), b"")
    world.table.flows[(51, 99, b"")] = (cookie(Feature.NEIGHBOR, "waiting"), b"")
    for foreign, mark in enumerate((0, 0xB0B, Feature.PORT << 48 | 77, (COOKIE_MARK + 1) << 56)):
        world.table.flows[(51, foreign, b"")] = (mark, b"")
    found = world.surveyor.look_at_all(world.switch, {cookie(Feature.NEIGHBOR, "waiting")})
    assert [flow.match for flow in found.leftovers] == [stale[2]]
    nowhere = (200, 1, b"")
    world.table.flows[nowhere] = (cookie(Feature.STATIC, "gone"), b"")
    assert len(world.surveyor.look_at_all(world.switch, {cookie(Feature.NEIGHBOR, "waiting")}).leftovers) == 2
    assert world.surveyor.unaccounted(found.leftovers) == found.leftovers
    transaction = Transaction()
    world.neighbors.upsert([world.neighbor("g", "10.0.0.9")], transaction)
    flows = neighbor_flows(world.neighbor("g", "10.0.0.9"))
    wanted = [FlowStat(*one[:2], cookie(Feature.NEIGHBOR, "g"), *one[2:], 0, 0) for one in flows]
    assert world.surveyor.unaccounted(wanted) == [], "it has come to be wanted"


def test_what_is_being_programmed_is_no_drift() -> None:
    world = World()
    work = world.working()
    world.lose(5)
    assert not world.surveyor.look_at_all(world.switch).missing
    assert not world.surveyor.look_at(world.switch, [PORT]).missing
    assert world.surveyor.surplus(world.switch) is None
    world.activity.end(work)
    assert len(world.surveyor.look_at(world.switch, [PORT]).missing) == 5


def test_what_was_programmed_while_the_answer_came_is_no_drift() -> None:
    world = World()
    world.lose(5)
    world.switch.before_answer = lambda: world.activity.end(world.working())
    assert not world.surveyor.look_at_all(world.switch).missing


def test_what_is_in_doubt_is_neither_missing_nor_a_leftover() -> None:
    world = World()
    world.lose(5)
    world.book.doubt(PORT)
    world.neighbors.doubt("n")
    found = world.surveyor.look_at_all(world.switch)
    assert not (found.missing or found.leftovers)


def test_a_flow_that_another_owner_holds_is_missing_of_nobody() -> None:
    world = World()
    transaction = Transaction()
    world.book.set(transaction, OTHER, Key(Kind.PORT, "q"), FLOWS[:2])
    world.send(transaction)
    found = world.surveyor.look_at_all(world.switch)
    assert not (found.missing or found.altered or found.leftovers)
    assert world.surveyor.surplus(world.switch) == 0


def test_every_owner_is_read_in_turn() -> None:
    world = World()
    world.lose(5)
    assert len(world.surveyor.look_further(world.switch).missing) == 5
    world.lose(4)
    assert len(world.surveyor.look_further(world.switch).missing) == 9


def test_owners_are_found_by_their_cookies() -> None:
    world = World()
    cookies = [cookie(*PORT), cookie(Feature.NEIGHBOR, "m"), cookie(Feature.NEIGHBOR, "unknown"), 5]
    assert set(world.surveyor.owners_of(cookies)) == {PORT, (Feature.NEIGHBOR, "m")}


def test_the_fast_maker_says_what_the_flows_say() -> None:
    wanted = World().neighbor("n")
    made = flow_maker(REF)(wanted.neighbor.fixed_ips[0].address, wanted.neighbor.mac, THERE)
    assert made == tuple(part for flow in neighbor_flows(wanted) for part in (flow.match, flow.instructions))


def test_counts_follow_every_change_of_a_neighbour() -> None:
    world = World()
    transaction = Transaction()
    one = world.neighbor("n")
    assert world.neighbors.flow_count() == 4
    world.neighbors.upsert([one._replace(lost=frozenset({("s", one.neighbor.mac)}))], transaction)
    assert world.neighbors.flow_count() == 3
    world.neighbors.doubt_all()
    assert world.neighbors.flow_count() == 0
    world.neighbors.upsert([one, world.neighbor("m", "10.0.0.8")], transaction)
    assert world.neighbors.flow_count() == 4
    world.neighbors.remove(["n", "m"], transaction)
    world.send(transaction)
    assert world.neighbors.flow_count() == 0
    assert len(world.table.flows) == 5


def test_after_a_restart_of_the_switch_all_neighbours_are_sent_again_and_counted_once() -> None:
    world = World()
    world.table.flows.clear()
    world.neighbors.doubt_all()
    transaction = Transaction()
    both = [world.neighbor("n"), world.neighbor("m", "10.0.0.8")]
    world.neighbors.upsert(both, transaction)
    world.send(transaction)
    assert len(world.table.flows) == 4
    world.neighbors.remove(["n", "m"], transaction)
    assert world.neighbors._members.subnet("s") is None, "each is a member once"


# -- reports of changes


def test_changes_are_told_together_and_too_many_at_large() -> None:
    told: list[Changed] = []
    came = threading.Semaphore(0)

    def look(changed: Changed) -> None:
        told.append(changed)
        came.release()

    quiet = threading.Event()
    watch = DriftWatch(look, quiet.is_set)
    watch.start()
    try:
        watch.note(FlowUpdates([1, 2], False))
        watch.note(FlowUpdates([3], False))
        assert came.acquire(timeout=WAIT_S)
        watch.note(FlowUpdates([4], True))
        quiet.set()
        assert came.acquire(timeout=WAIT_S)
    finally:
        watch.close()
    assert told == [frozenset({1, 2, 3}), None]


def test_updates_are_decoded_and_nonsense_is_refused() -> None:
    full = bytes.fromhex("0018 0002 32 02 0000 0000 0064 00000000 a204000000000001".replace(" ", ""))
    paused = bytes.fromhex("0008 0005 00000000".replace(" ", ""))
    assert messages.decode_flow_updates(full + paused) == FlowUpdates([0xA204000000000001], True)
    for broken in (full[:-1], full[:3], b"\0\4\0\2", paused[:2] + b"\0\2" + paused[4:]):
        with pytest.raises(DecodeError):
            messages.decode_flow_updates(broken)


def test_what_ended_long_ago_is_forgotten_unless_somebody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    activity = Activity()
    work = Work(World().switch)
    with activity.watch() as began:
        activity.begin(work)
        activity.end(work)
        now[0] += 60.0
        other = Work(work.programmer)
        activity.begin(other)
        activity.end(other)
        assert activity.since(began).works == (work, other)
    assert activity.since(began).works == (other,)


# -- versions of the pipeline


def bridge(**ids: str) -> BridgeState:
    external_ids = {key.replace("_", "-"): value for key, value in ids.items()}
    return BridgeState("br-int", "1", "", "secure", frozenset(), external_ids, {}, {}, False, 0)


def test_a_bridge_without_an_agent_has_nothing_former() -> None:
    assert not take_over(None).former and not take_over(bridge()).former
    assert not take_over(bridge(aca_owner="aca", aca_pipeline=str(PIPELINE_VERSION))).former


def test_a_former_version_is_remembered_until_it_is_swept() -> None:
    first = take_over(bridge(aca_owner="aca"))
    assert first.former == {1} and first.marks == (0,) and not first.harmful_flows
    again = take_over(bridge(**{key.replace("-", "_"): value for key, value in first.external_ids}))
    assert again == first


@pytest.mark.parametrize("version", [str(PIPELINE_VERSION + 1), "0", "two"])
def test_what_is_not_understood_is_not_touched(version: str) -> None:
    with pytest.raises(OvsdbError, match="nothing is touched"):
        take_over(bridge(aca_owner="aca", aca_pipeline=version))


def test_the_agent_that_has_the_bridge_is_known_by_its_name() -> None:
    assert other_agent(None, "me") == ""
    assert other_agent(bridge(aca_owner="aca"), "me") == ""
    assert other_agent(bridge(aca_agent="me"), "me") == ""
    assert other_agent(bridge(aca_agent="another"), "me") == "another"
