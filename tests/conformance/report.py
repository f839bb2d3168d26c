"""A pytest plugin: `--conformance-table PATH` writes what became of each scenario on each pair, as JSON.

The file holds a list of records as tests.conformance.table.Result describes them.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.conformance.table import Result

PAIR, ANSWER, INAPPLICABLE = "pair", "answer", "inapplicable"
"""Names of user properties: the pair of data planes; what was said instead of doing it; why there is nothing to see."""
OPTION = "--conformance-table"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, metavar="PATH", type=Path, help="write what became of the conformance scenarios")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption(OPTION)
    # With pytest-xdist the workers' reports come together in the process that started them.
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(path))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        pair = getattr(getattr(item, "callspec", None), "params", {}).get("backends")
        if pair is not None:
            item.user_properties.append((PAIR, "-".join(backend.name for backend in pair)))


class Recorder:
    """Gathers the reports of scenarios, and writes them at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._results: dict[str, Result] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties = dict(report.user_properties)
        if PAIR not in properties:
            return
        before = self._results.get(report.nodeid)
        if before is not None and before.outcome == "failed":
            return
        if report.when == "call" or report.outcome != "passed":
            path, _, name = report.nodeid.partition("::")
            self._results[report.nodeid] = Result(
                module=Path(path).stem,
                test=name.partition("[")[0],
                pair=str(properties[PAIR]),
                outcome=report.outcome,
                answer=str(properties.get(ANSWER, "")),
                inapplicable=str(properties.get(INAPPLICABLE, "")),
                long="only with --long" in str(report.longrepr),
            )

    def pytest_sessionfinish(self) -> None:
        records = [asdict(self._results[nodeid]) for nodeid in sorted(self._results)]
        self._path.write_text(json.dumps(records, indent=1) + "\n")
