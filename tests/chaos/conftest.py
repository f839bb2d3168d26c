"""The clouds under traffic that events happen to, one for each kind of data plane, and the report of what they cost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos.report import Report, format_row, parse_row, table
from tests.chaos.world import World
from tests.conformance.backends import Backend, NetlinkBackend, OvsBackend
from tests.lab import Lab

BACKENDS: tuple[Backend, ...] = (OvsBackend(), NetlinkBackend())
PROPERTY = "lost pings"
REPORT = pytest.StashKey[Report]()


def pytest_configure(config: pytest.Config) -> None:
    """ACA_CHAOS_REPORT names the file for the rows of the report."""
    file = os.environ.get("ACA_CHAOS_REPORT")
    config.stash[REPORT] = Report(Path(file) if file else None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Rows come with the tests' reports, which may be other processes'."""
    reports = [one for reports in terminalreporter.stats.values() for one in reports]
    ended = [one for one in reports if getattr(one, "when", "") == "teardown"]
    rows = [parse_row(text) for one in ended for name, text in one.user_properties if name == PROPERTY]
    if rows:
        terminalreporter.section("lost pings per event")
        for line in table(rows):
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest) -> Report:
    return request.config.stash[REPORT]


class Worlds:
    """At most one world at a time: it is made again after a test that left it in disorder."""

    def __init__(self, factory: pytest.TempPathFactory, report: Report) -> None:
        self._factory = factory
        self._report = report
        self._stack = ExitStack()
        self._open: tuple[str, World] | None = None

    def get(self, backend: Backend) -> World:
        if self._open is not None and self._open[0] == backend.name:
            return self._open[1]
        self.close()
        lab = self._stack.enter_context(Lab(self._factory.mktemp("chaos"), "lab"))
        world = World(lab, (backend, backend), self._report)
        self._stack.callback(world.close)
        self._open = backend.name, world
        return world

    def close(self) -> None:
        self._open = None
        self._stack.close()


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory, report: Report) -> Iterator[Worlds]:
    made = Worlds(tmp_path_factory, report)
    yield made
    made.close()


@pytest.fixture(scope="session", params=BACKENDS, ids=lambda backend: backend.name)
def backend(request: pytest.FixtureRequest) -> Backend:
    chosen: Backend = request.param
    return chosen


@pytest.fixture
def world(worlds: Worlds, backend: Backend, request: pytest.FixtureRequest) -> Iterator[World]:
    """For one test, which must leave it as it was."""
    made = worlds.get(backend)
    failed, rows = request.session.testsfailed, len(made.report.rows)
    yield made
    request.node.user_properties += [(PROPERTY, format_row(row)) for row in made.report.rows[rows:]]
    if request.session.testsfailed > failed:
        worlds.close()
        return
    try:
        made.restore()
    except BaseException:
        worlds.close()
        raise


@pytest.fixture
def fresh_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A second lab, for a host to compare with."""
    with Lab(tmp_path_factory.mktemp("fresh"), "lab") as opened:
        yield opened
