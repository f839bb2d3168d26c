"""The book of what stands in the transit daemon, against the test daemon."""

from collections.abc import Iterator

import pytest

from dataplane.mizar import procedures as p
from dataplane.mizar import values as v
from dataplane.mizar.client import Client, Settings
from dataplane.mizar.errors import ValueRefused
from dataplane.mizar.limits import HOSTED_ENDPOINTS
from dataplane.mizar.procedures import Call
from dataplane.mizar.standing import Book, changes, entries
from tests.lab.transitd import TransitDaemon

ETH = "eth0"
HOST, PEER = bytes([172, 16, 0, 1]), bytes([172, 16, 0, 2])
HOST_MAC, PEER_MAC = bytes.fromhex("0200ac100001"), bytes.fromhex("0200ac100002")
NETWORK = v.Network(ETH, 24, 3, bytes([10, 0, 0, 0]), (HOST,))


def shared() -> list[Call]:
    return [
        p.UPDATE_EP(v.Endpoint(ETH, bytes([10, 0, 0, 200]), v.EndpointType.SIMPLE, (PEER,), bytes(6), tunid=3)),
        p.UPDATE_VPC(v.Vpc(ETH, 3, (HOST,))),
        p.UPDATE_NET(NETWORK),
        p.UPDATE_EP(v.substrate(ETH, PEER, PEER_MAC)),
    ]


def port(number: int, mac_end: int = 0) -> list[Call]:
    peer = f"peer{number}"
    ip, mac = bytes([10, 0, 0, number]), bytes([2, 0, 0, 0, mac_end, number])
    endpoint = v.Endpoint(ETH, ip, v.EndpointType.SIMPLE, (HOST,), mac, peer, "", 3)
    return [
        p.UPDATE_EP(endpoint),
        p.UPDATE_AGENT_MD(v.AgentMetadata(peer, v.TunIntf(ETH, HOST, HOST_MAC), endpoint, NETWORK)),
        p.UPDATE_AGENT_EP(v.substrate(peer, HOST, HOST_MAC)),
        p.LOAD_TRANSIT_AGENT_XDP(v.XdpIntf(peer, "/agent.o")),
    ]


def names(calls: list[Call]) -> list[str]:
    return [call.procedure.name for call in calls]


@pytest.fixture
def daemon() -> Iterator[TransitDaemon]:
    with TransitDaemon() as daemon:
        yield daemon


@pytest.fixture
def client(daemon: TransitDaemon) -> Iterator[Client]:
    client = Client(Settings(port=daemon.tcp_port, patience_s=5.0))
    load(client)
    yield client
    client.close()


def load(client: Client) -> None:
    assert client.run([p.LOAD_TRANSIT_XDP(v.XdpIntf(ETH, "/transit.o"))])[0].done


def settle(client: Client, book: Book, wanted: list[Call]) -> list[str]:
    calls = book.changes(entries(wanted))
    book.note(client.run(calls))
    return names(calls)


def test_maps_come_first_and_a_port_is_complete_before_the_next() -> None:
    one = ["LOAD_TRANSIT_AGENT_XDP", "UPDATE_AGENT_EP", "UPDATE_AGENT_MD", "UPDATE_EP"]
    put = changes({}, entries([*port(2), *port(1), *shared()]), {})
    assert names(put) == ["UPDATE_EP", "UPDATE_NET", "UPDATE_VPC", "UPDATE_EP", *one, *one]
    assert put[0].argument == v.substrate(ETH, PEER, PEER_MAC)


def test_deletes_are_in_reverse_and_leave_nothing(daemon: TransitDaemon, client: Client) -> None:
    book = Book()
    settle(client, book, [*shared(), *port(1)])
    assert settle(client, book, []) == [
        "DELETE_EP",
        "DELETE_AGENT_MD",
        "DELETE_AGENT_EP",
        "UNLOAD_TRANSIT_AGENT_XDP",
        "DELETE_EP",
        "DELETE_VPC",
        "DELETE_NET",
        "DELETE_EP",
    ]
    assert daemon.state.empty and not daemon.state.agents and not daemon.state.leaked and not book.standing


def test_what_stands_is_not_called_again(daemon: TransitDaemon, client: Client) -> None:
    book = Book()
    settle(client, book, [*shared(), *port(1)])
    assert settle(client, book, [*port(1), *shared()]) == []
    settle(client, book, [*shared(), *port(1), *port(2)])
    assert daemon.state.count("update_agent_md") == 2 and daemon.state.duplicates == 0


