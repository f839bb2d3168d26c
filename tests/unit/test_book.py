"""What is sent so that the switch has each owner's flows."""

from __future__ import annotations

from dataplane.model import Key, Kind
from dataplane.ovs.book import FlowBook, Owner, Transaction
from dataplane.ovs.openflow import actions, oxm
from dataplane.ovs.pipeline.layout import Feature, Flow, cookie
from tests.unit.fake_plane import FlowTable

A: Owner = (Feature.PORT, "a")
B: Owner = (Feature.PORT, "b")
C: Owner = (Feature.PORT, "c")


def flow(port: int, table: int = 60, priority: int = 10) -> Flow:
    return Flow(table, priority, oxm.in_port(port), actions.goto_table(table + 1))


def other(port: int) -> Flow:
    return flow(port)._replace(instructions=b"")


class Book:
    """A book and a switch that gets what it says."""

    def __init__(self) -> None:
        self.book = FlowBook()
        self.table = FlowTable()

    def set(self, owner: Owner, *flows: Flow, whole: bool = False) -> int:
        """Returns the number of flow-mods."""
        transaction = Transaction()
        self.book.set(transaction, owner, Key(Kind.PORT, owner[1]), flows, whole=whole)
        return self._send(transaction)

    def delete(self, owner: Owner) -> int:
        transaction = Transaction()
        self.book.delete(transaction, owner, Key(Kind.PORT, owner[1]))
        return self._send(transaction)

    def _send(self, transaction: Transaction) -> int:
        bodies, blamed = transaction.take()
        assert len(bodies) == len(blamed)
        for body in bodies:
            self.table.apply(body)
        return len(bodies)

    def shows(self, expected: dict[Owner, list[Flow]]) -> bool:
        """The switch has exactly these."""
        wanted = {
            one[:3]: (cookie(*owner), one.instructions) for owner, flows in expected.items() for one in flows
        }
        return self.table.flows == wanted


def test_only_the_difference_is_sent() -> None:
    book = Book()
    assert book.set(A, flow(1), flow(2)) == 2
    assert book.set(A, flow(1), flow(2)) == 0
    assert book.set(A, flow(2), flow(3), other(1)) == 2
    assert book.shows({A: [other(1), flow(2), flow(3)]})
    assert book.set(A) == 3
    assert book.shows({}) and book.book.flow_count() == 0
    assert book.set(A) == 0


def test_after_a_doubt_everything_is_sent_again() -> None:
    book = Book()
    book.set(A, flow(1), flow(2))
    book.set(B, flow(3))
    book.table.flows.clear()
    book.book.doubt_all()
    book.set(A, flow(1))
    book.set(B, flow(3))
    assert book.shows({A: [flow(1)], B: [flow(3)]})
    book.book.doubt(A)
    # What stood before the doubt may stand still, whatever is wanted since: it all goes, in the same bundle.
    book.table.flows[flow(9)[:3]] = (cookie(*A), b"")
    assert book.set(A, flow(1)) == 2
    assert book.set(B, flow(3)) == 0
    assert book.shows({A: [flow(1)], B: [flow(3)]})


def test_a_removal_in_doubt_is_sent_again() -> None:
    book = Book()
    book.set(A, flow(1))
    lost = dict(book.table.flows)
    book.set(A)
    book.table.flows = lost
    book.book.doubt(A)
    book.set(A)
    assert book.shows({}) and not book.book._doubtful


def test_of_two_alike_flows_of_one_owner_the_last_counts() -> None:
    book = Book()
    book.set(A, other(1), flow(1))
    assert book.set(A, other(1), flow(1)) == 0
    assert book.shows({A: [flow(1)]})


def test_a_flow_that_another_has_taken_over_survives_the_removal() -> None:
    book = Book()
    book.set(A, flow(1))
    book.set(B, other(1))
    book.set(A)
    assert book.shows({B: [other(1)]})


def test_a_flow_goes_back_to_who_had_it_before() -> None:
    book = Book()
    book.set(A, flow(1), flow(2))
    book.set(B, other(1))
    book.set(C, other(1), flow(3))
    assert book.shows({A: [flow(2)], C: [other(1), flow(3)]})
    book.set(B)
    book.set(C, flow(3))
    assert book.shows({A: [flow(1), flow(2)], C: [flow(3)]})


def test_an_owner_that_is_overridden_changes_without_taking_over() -> None:
    book = Book()
    book.set(A, flow(1))
    book.set(B, flow(1))
    assert book.set(A, other(1)) == 0
    book.set(B)
    assert book.shows({A: [other(1)]})


def test_in_doubt_the_overridden_stay_overridden() -> None:
    book = Book()
    book.set(A, flow(1))
    book.set(B, other(1))
    book.table.flows.clear()
    book.book.doubt_all()
    book.set(B, other(1))
    book.set(A, flow(1))
    assert book.shows({B: [other(1)]})


def test_flows_of_an_earlier_agent_are_removed_by_their_mark() -> None:
    book = Book()
    book.table.flows = {flow(1)[:3]: (cookie(*A), b""), flow(2)[:3]: (cookie(*B), b"")}
    book.delete(A)
    assert len(book.table.flows) == 2
    book.book.inherited = True
    # What merely cannot be programmed now is no reason to take away what stands.
    assert book.set(A) == 0
    assert len(book.table.flows) == 2
    book.delete(A)
    assert list(book.table.flows) == [flow(2)[:3]]


def test_the_first_whole_form_of_an_owner_sweeps_what_an_earlier_agent_left_of_it() -> None:
    book = Book()
    book.book.inherited = True
    book.table.flows = {flow(1)[:3]: (cookie(*A), b""), flow(2)[:3]: (cookie(*B), b"")}
    book.set(A, flow(3), whole=True)
    assert flow(1)[:3] not in book.table.flows and flow(2)[:3] in book.table.flows
    assert book.set(A, flow(3), whole=True) == 0
