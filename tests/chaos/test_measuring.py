"""What is made of the log of a pinger, and of a report."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.__main__ import BEGIN, END, write_docs
from tests.chaos.pictures import stretches, timeline
from tests.chaos.pinger import Pair, checksum
from tests.chaos.report import Row, format_row, parse_row
from tests.chaos.traffic import Losses, Measured, Traffic
from tests.lab.netns import Namespace, create_namespaces, delete_namespaces

LOSSES = Losses("local", 100, (0.10, 0.11, 0.12, 0.50), 0, 0.04)
ROW = Row("ovs-ovs", "a <test>", Measured(1.0, (LOSSES,), 0.1))


@pytest.fixture
def guest() -> Iterator[Namespace]:
    (made,) = create_namespaces([f"acameasure-{os.getpid()}"])
    made.ip("link set lo up", "addr add 192.0.2.1/32 dev lo", "addr add 192.0.2.2/32 dev lo")
    yield made
    delete_namespaces([made.name])


@pytest.mark.lab
def test_lost_pings_and_silence_are_those_of_the_time_without_the_address(guest: Namespace, tmp_path: Path) -> None:
    pairs = [Pair("stays", guest.name, "192.0.2.1"), Pair("goes", guest.name, "192.0.2.2")]
    traffic = Traffic(tmp_path, "measuring", pairs, (guest.name, guest.name, "192.0.2.1", 5001))
    try:
        traffic.wait_flowing(time.monotonic())
        since = time.monotonic()
        guest.ip("addr del 192.0.2.2/32 dev lo")
        gone = time.monotonic()
        traffic.wait_pings(20)
        guest.ip("addr add 192.0.2.2/32 dev lo")
        traffic.wait_flowing(time.monotonic())
        measured = traffic.measure(since, time.monotonic())
    finally:
        traffic.close()
    assert set(measured.lost) == {"goes"}
    goes = measured.of("goes")
    assert goes.lost >= 18
    assert goes.silence >= max(goes.lost_at) - min(goes.lost_at)
    assert min(goes.lost_at) <= gone - since + 0.5
    assert measured.duplicates == {}


def test_lost_pings_that_follow_each_other_are_one_stretch() -> None:
    assert [(round(a, 2), round(b, 2)) for a, b in stretches(LOSSES)] == [(0.10, 0.13), (0.50, 0.51)]
    assert timeline("t", [ROW]).count('class="lost"') == 2
    assert "a &lt;test&gt;" in timeline("t", [ROW])


def test_rows_survive_the_file() -> None:
    assert parse_row(format_row(ROW)) == ROW


def test_the_section_is_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    file = tmp_path / "restart.md"
    file.write_text("# Head\n\ntext\n")
    write_docs([ROW], tmp_path)
    once = file.read_text()
    file.write_text(once + "\n## After\n")
    write_docs([ROW], tmp_path)
    assert file.read_text() == once + "\n## After\n"
    assert once.startswith("# Head\n\ntext\n") and once.count(BEGIN) == once.count(END) == 1
    assert (tmp_path / "pictures/losses-ovs-ovs.svg").exists()


def test_the_checksum_of_what_carries_it_is_zero() -> None:
    body = bytes(range(20))
    assert checksum(body + checksum(body).to_bytes(2, "big")) == 0


def test_the_report_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "rows"
    file.write_text(format_row(ROW) + "\n")
    printed = subprocess.run(
        [sys.executable, "-m", "tests.chaos", str(file)], capture_output=True, text=True, timeout=30, check=True
    ).stdout
    assert "local 4/100" in printed
