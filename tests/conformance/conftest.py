"""The two hosts of the scenarios, and the check after each that nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from goalstate_proto import common_pb2
from tests.conformance.cloud import SETTLE, Backend, Cloud, NetlinkBackend, OvsBackend, Site, numbers
from tests.lab import Lab, wait_until

# Pairs of data planes that scenarios run on: (host one's, host two's).
OVS, NETLINK = OvsBackend(), NetlinkBackend()
PAIRS: list[tuple[Backend, Backend]] = [(OVS, OVS), (NETLINK, NETLINK)]
MIXED: list[tuple[Backend, Backend]] = [(OVS, NETLINK), (NETLINK, OVS)]


@pytest.fixture(
    scope="module",
    params=[*PAIRS, *(pytest.param(pair, marks=pytest.mark.long) for pair in MIXED)],
    ids=lambda pair: "-".join(backend.name for backend in pair),
)
def backends(request: pytest.FixtureRequest) -> tuple[Backend, Backend]:
    pair: tuple[Backend, Backend] = request.param
    return pair


@pytest.fixture(scope="module")
def names() -> Iterator[int]:
    """Numbers for ids, tunnel keys and MACs: no two scenarios of a module share one."""
    return numbers()


@pytest.fixture(scope="module")
def pair_lab(tmp_path_factory: pytest.TempPathFactory, backends: tuple[Backend, Backend]) -> Iterator[Lab]:
    """A lab for one pair: the names and addresses of its hosts are the same for all pairs."""
    with Lab(tmp_path_factory.mktemp("pair"), "lab") as opened:
        yield opened


@pytest.fixture(scope="module")
def sites(pair_lab: Lab, backends: tuple[Backend, Backend]) -> Iterator[tuple[Site, Site]]:
    """Two hosts with a ready agent each."""
    hosts = [pair_lab.host(f"h{n}", dataplane=backend.name) for n, backend in enumerate(backends, 1)]
    agents = [host.agent() for host in hosts]
    for agent in agents:
        agent.wait_ready()
    one, two = (Site(host, agent, backend) for host, agent, backend in zip(hosts, agents, backends, strict=True))
    yield one, two
    for agent in agents:
        assert agent.running, f"{agent!r} did not survive\n{agent.log_tail()}"


@pytest.fixture
def cloud(sites: tuple[Site, Site], names: Iterator[int]) -> Iterator[Cloud]:
    """The two hosts for one scenario. Afterwards everything the agents were told is deleted, and both must be as they
    were before."""
    before = [site.footprint() for site in sites]
    opened = Cloud(sites, names)
    if opened.network_type == common_pb2.GENEVE:
        opened.needs("geneve")
    yield opened
    replies = [site.forget_all() for site in sites]
    opened.close()
    for site, reply, footprint in zip(sites, replies, before, strict=True):
        # What was refused when it came may be refused when it is to go: there was nothing of it.
        assert [one for one in reply.troubles if one[2] != "INVALID_ARG"] == []
        try:
            wait_until(lambda s=site, f=footprint: s.footprint() == f, SETTLE, "as before")  # type: ignore[misc]
        except Exception:
            assert site.footprint() == footprint, f"{site!r} is not as it was before"
        resources = site.agent.status()["resources"]
        left = {kind: count["desired"] for kind, count in resources.items() if count["desired"]}
        assert not left, f"{site!r} still remembers {left}"
