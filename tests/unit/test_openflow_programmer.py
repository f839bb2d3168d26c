"""The programmer against switches that misbehave: it says why it gives up, and never waits for ever."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dataplane.ovs.openflow import messages
from dataplane.ovs.openflow.errors import OpenFlowError
from dataplane.ovs.openflow.programmer import FlowProgrammer, ProgrammerError, ProgrammerLost
from dataplane.ovs.remote import Remote

WAIT = 10.0
Answer = Callable[[int, int, bytes], bytes]


def good(kind: int, xid: int, body: bytes) -> bytes:
    """What a healthy switch answers to one message."""
    if kind == messages.HELLO:
        return messages.message(messages.HELLO, 0, messages.hello())
    if kind == messages.BARRIER_REQUEST:
        return messages.message(messages.BARRIER_REPLY, xid)
    if kind == messages.BUNDLE_CONTROL:
        reply = body[:4] + (int.from_bytes(body[4:6], "big") + 1).to_bytes(2, "big") + body[6:]
        return messages.message(messages.BUNDLE_CONTROL, xid, reply)
    return b""


def silent(kind: int, xid: int, body: bytes) -> bytes:
    return b""


class FakeSwitch:
    """A listening management socket whose connections are answered message by message."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answer: Answer = good
        self.seen: list[int] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._listener.settimeout(WAIT)
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.settimeout(WAIT)
                self._open.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while head := stream.read(8):
                _, kind, size, xid = messages.HEADER.unpack(head)
                body = stream.read(size - 8)
                self.seen.append(kind)
                connection.sendall(self.answer(kind, xid, body))

    def send(self, data: bytes) -> None:
        self._open[0].sendall(data)

    def hang_up(self) -> None:
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(WAIT)
        self.hang_up()
        for thread in self._threads:
            thread.join(WAIT)


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[FakeSwitch]:
    fake = FakeSwitch(tmp_path / "s.mgmt")
    yield fake
    fake.close()


class Started:
    """A programmer and what it reported."""

    def __init__(self, path: Path, **options: float) -> None:
        self.lost: list[str] = []
        self.is_lost = threading.Event()
        connections = int(options.pop("connections", 1))
        self.programmer = FlowProgrammer(
            Remote.local(path),
            on_packet_in=lambda _: None,
            on_lost=self._lost,
            connections=connections,
            connect_timeout=options.pop("connect_timeout", WAIT),
            **options,
        )

    def _lost(self, reason: str) -> None:
        self.lost.append(reason)
        self.is_lost.set()

    def __enter__(self) -> Started:
        self.programmer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.programmer.close()


def test_no_socket_is_said(tmp_path: Path) -> None:
    with pytest.raises(ProgrammerError, match=r"none\.mgmt.*No such file"), Started(tmp_path / "none.mgmt"):
        pass


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (silent, "not ready within"),
        (lambda *_: b"HTTP/1.0 400 Bad Request\r\n\r\n" * 40, "version 72 .* no OpenFlow"),
        (lambda *_: b"\0" * 64, "no OpenFlow"),
        (lambda *_: messages.HEADER.pack(4, messages.HELLO, 8, 0), "does not speak OpenFlow 1.4"),
        (
            lambda *_: messages.HEADER.pack(1, messages.ERROR, 16, 0) + b"\0\0\0\0no!!",
            "HELLO_FAILED.*no!!",
        ),
    ],
)
def test_a_failed_start_says_why(switch: FakeSwitch, answer: Answer, reason: str) -> None:
    switch.answer = answer
    before = threading.active_count()
    started = Started(switch.path, connect_timeout=0.5)
    with pytest.raises(ProgrammerError, match=reason):
        started.programmer.start()
    started.programmer.close()
    assert started.lost == []
    with pytest.raises(ProgrammerLost):
        started.programmer.submit([b"x"]).result(WAIT)
    switch.hang_up()
    assert threading.active_count() <= before + 1


def test_a_hang_up_is_reported_once_and_fails_everything(switch: FakeSwitch) -> None:
    with Started(switch.path, connections=3) as started:
        switch.answer = silent
        programmer = started.programmer
        futures = [
            programmer.submit([b"12345678"] * 3000),
            programmer.request(messages.METER_MOD, b""),
            programmer.dump_flows(),
            programmer.aggregate(0, 0),
        ]
        switch.hang_up()
        for future in futures:
            with pytest.raises(ProgrammerLost):
                future.result(WAIT)
        assert started.is_lost.wait(WAIT)
        for late in (programmer.submit([b"x"]), programmer.dump_flows(), programmer.request(1, b"")):
            with pytest.raises(ProgrammerLost):
                late.result(WAIT)
    assert len(started.lost) == 1


def test_close_fails_what_is_outstanding_and_is_no_loss(switch: FakeSwitch) -> None:
    with Started(switch.path) as started:
        switch.answer = silent
        future = started.programmer.submit([b"12345678"])
        started.programmer.close()
        started.programmer.close()
        with pytest.raises(ProgrammerLost, match="closed by us"):
            future.result(WAIT)
    assert started.lost == []


