"""The table of what passes on which pair of data planes: which scenarios there are, and results as Markdown."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

SCENARIOS = Path(__file__).parent
PAIRS = ("ovs-ovs", "netlink-netlink", "ovs-netlink", "netlink-ovs")
SPELLINGS = ("ARP", "DF", "DHCP", "Geneve", "IPv6", "MAC", "MACs", "MTU", "TTL", "VPC", "VPCs")
HEAD = """\
# Conformance

What was seen when the scenarios of `tests/conformance/` ran on two hosts, the first with the data plane named first.
Made from a run, not by hand:

    sudo .venv/bin/python -m pytest tests/conformance -n 2 --conformance-table build/conformance.json
    .venv/bin/python -m tests.conformance build/conformance.json docs/conformance.md

A data plane that cannot do something says so: the resource is answered INVALID_ARG with the reason, and the scenario
asserts that. After each scenario everything is deleted, and both hosts must be as they were when they were new.
"""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one test on one pair. `outcome` is pytest's; `answer` is what a data plane said instead of doing
    it, `inapplicable` why there is nothing to see on this pair; `long` if it was left out for its length."""

    module: str
    test: str
    pair: str
    outcome: str
    answer: str = ""
    inapplicable: str = ""
    long: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """A test, and the words for it."""

    module: str
    test: str
    words: str


@dataclass(frozen=True, slots=True)
class Chapter:
    """A module of scenarios."""

    module: str
    title: str
    scenarios: tuple[Scenario, ...]


class IncompleteError(Exception):
    """The results do not say of every scenario that it passes, or why it need not."""


def chapters(directory: Path = SCENARIOS) -> list[Chapter]:
    """The scenarios that exist, read from the tests' sources: those that ask for a cloud, directly or by a fixture."""
    found = []
    for path in sorted(directory.glob("test_*.py")):
        tree = ast.parse(path.read_text())
        scenarios = tuple(
            Scenario(path.stem, node.name, words(node))
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        )
        title = (ast.get_docstring(tree) or path.stem).splitlines()[0].rstrip(".")
        found.append(Chapter(path.stem, title, scenarios))
    return found


def words(test: ast.FunctionDef) -> str:
    """The scenario's name as words, and what the first line of its docstring adds."""
    spellings = {spelling.lower(): spelling for spelling in SPELLINGS}
    name = " ".join(spellings.get(word, word) for word in test.name.removeprefix("test_").split("_"))
    name = name[0].upper() + name[1:]
    remark = (ast.get_docstring(test) or "").split("\n\n")[0].replace("\n", " ").rstrip(".")
    return f"{name}: {remark[0].lower()}{remark[1:]}" if remark else name


def render(chapters: Sequence[Chapter], results: Iterable[Result]) -> str:
    """The document. Raises IncompleteError naming the scenarios that failed or were not run."""
    cells: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        cells.setdefault((result.module, result.test, result.pair), []).append(result)
    notes: list[str] = []
    faults = []
    lines = [HEAD]
    for chapter in chapters:
        lines += [f"## {chapter.title}", "", f"| {chapter.module} | {' | '.join(PAIRS)} |", "|---" * 5 + "|"]
        for scenario in chapter.scenarios:
            row = [scenario.words.replace("|", "\\|")]
            for pair in PAIRS:
                try:
                    row.append(cell(cells.get((scenario.module, scenario.test, pair), []), notes))
                except IncompleteError as fault:
                    faults.append(f"{scenario.module}::{scenario.test} on {pair} {fault}")
            lines.append(f"| {' | '.join(row)} |")
        lines.append("")
    if faults:
        raise IncompleteError("\n".join(faults))
    if notes:
        lines += ["## Notes", "", *(f"{number}. {note}" for number, note in enumerate(notes, 1)), ""]
    return "\n".join(lines)


def cell(results: Iterable[Result], notes: list[str]) -> str:
    """What one cell says; a remark is put under `notes`. Raises IncompleteError."""
    run = [result for result in results if not result.long]
    if not run:
        raise IncompleteError("was not run")
    if any(result.outcome == "failed" for result in run):
        raise IncompleteError("failed")
    if any(result.outcome == "skipped" and not result.inapplicable for result in run):
        raise IncompleteError("was skipped")
    for kind, remarks in (
        ("does not apply", {result.inapplicable for result in run}),
        ("answers INVALID_ARG", {result.answer for result in run}),
    ):
        numbers = []
        for remark in sorted(remarks - {""}):
            if remark not in notes:
                notes.append(remark)
            numbers.append(str(notes.index(remark) + 1))
        if numbers:
            return f"{kind} ({', '.join(numbers)})"
    return "passes"


def unit_of(nodeid: str) -> str:
    """Which tests belong together: the scenarios of a pair, the chaos of a data plane, any other module."""
    path, _, name = nodeid.partition("::")
    case = name.partition("[")[2].rstrip("]")
    if path.startswith("tests/chaos/"):
        return f"tests/chaos {case.partition('-')[0]}"
    return next((pair for pair in PAIRS if case.startswith(pair)), path)


def rows(document: str) -> dict[str, list[str]]:
    """The first cells of the tables of a document, by module."""
    found: dict[str, list[str]] = {}
    module = ""
    for line in document.splitlines():
        if not line.startswith("| "):
            continue
        first, *others = [part.strip() for part in line.strip("| ").split(" | ")]
        if others == list(PAIRS):
            module = first
        else:
            found.setdefault(module, []).append(first)
    return found