def test_changed_ports_leak_no_slot(daemon: TransitDaemon, client: Client) -> None:
    book = Book()
    for turn in range(2 * HOSTED_ENDPOINTS):
        settle(client, book, [*shared(), *port(1, turn % 256)])
    assert daemon.state.leaked == 0 and len(daemon.state.slots) == 2
    assert settle(client, book, [*shared(), *port(1, 255)])[0] == "DELETE_EP"


def test_a_full_host_changes_a_port_for_another(daemon: TransitDaemon, client: Client) -> None:
    book = Book()
    full = [call for number in range(1, HOSTED_ENDPOINTS + 1) for call in port(number)]
    settle(client, book, [*shared(), *full])
    settle(client, book, [*shared(), *full[4:], *port(180)])
    assert daemon.state.leaked == 0 and len(daemon.state.slots) == HOSTED_ENDPOINTS + 1
    assert book.changes(entries([*shared(), *full[4:], *port(180)])) == []


def test_an_endpoint_that_moves_away_gives_its_slot_back(daemon: TransitDaemon, client: Client) -> None:
    book = Book()
    settle(client, book, [*shared(), *port(1)])
    away = p.UPDATE_EP(v.Endpoint(ETH, bytes([10, 0, 0, 1]), v.EndpointType.SIMPLE, (PEER,), bytes(6), tunid=3))
    settle(client, book, [*shared(), away])
    assert daemon.state.leaked == 0 and len(daemon.state.slots) == 1 and len(daemon.state.table("ep")) == 3


def test_a_restarted_daemon_gets_everything(daemon: TransitDaemon, client: Client) -> None:
    book = Book()
    settle(client, book, [*shared(), *port(1)])
    before = {name: set(table) for name, table in daemon.state.maps.items() if table}
    daemon.restart()
    client.health()
    load(client)
    book.forget()
    settle(client, book, [*shared(), *port(1)])
    assert {name: set(table) for name, table in daemon.state.maps.items() if table} == before


def test_a_sticky_load_failure_is_overruled_by_the_metadata(daemon: TransitDaemon, client: Client) -> None:
    daemon.state.bad_paths.add("/bad.o")
    assert not client.run([p.LOAD_TRANSIT_AGENT_XDP(v.XdpIntf("other", "/bad.o"))])[0].done
    book = Book()
    settle(client, book, [*shared(), *port(1)])
    assert book.changes(entries([*shared(), *port(1)])) == []


def test_a_load_that_did_nothing_is_made_again(daemon: TransitDaemon, client: Client) -> None:
    daemon.state.forgetful.add("peer1")
    book = Book()
    settle(client, book, [*shared(), *port(1)])
    assert daemon.state.agents == set()
    settle(client, book, [*shared(), *port(1)])
    assert daemon.state.agents == {"peer1"} and len(daemon.state.table("agent_md")) == 1
    assert daemon.state.leaked == 0 and book.changes(entries([*shared(), *port(1)])) == []


def test_an_unconfirmed_port_is_taken_away_whole(daemon: TransitDaemon, client: Client) -> None:
    daemon.state.known = {ETH}
    book = Book()
    settle(client, book, [*shared(), *port(1)])
    settle(client, book, [])
    assert daemon.state.empty and book.changes({}) == []


def test_what_the_daemon_cannot_serve_is_refused() -> None:
    crowd = [call for number in range(1, HOSTED_ENDPOINTS + 2) for call in port(number)]
    with pytest.raises(ValueRefused, match="at most 127 on one host"):
        entries(crowd)
    with pytest.raises(ValueRefused, match="24 bits"):
        entries([p.UPDATE_VPC(v.Vpc(ETH, 1 << 24, (HOST,)))])
    with pytest.raises(ValueRefused, match="two entries of one key"):
        entries([*port(1), *port(1, 9)])


def test_networks_that_differ_in_host_bits_are_one_entry() -> None:
    with pytest.raises(ValueRefused, match="two entries of one key"):
        entries([p.UPDATE_NET(NETWORK), p.UPDATE_NET(v.Network(ETH, 24, 3, bytes([10, 0, 0, 7]), (HOST,)))])


def test_another_mac_of_a_port_takes_three_calls(daemon: TransitDaemon, client: Client) -> None:
    book = Book()
    settle(client, book, [*shared(), *port(1)])
    assert settle(client, book, [*shared(), *port(1, 9)]) == ["DELETE_EP", "UPDATE_AGENT_MD", "UPDATE_EP"]


def test_what_never_went_out_leaves_the_book_as_it_was(daemon: TransitDaemon, client: Client) -> None:
    book = Book()
    settle(client, book, [*shared(), *port(1)])
    before = book.standing
    daemon.stop()
    client.close()
    settle(client, book, [])
    assert book.standing == before