def test_closing_before_the_start_is_harmless(tmp_path: Path) -> None:
    Started(tmp_path / "none.mgmt").programmer.close()


def test_silence_with_work_outstanding_is_a_loss(switch: FakeSwitch) -> None:
    with Started(switch.path, reply_timeout=0.2) as started:
        switch.answer = silent
        with pytest.raises(ProgrammerLost, match="no answer"):
            started.programmer.aggregate(0, 0).result(WAIT)


def test_a_damaged_answer_fails_its_question_only(switch: FakeSwitch) -> None:
    def answer(kind: int, xid: int, body: bytes) -> bytes:
        if kind == messages.MULTIPART_REQUEST:
            return messages.message(messages.MULTIPART_REPLY, xid, bytes.fromhex("0001000000000000ffff"))
        return good(kind, xid, body)

    switch.answer = answer
    with Started(switch.path) as started:
        with pytest.raises(ValueError, match="flow entry"):
            started.programmer.dump_flows().result(WAIT)
        assert started.programmer.submit([b"12345678"]).result(WAIT) == {}


def test_a_refused_question_fails_with_the_refusal(switch: FakeSwitch) -> None:
    def answer(kind: int, xid: int, body: bytes) -> bytes:
        if kind in (messages.MULTIPART_REQUEST, messages.METER_MOD):
            return messages.message(messages.ERROR, xid, bytes.fromhex("00010002"))
        return good(kind, xid, body)

    switch.answer = answer
    with Started(switch.path) as started:
        for future in (started.programmer.dump_flows(), started.programmer.request(messages.METER_MOD, b"")):
            with pytest.raises(OpenFlowError, match="BAD_REQUEST"):
                future.result(WAIT)


def test_damaged_packets_are_counted_and_echoes_answered(switch: FakeSwitch) -> None:
    with Started(switch.path) as started:
        switch.send(messages.message(messages.PACKET_IN, 0, b"short"))
        switch.send(messages.message(messages.ECHO_REQUEST, 9, b"still there?"))
        assert started.programmer.request(messages.METER_MOD, b"").result(WAIT) is None
        assert started.programmer.counters.undecodable == 1
        assert messages.ECHO_REPLY in switch.seen


def test_too_much_outstanding_work_is_refused_after_a_wait(switch: FakeSwitch) -> None:
    with Started(switch.path, submit_timeout=0.1) as started:
        switch.answer = silent
        programmer = started.programmer
        first = programmer.submit([b"12345678"] * 600_000)
        with pytest.raises(ProgrammerError, match="no room within"):
            programmer.submit([b"12345678"])
        assert not first.done()


def test_room_comes_back_when_work_is_done(switch: FakeSwitch) -> None:
    hold = threading.Event()

    def answer(kind: int, xid: int, body: bytes) -> bytes:
        hold.wait(WAIT)
        return good(kind, xid, body)

    with Started(switch.path) as started:
        switch.answer = answer
        programmer = started.programmer
        programmer.submit([b"12345678" * 8000] * 2001 * 2)
        second = threading.Thread(target=lambda: programmer.submit([b"12345678" * 8000] * 300).result(WAIT))
        second.start()
        hold.set()
        second.join(WAIT)
        assert not second.is_alive()


def test_packet_outs_beyond_the_queue_are_dropped_and_counted(switch: FakeSwitch) -> None:
    with Started(switch.path) as started:
        hold = threading.Event()

        def answer(kind: int, xid: int, body: bytes) -> bytes:
            hold.wait(WAIT)
            return b""

        switch.answer = answer
        frame = messages.packet_out(bytes(1400), b"")
        for _ in range(6000):
            started.programmer.packet_out(frame)
        dropped = started.programmer.counters.dropped_packet_outs
        hold.set()
        assert 1000 < dropped < 6000


def test_work_may_be_submitted_from_a_callback(switch: FakeSwitch) -> None:
    done = threading.Event()
    with Started(switch.path) as started:
        programmer = started.programmer

        def again(_: object) -> None:
            programmer.submit([b"12345678"] * 5).add_done_callback(lambda _: done.set())

        programmer.submit([b"12345678"]).add_done_callback(again)
        assert done.wait(WAIT)


@pytest.mark.parametrize("count", [0, 65, -1])
def test_the_number_of_connections_is_bounded(tmp_path: Path, count: int) -> None:
    with pytest.raises(ValueError, match="1 to 64"):
        Started(tmp_path / "none.mgmt", connections=count)
    started = Started(tmp_path / "none.mgmt")
    with pytest.raises(ValueError, match="1 to 64"):
        started.programmer.set_connections(count)
    started.programmer.close()


def test_more_connections_are_tried_again_without_harm(switch: FakeSwitch) -> None:
    refused = threading.Event()

    def answer(kind: int, xid: int, body: bytes) -> bytes:
        if kind == messages.HELLO:
            refused.set()
            return b"\0" * 16
        return good(kind, xid, body)

    with Started(switch.path) as started:
        switch.answer = answer
        started.programmer.set_connections(2)
        assert refused.wait(WAIT)
        assert started.programmer.submit([b"12345678"] * 10).result(WAIT) == {}
        assert started.lost == []
