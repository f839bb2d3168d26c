"""Fixtures for every test, and which tests can run here."""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.table import unit_of
from tests.kafka.brokers import Brokers
from tests.lab import Lab, missing_requirements

pytest_plugins = ["tests.conformance.report", "tests.kafka.fixtures"]

LOG_LINES = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests with their full counts")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what cannot run here, with the reason."""
    missing = missing_requirements()
    for item in items:
        if missing and item.get_closest_marker("lab"):
            item.add_marker(pytest.mark.skip(reason=f"no lab here: {'; '.join(missing)}"))
        if not config.getoption("--long") and item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="only with --long"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of several workers, one has all the scenarios of a pair of data planes, since they share hosts; and one has all
    the tests of any other module."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc,unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    return Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Show the ends of the logs of a failed test's labs and brokers."""
    report = yield
    if report.failed and report.when == "call":
        for value in getattr(item, "funcargs", {}).values():
            for log in value.logs if isinstance(value, Lab | Brokers) else []:
                lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
                report.sections.append((f"{log.parent.name}/{log.name}", "\n".join(lines)))
    return report


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """An empty lab for one test."""
    with Lab(tmp_path, "lab") as opened:
        yield opened


@pytest.fixture(scope="module")
def module_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab that the tests of one module share."""
    with Lab(tmp_path_factory.mktemp("module"), "lab") as opened:
        yield opened
