"""A transit daemon for tests: the RPC program over UDP and TCP with a small port mapper, in this process or its own.

    with TransitDaemon() as daemon:
        client = Client(Settings(port=daemon.tcp_port))
        ...
        assert daemon.state.table("ep") == {}

    python -m tests.lab.transitd --host 0.0.0.0 --tcp 4001 --udp 4002 --mapper 111

Made from the observed behaviour of the real one; what that does with packets is not here.
"""

import argparse
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from tests.lab.transit_state import Died, Quirks, TransitState, Unencodable
from tests.lab.transit_wire import PROCEDURES, BadArguments, read, write

PROGRAM = 536907857
MAPPER = 100000
WAIT_S = 10.0
OnReply = Callable[[int, list[bytes]], list[bytes]]


class TransitDaemon:
    """`state` is of the present life. `on_reply`: gets the number of the procedure and the replies to a call, and
    gives those to send instead; both may be empty. `on_call`: False loses the call. `delays`: seconds by procedure."""

    def __init__(self, host: str = "127.0.0.1", tcp_port: int = 0, udp_port: int = 0, mapper_port: int = 0) -> None:
        self.host = host
        self.tcp_port, self.udp_port, self.mapper_port = tcp_port, udp_port, mapper_port
        self.registered = True
        self.quirks = Quirks()
        self.state = TransitState(self.quirks)
        self.delays: dict[int, float] = {}
        self.on_reply: OnReply | None = None
        self.on_call: Callable[[int], bool] | None = None
        self.alive = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._mapper = _Mapper(self)

    def __enter__(self) -> "TransitDaemon":
        self._mapper.start()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._mapper.stop()

    def start(self) -> None:
        """A new life: nothing stands. On the ports of the last one."""
        known, qos = self.state.known, self.state.qos
        self.state = TransitState(self.quirks, known=known, qos=qos)
        self._stop = threading.Event()
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.host, self.tcp_port))
        listener.listen()
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind((self.host, self.udp_port))
        self.tcp_port, self.udp_port = listener.getsockname()[1], datagrams.getsockname()[1]
        wake, self._wake = socket.socketpair()
        self.alive = True
        arguments = (self.state, listener, datagrams, wake, self._stop)
        self._thread = threading.Thread(target=self._serve, args=arguments, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The daemon ends: connections are closed, what stood is forgotten with the next start."""
        if self._thread is not None:
            self._stop.set()
            self._wake.close()
            self._thread.join(WAIT_S)
            self._thread = None

    def restart(self, *, other_ports: bool = False) -> None:
        self.stop()
        if other_ports:
            self.tcp_port = self.udp_port = 0
        self.start()

    def _serve(
        self,
        state: TransitState,
        listener: socket.socket,
        datagrams: socket.socket,
        wake: socket.socket,
        stop: threading.Event,
    ) -> None:
        streams: dict[socket.socket, bytearray] = {}
        with selectors.DefaultSelector() as selector:
            for source in (listener, datagrams, wake):
                selector.register(source, selectors.EVENT_READ)
            try:
                while not stop.is_set():
                    for key, _ in selector.select():
                        source = key.fileobj
                        if source is listener:
                            stream = listener.accept()[0]
                            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                            streams[stream] = bytearray()
                            selector.register(stream, selectors.EVENT_READ)
                        elif source is datagrams:
                            message, peer = datagrams.recvfrom(65536)
                            for reply in self._answers(state, message, datagram=True):
                                datagrams.sendto(reply, peer)
                        elif source in streams and not self._read(state, source, streams[source]):
                            selector.unregister(source)
                            source.close()
                            del streams[source]
            except Died:
                pass
            finally:
                self.alive = False
                for source in (*streams, listener, datagrams, wake):
                    source.close()

    def _read(self, state: TransitState, stream: socket.socket, data: bytearray) -> bool:
        """False at the end of the stream."""
        try:
            got = stream.recv(65536)
            if not got:
                return False
            data += got
            out = bytearray()
            try:
                while len(data) >= 4:
                    length = int.from_bytes(data[:4], "big") & 0x7FFFFFFF
                    if len(data) < 4 + length:
                        break
                    message = bytes(data[4 : 4 + length])
                    del data[: 4 + length]
                    for reply in self._answers(state, message, datagram=False):
                        out += struct.pack("!L", 0x80000000 | len(reply)) + reply
            finally:
                if out:
                    stream.sendall(out)
        except OSError:
            return False
        return True

    def _answers(self, state: TransitState, message: bytes, *, datagram: bool) -> list[bytes]:
        if len(message) < 40:
            return []
        xid, kind, rpc, program, version, procedure = struct.unpack_from("!6L", message)
        if kind != 0:
            return []
        if rpc != 2:
            return [struct.pack("!6L", xid, 1, 1, 0, 2, 2)]
        if self.on_call is not None and not self.on_call(procedure):
            return []
        if delay := self.delays.get(procedure):
            self._stop.wait(delay)
        replies = self._replies(state, xid, program, version, procedure, message[40:], datagram=datagram)
        return replies if self.on_reply is None else self.on_reply(procedure, replies)

    @staticmethod
    def _replies(
        state: TransitState, xid: int, program: int, version: int, procedure: int, data: bytes, *, datagram: bool
    ) -> list[bytes]:
        if program != PROGRAM:
            return [_reply(xid, 1)]
        if version != 1:
            return [_reply(xid, 2, struct.pack("!2L", 1, 1))]
        if procedure == 0:
            return [_reply(xid, 0)]
        if procedure not in PROCEDURES:
            return [_reply(xid, 3)]
        _, argument, result = PROCEDURES[procedure]
        try:
            answer: Any = state.call(procedure, read(argument, data))
        except BadArguments:
            return [_reply(xid, 4)]
        except Unencodable:
            return [_reply(xid, 5)] if datagram else [_reply(xid, 0, bytes(8)), _reply(xid, 5)]
        return [_reply(xid, 0, write(result, answer) if result else struct.pack("!l", answer))]


class _Mapper:
    """GETPORT of version 2, over UDP and TCP on one port."""

    def __init__(self, daemon: TransitDaemon) -> None:
        self._daemon = daemon
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []

    def start(self) -> None:
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self._daemon.host, self._daemon.mapper_port))
        self._daemon.mapper_port = listener.getsockname()[1]
        datagrams.bind((self._daemon.host, self._daemon.mapper_port))
        listener.listen()
        self._sockets = [datagrams, listener]
        for serve, source in ((self._datagrams, datagrams), (self._streams, listener)):
            thread = threading.Thread(target=serve, args=(source,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        for source in self._sockets:
            try:
                source.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            source.close()
        for thread in self._threads:
            thread.join(WAIT_S)

    def _datagrams(self, source: socket.socket) -> None:
        try:
            while True:
                message, peer = source.recvfrom(65536)
                if not message:
                    return
                source.sendto(self._answer(message), peer)
        except OSError:
            return

    def _streams(self, listener: socket.socket) -> None:
        try:
            while True:
                stream = listener.accept()[0]
                with stream:
                    stream.settimeout(WAIT_S)
                    message = stream.recv(65536)
                    if len(message) >= 60:
                        reply = self._answer(message[4:])
                        stream.sendall(struct.pack("!L", 0x80000000 | len(reply)) + reply)
        except OSError:
            return

    def _answer(self, message: bytes) -> bytes:
        xid, _, _, program, version, procedure = struct.unpack_from("!6L", message)
        if (program, version, procedure) != (MAPPER, 2, 3):
            return _reply(xid, 1)
        wanted, _, protocol, _ = struct.unpack_from("!4L", message, 40)
        daemon = self._daemon
        port = {6: daemon.tcp_port, 17: daemon.udp_port}.get(protocol, 0)
        return _reply(xid, 0, struct.pack("!L", port if wanted == PROGRAM and daemon.registered else 0))


def _reply(xid: int, accepted: int, results: bytes = b"") -> bytes:
    return struct.pack("!6L", xid, 1, 0, 0, 0, accepted) + results


def main() -> None:
    """Runs until it is killed, or dies by a quirk."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--tcp", type=int, default=0)
    parser.add_argument("--udp", type=int, default=0)
    parser.add_argument("--mapper", type=int, default=0)
    options = parser.parse_args()
    with TransitDaemon(options.host, options.tcp, options.udp, options.mapper) as daemon:
        print(f"tcp {daemon.tcp_port} udp {daemon.udp_port} mapper {daemon.mapper_port}", flush=True)
        assert daemon._thread is not None
        daemon._thread.join()


if __name__ == "__main__":
    main()
