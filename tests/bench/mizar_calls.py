"""Calls to a transit daemon, pipelined over TCP to a server in another process that does nothing but answer."""

import multiprocessing
import socket
import struct
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from dataplane.mizar import procedures as p
from dataplane.mizar import values as v
from dataplane.mizar.client import Client, Settings
from dataplane.mizar.exchange import body_of
from dataplane.mizar.rpc import record
from tests.bench.figures import BenchError, Report

CALLS = 50_000
ROUNDS = 5
WINDOW = 32
REPLY = 32
MOST_US = 1e6 / 20_000
WAIT_S = 60.0


def run(report: Report) -> None:
    """The best of some rounds each, taken in turn with a loop that sends the same bytes and counts what comes back."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,), daemon=True)
    server.start()
    try:
        if not here.poll(WAIT_S):
            raise BenchError("the null server did not start")
        port = here.recv()
        calls = [p.UPDATE_EP(_endpoint(number)) for number in range(CALLS)]
        records = [record(number, body_of(call)) for number, call in enumerate(calls)]
        client = Client(Settings(port=port, window=WINDOW))
        ours, bare = [], []
        for _ in range(ROUNDS):
            bare.append(_timed(lambda: _bare(port, records)))
            ours.append(_timed(lambda: _ours(client, calls)))
        client.close()
    finally:
        server.terminate()
        server.join(WAIT_S)
    note = f"{1e6 / min(ours):,.0f} a second of {CALLS:,} update_ep, {WINDOW} unanswered at most"
    report.add("mizar_update_ep", min(ours), "us a call", goal=MOST_US, note=note)
    report.add(
        "mizar_update_ep_beside_bare",
        min(ours),
        "us a call",
        reference=min(bare),
        goal=1 / 0.8,
        goal_is_ratio=True,
        note="reference: a blocking socket, one write per record made before, the same window, answers counted only",
    )


def _endpoint(number: int) -> v.Endpoint:
    ip = struct.pack(">I", 0x0A000000 + number)
    return v.Endpoint("eth0", ip, v.EndpointType.SIMPLE, (b"\xac\x10\0\1",), b"\2\0" + ip, "", "", 3)


def _timed(work: Callable[[], None]) -> float:
    """Microseconds a call."""
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1e6 / CALLS


def _ours(client: Client, calls: list[p.Call]) -> None:
    if not all(answer.done for answer in client.run(calls)):
        raise BenchError("a call was not done")


def _bare(port: int, records: list[bytes]) -> None:
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as connected:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sent = got = 0
        while got < CALLS * REPLY:
            while sent < CALLS and sent - got // REPLY < WINDOW:
                connected.sendall(records[sent])
                sent += 1
            data = connected.recv(65536)
            if not data:
                raise BenchError("the null server closed the connection")
            got += len(data)


def _serve(there: Connection) -> None:
    """Answers every record with code 0, a thread for each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there.send(listener.getsockname()[1])
        while True:
            stream = listener.accept()[0]
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_answer, args=(stream,), daemon=True).start()


def _answer(stream: socket.socket) -> None:
    mark, accepted = struct.pack(">I", 0x80000000 | REPLY - 4), struct.pack(">6I", 1, 0, 0, 0, 0, 0)
    data = b""
    with stream:
        while got := stream.recv(65536):
            data = data + got if data else got
            out = []
            offset = 0
            while len(data) - offset >= 4:
                end = offset + 4 + (int.from_bytes(data[offset : offset + 4], "big") & 0x7FFFFFFF)
                if end > len(data):
                    break
                out.append(mark + data[offset + 4 : offset + 8] + accepted)
                offset = end
            data = data[offset:]
            stream.sendall(b"".join(out))
