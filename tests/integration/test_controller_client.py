"""The client to the controllers, against real servers: answers, silence, lies, failover, TLS."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from aca.ondemand.values import Answers, Inquiry, Protocol, Verdict
from aca.transport.controller import ControllerClient, ControllerSettings, TlsError, TlsFiles
from aca.transport.thread import ServerThread
from dataplane.addresses import parse_address
from goalstate_proto import common_pb2
from tests.lab.commands import wait_until
from tests.lab.controller import Controller, promise, refuse

WAIT_S = 20.0
SOURCE = parse_address("192.0.2.11")
INQUIRY = Inquiry(77, parse_address("10.0.0.5"), parse_address("10.0.0.9"), Protocol.UDP, 1234, 53)

Connect = Callable[..., "Client"]


class Client:
    """A client with an event loop of its own."""

    def __init__(self, thread: ServerThread, *addresses: str, **settings: Any) -> None:
        self._thread = thread
        self.client = ControllerClient(ControllerSettings(addresses, **settings))

    def start(self, *request_ids: str) -> Future[Answers]:
        return self._thread.submit(self.client.request_goal_states(dict.fromkeys(request_ids, INQUIRY)))

    def ask(self, *request_ids: str) -> Answers:
        return self.start(*request_ids).result(WAIT_S)

    def restarted(self) -> Answers:
        return self._thread.run(self.client.agent_restarted("restart-1", SOURCE), WAIT_S)

    def close(self) -> None:
        self._thread.run(self.client.close(), WAIT_S)


@pytest.fixture
def connect() -> Iterator[Connect]:
    thread = ServerThread()
    thread.start()
    made: list[Client] = []

    def new(*addresses: str, **settings: Any) -> Client:
        made.append(Client(thread, *addresses, **settings))
        return made[-1]

    yield new
    for client in made:
        client.close()
    thread.close()


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[tuple[Controller, Controller]]:
    with Controller(tmp_path / "one.sock") as one, Controller(tmp_path / "two.sock") as two:
        yield one, two


def test_what_is_asked_is_what_the_contract_says(controllers: tuple[Controller, Controller], connect: Connect) -> None:
    controller, _ = controllers
    controller.decide = promise
    assert connect(controller.target).ask("id-1") == Answers({"id-1": Verdict.ROUTABLE})
    (request,) = controller.asked
    assert request.request_type == common_pb2.ON_DEMAND and request.request_id == "id-1"
    assert request.tunnel_id == 77
    assert (request.source_ip, request.source_port) == ("10.0.0.5", 1234)
    assert (request.destination_ip, request.destination_port) == ("10.0.0.9", 53)
    assert (request.ethertype, request.protocol) == (common_pb2.IPV4, common_pb2.UDP)


def test_each_gets_its_own_answer(controllers: tuple[Controller, Controller], connect: Connect) -> None:
    controller, _ = controllers
    said = {"yes": common_pb2.SUCCESS, "no": common_pb2.FAILURE, "later": common_pb2.PENDING, "silence": None}
    controller.decide = lambda request: said[request.request_id]
    answers = connect(controller.target).ask(*said)
    assert {name: answers.verdict(name) for name in said} == {
        "yes": Verdict.ROUTABLE,
        "no": Verdict.UNROUTABLE,
        "later": Verdict.UNANSWERED,
        "silence": Verdict.UNANSWERED,
    }
    assert not answers.trouble


def test_a_restart_is_told(controllers: tuple[Controller, Controller], connect: Connect) -> None:
    controller, _ = controllers
    controller.decide = promise
    answers = connect(controller.target).restarted()
    (request,) = controller.asked
    assert request.request_type == common_pb2.AGENT_RESTARTED and request.source_ip == "192.0.2.11"
    assert answers.verdict(request.request_id) is Verdict.ROUTABLE


def test_a_slow_controller_is_not_waited_for(controllers: tuple[Controller, Controller], connect: Connect) -> None:
    slow, quick = controllers
    over = threading.Event()
    slow.decide = lambda request: over.wait(WAIT_S) and None
    quick.decide = refuse
    client = connect(slow.target, quick.target, request_timeout_s=0.2)
    assert client.ask("a") == Answers({"a": Verdict.UNROUTABLE})
    assert client.ask("b") == Answers({"b": Verdict.UNROUTABLE})
    over.set()
    assert [one.request_id for one in slow.asked] == ["a"], "the one that answers is asked first from then on"


def test_a_slow_call_holds_up_no_other(controllers: tuple[Controller, Controller], connect: Connect) -> None:
    controller, _ = controllers
    over = threading.Event()

    def decide(request: Any) -> common_pb2.OperationStatus:
        if request.request_id == "slow":
            over.wait(WAIT_S)
        return common_pb2.SUCCESS

    controller.decide = decide
    client = connect(controller.target, request_timeout_s=WAIT_S)
    slow = client.start("slow")
    assert client.ask("quick").verdict("quick") is Verdict.ROUTABLE
    assert not slow.done()
    over.set()
    assert slow.result(WAIT_S).verdict("slow") is Verdict.ROUTABLE


def test_another_controller_is_asked_when_one_is_down(
    controllers: tuple[Controller, Controller], connect: Connect
) -> None:
    one, two = controllers
    one.decide = two.decide = promise
    client = connect(one.target, two.target)
    assert client.ask("a").verdict("a") is Verdict.ROUTABLE
    one.stop()
    assert client.ask("b").verdict("b") is Verdict.ROUTABLE
    assert [[r.request_id for r in each.asked] for each in (one, two)] == [["a"], ["b"]]
    two.stop()
    trouble = client.ask("c")
    assert not trouble.verdicts and one.target in trouble.trouble and two.target in trouble.trouble
    assert "UNAVAILABLE" in trouble.trouble


def test_a_controller_that_is_restarted_is_found_again(
    controllers: tuple[Controller, Controller], connect: Connect
) -> None:
    controller, _ = controllers
    controller.decide = promise
    client = connect(controller.target)
    for round_number in range(3):
        wait_until(lambda n=str(round_number): client.ask(n).verdicts, WAIT_S, "an answer")  # type: ignore[misc]
        controller.stop()
        assert client.ask("nobody").trouble
        controller.start()


def test_a_server_of_something_else_is_no_answer(tmp_path: Path, connect: Connect) -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_insecure_port(f"unix:{tmp_path}/else.sock")
    server.start()
    try:
        assert "UNIMPLEMENTED" in connect(f"unix:{tmp_path}/else.sock").ask("a").trouble
    finally:
        server.stop(None).wait(WAIT_S)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
class TestTls:
    @pytest.fixture
    def certificate(self, tmp_path: Path) -> tuple[Path, Path]:
        """A certificate for localhost that vouches for itself, and its key."""
        key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
        command = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {certificate}"
        names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        subprocess.run([*command.split(), *names], check=True, capture_output=True, timeout=WAIT_S)
        return certificate, key

    def test_only_who_is_trusted_is_asked(
        self, certificate: tuple[Path, Path], tmp_path: Path, connect: Connect
    ) -> None:
        pem, key = certificate
        credentials = grpc.ssl_server_credentials([(key.read_bytes(), pem.read_bytes())], pem.read_bytes(), True)
        controller = Controller(tmp_path / "unused.sock", credentials)
        controller.decide = promise
        with controller:
            trusting = connect(controller.target, tls=TlsFiles(pem, pem, key))
            assert trusting.ask("a").verdict("a") is Verdict.ROUTABLE
            assert connect(controller.target, tls=TlsFiles(pem)).ask("b").trouble, "it shows no certificate"
            assert connect(controller.target).ask("c").trouble, "it speaks in the clear"
        assert [one.request_id for one in controller.asked] == ["a"]

    def test_files_that_cannot_be_read_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(TlsError, match=f"{tmp_path}/missing.pem: cannot be read"):
            ControllerClient(ControllerSettings(("h:1",), SOURCE, tls=TlsFiles(tmp_path / "missing.pem")))
