"""The document of what passes where: it lists what exists, and is made of whole results only."""

from __future__ import annotations

import pytest

from tests.conformance.table import PAIRS, Chapter, IncompleteError, Result, Scenario, chapters, render, rows, unit_of
from tests.lab.agent import REPOSITORY

ONE = [Chapter("test_one", "What is one", (Scenario("test_one", "test_is_one", "Is one"),))]


def result(pair: str, **changes: object) -> Result:
    values: dict[str, object] = {"module": "test_one", "test": "test_is_one", "pair": pair, "outcome": "passed"}
    return Result(**(values | changes))  # type: ignore[arg-type]


def test_the_document_lists_the_scenarios_that_exist() -> None:
    document = (REPOSITORY / "docs" / "conformance.md").read_text()
    expected = {chapter.module: [one.words.replace("|", "\\|") for one in chapter.scenarios] for chapter in chapters()}
    assert rows(document) == expected, "make it again: how to is said at its top"


def test_words_are_unique_within_a_module() -> None:
    for chapter in chapters():
        assert chapter.scenarios
        assert len({one.words for one in chapter.scenarios}) == len(chapter.scenarios)


def test_cells_say_what_was_seen() -> None:
    results = [
        result("ovs-ovs"),
        result("ovs-ovs", outcome="skipped", long=True),
        result("netlink-netlink", answer="it cannot"),
        result("ovs-netlink", outcome="skipped", inapplicable="there is none"),
        result("netlink-ovs"),
        result("netlink-ovs", answer="it cannot"),
    ]
    document = render(ONE, results)
    assert "| Is one | passes | answers INVALID_ARG (1) | does not apply (2) | answers INVALID_ARG (1) |" in document
    assert "1. it cannot\n2. there is none" in document
    assert rows(document) == {"test_one": ["Is one"]}


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"outcome": "failed"}, "failed"),
        ({"outcome": "skipped"}, "was skipped"),
        ({"outcome": "skipped", "long": True}, "was not run"),
    ],
    ids=["failed", "skipped", "long"],
)
def test_no_document_of_a_run_that_is_not_whole(changes: dict[str, object], fault: str) -> None:
    results = [result(pair) for pair in PAIRS[:3]] + [result(PAIRS[3], **changes)]
    with pytest.raises(IncompleteError, match=f"test_is_one on netlink-ovs {fault}"):
        render(ONE, results)
    with pytest.raises(IncompleteError, match="was not run"):
        render(ONE, results[:3])


def test_scenarios_of_a_pair_stay_together() -> None:
    assert unit_of("tests/conformance/test_link.py::test_x[netlink-ovs-vrrp]") == "netlink-ovs"
    assert unit_of("tests/unit/test_plan.py::test_y[case]") == "tests/unit/test_plan.py"
    assert unit_of("tests/unit/test_plan.py::test_y") == "tests/unit/test_plan.py"
