"""Streams to Open vSwitch over TCP and TLS, against peers that behave and peers that do not. No switch is needed."""

from __future__ import annotations

import contextlib
import selectors
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dataplane.ovs.remote import Remote, Scheme, TlsFiles, parse_remote
from dataplane.ovs.stream import Dialer, Stream, StreamError
from tests.integration.certificates import Authority, Pki
from tests.lab.commands import run

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")

WAIT = 20.0
Serve = Callable[[socket.socket], None]


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki.make_in(tmp_path_factory.mktemp("tls") / "pki")


@pytest.fixture(scope="module")
def files(pki: Pki) -> TlsFiles:
    return pki.files(pki.agents.issue("agent"))


@pytest.fixture
def listen() -> Iterator[Callable[[Serve], int]]:
    """Serve one connection on a loopback port, which is returned."""
    threads: list[threading.Thread] = []
    listeners: list[socket.socket] = []

    def start(serve: Serve) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(WAIT)
        listeners.append(listener)

        def run() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                connection.settimeout(WAIT)
                with connection:
                    serve(connection)

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listeners:
        listener.close()
    for thread in threads:
        thread.join(WAIT)


def server_context(pki: Pki) -> ssl.SSLContext:
    """As a switch has it: it shows a certificate and wants one."""
    own = pki.switches.issue("switch")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    context.load_verify_locations(pki.agents.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def echo(connection: socket.socket) -> None:
    while data := connection.recv(50_000):
        connection.sendall(data)


def exchanged(stream: Stream, data: bytes) -> bytes:
    """Send all of it and receive as much, as an owner with one selector does."""
    received = bytearray()
    rest = memoryview(data)
    blocked = False
    deadline = time.monotonic() + WAIT
    with selectors.DefaultSelector() as selector:
        selector.register(stream, stream.receive_on)
        while len(received) < len(data):
            if rest and not blocked:
                count = stream.send(rest)
                rest, blocked = rest[count:], count == 0
            wait_for = stream.receive_on | (stream.send_on if blocked else 0)
            selector.modify(stream, wait_for)
            for _, events in selector.select(0.0 if rest and not blocked else 1.0):
                blocked = blocked and not events & stream.send_on
                if events & stream.receive_on:
                    piece = stream.receive(1 << 18)
                    assert piece != b""
                    received += piece or b""
            assert time.monotonic() < deadline
    return bytes(received)


def why(stream: Stream) -> str:
    """The reason why nothing comes of it."""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, stream.receive_on)
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            try:
                stream.send(b"hello")
                if stream.receive(1000) == b"":
                    return "ended"
            except StreamError as error:
                return str(error)
            selector.modify(stream, stream.receive_on)
            selector.select(0.1)
    raise AssertionError("it neither works nor fails")


DATA = bytes(range(256)) * 40_000


def test_ten_megabytes_there_and_back_over_tls(
    listen: Callable[[Serve], int], pki: Pki, files: TlsFiles
) -> None:
    context = server_context(pki)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as tls:
            echo(tls)

    stream = Dialer(parse_remote(f"ssl:127.0.0.1:{listen(serve)}"), files).open()
    number = stream.fileno()
    assert exchanged(stream, DATA) == DATA
    assert stream.fileno() == number
    stream.close()
    assert stream.fileno() == -1


def test_ten_megabytes_there_and_back_over_tcp(listen: Callable[[Serve], int]) -> None:
    stream = Dialer(parse_remote(f"tcp:127.0.0.1:{listen(echo)}")).open()
    assert exchanged(stream, DATA) == DATA
    stream.close()


def test_nobody_listens(files: TlsFiles) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    stream = Dialer(parse_remote(f"ssl:127.0.0.1:{port}"), files).open()
    assert "Connection refused" in why(stream)
    stream.close()


@pytest.mark.parametrize(
    ("serve", "reason"),
    [
        (lambda connection: connection.recv(1), "hung up during the handshake"),
        (lambda connection: connection.sendall(b"\5\0\0\x08\0\0\0\0" * 100), "wrong version number"),
    ],
)
def test_a_peer_that_speaks_no_tls(
    listen: Callable[[Serve], int], files: TlsFiles, serve: Serve, reason: str
) -> None:
    stream = Dialer(parse_remote(f"ssl:127.0.0.1:{listen(serve)}"), files).open()
    assert reason in why(stream)
    stream.close()


def test_files_that_cannot_be_used_are_named(pki: Pki, files: TlsFiles, tmp_path: Path) -> None:
    remote = Remote(Scheme.SSL, address="127.0.0.1", port=1)
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("no certificate")
    other = Authority(tmp_path / "other", "other").issue("other")
    for broken, named in (
        (TlsFiles(tmp_path / "none", files.certificate, files.key), "tls_ca .*none cannot be read: No such file"),
        (TlsFiles(nonsense, files.certificate, files.key), "tls_ca .*nonsense.pem holds no certificate"),
        (TlsFiles(files.ca, nonsense, files.key), "tls_certificate .*nonsense.pem"),
        (TlsFiles(files.ca, files.certificate, other.key), "tls_key .*other-key.pem.* mismatch"),
    ):
        with pytest.raises(StreamError, match=named):
            Dialer(remote, broken)
    with pytest.raises(StreamError, match="needs tls_ca"):
        Dialer(remote)


def test_a_key_with_a_password_is_refused_without_asking_for_it(pki: Pki, files: TlsFiles, tmp_path: Path) -> None:
    locked = tmp_path / "locked.pem"
    run(["openssl", "pkey", "-in", str(files.key), "-aes256", "-passout", "pass:secret", "-out", str(locked)])
    with pytest.raises(StreamError, match=r"locked\.pem cannot be used"):
        Dialer(Remote(Scheme.SSL, address="127.0.0.1", port=1), TlsFiles(files.ca, files.certificate, locked))


@pytest.mark.parametrize(
    ("text", "passive", "is_elsewhere"),
    [
        ("ssl:192.0.2.1:6653", "pssl:6653:192.0.2.1", True),
        ("tcp:[2001:db8::1]:6653", "ptcp:6653:[2001:db8::1]", True),
        ("tcp:127.0.0.1:6640", "ptcp:6640:127.0.0.1", False),
        ("ssl:[::1]:6640", "pssl:6640:[::1]", False),
        ("unix:/run/x.sock", "punix:/run/x.sock", False),
    ],
)
def test_remotes_are_read_and_written_alike(text: str, passive: str, is_elsewhere: bool) -> None:
    remote = parse_remote(text)
    assert (str(remote), remote.passive, remote.is_elsewhere) == (text, passive, is_elsewhere)
