"""The two hosts of the scenarios, and the check after each that nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from goalstate_proto import common_pb2
from tests.conformance.backends import Backend, NetlinkBackend, OvsBackend
from tests.conformance.cloud import Cloud, Site, numbers
from tests.conformance.region import Region
from tests.lab import Lab

# Pairs of data planes that scenarios run on: (host one's, host two's).
OVS, NETLINK = OvsBackend(), NetlinkBackend()
PAIRS: list[tuple[Backend, Backend]] = [(OVS, OVS), (NETLINK, NETLINK), (OVS, NETLINK), (NETLINK, OVS)]


def name_of(pair: tuple[Backend, Backend]) -> str:
    return "-".join(backend.name for backend in pair)


@pytest.fixture(scope="session", params=PAIRS, ids=name_of)
def backends(request: pytest.FixtureRequest) -> tuple[Backend, Backend]:
    pair: tuple[Backend, Backend] = request.param
    return pair


@pytest.fixture(scope="session")
def names() -> Iterator[int]:
    """Numbers for ids, tunnel keys and MACs: no two scenarios share one."""
    return numbers()


@pytest.fixture(scope="session")
def region(tmp_path_factory: pytest.TempPathFactory, backends: tuple[Backend, Backend]) -> Iterator[Region]:
    """The hosts that the scenarios of one pair share."""
    opened = Region(lambda: Lab(tmp_path_factory.mktemp("pair"), "lab"), backends)
    yield opened
    opened.close()


@pytest.fixture
def sites(region: Region) -> tuple[Site, Site]:
    """Two hosts with a ready agent each."""
    return region.sites()


@pytest.fixture
def pair_lab(region: Region, sites: tuple[Site, Site]) -> Lab:
    """The lab that the hosts are in."""
    return region.lab


@pytest.fixture
def cloud(
    region: Region, sites: tuple[Site, Site], pair_lab: Lab, names: Iterator[int], request: pytest.FixtureRequest
) -> Iterator[Cloud]:
    """The two hosts for one scenario. Afterwards everything the agents were told is deleted, and both must be as they
    were when they were new."""
    opened = Cloud(sites, names, lambda kind, text: request.node.user_properties.append((kind, text)))
    if opened.network_type == common_pb2.GENEVE:
        opened.needs("geneve")
    yield opened
    region.clear(opened)
