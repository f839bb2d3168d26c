"""One Apache Kafka broker as a process."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.kafka.settings import DIRECTORY_ID_BYTES, as_file, meta
from tests.lab.commands import LabError, wait_until

FETCHED = Path(__file__).resolve().parents[2] / "build" / "kafka"
STARTED = "Kafka Server started"
START_TIMEOUT = 60.0
END_TIMEOUT = 30.0
LOG_TAIL = 4000
# A broker of a test is short-lived: what costs time at the start, or memory for later, is left out.
JVM = (
    *("-Xms64m", "-Xmx256m", "-Xss512k", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"),
    *("-XX:MaxMetaspaceSize=128m", "-XX:MaxDirectMemorySize=256m", "-Djava.awt.headless=true"),
    *("-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"),
    "-Dorg.slf4j.simpleLogger.showShortLogName=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
)


def missing() -> str:
    """What brokers lack on this machine, or ""."""
    if shutil.which("java") is None:
        return "no java (deploy/setup.sh installs it)"
    return "" if (FETCHED / "stamp").exists() else "no Kafka in build/kafka (tests/kafka/fetch.sh fetches it)"


def new_id() -> str:
    """An id as Kafka has them. Never begins with a dash, which its programs would take for an option."""
    while True:
        made = base64.urlsafe_b64encode(os.urandom(DIRECTORY_ID_BYTES)).decode().rstrip("=")
        if not made.startswith("-"):
            return made


class Broker:
    """start(), kill() or stop(), start() again: its log directory stays. Owned by Brokers, whose thread starts it."""

    def __init__(
        self,
        number: int,
        directory: Path,
        settings: Mapping[str, str],
        cluster: str,
        wrapper: Sequence[str],
        launch: Callable[[Callable[[], subprocess.Popen[bytes]]], subprocess.Popen[bytes]],
    ) -> None:
        """`directory` must not exist; `wrapper` precedes the command line; `launch` runs what makes the process."""
        directory.mkdir(parents=True)
        self.number = number
        self.log = directory / "broker.log"
        self._directory = directory
        self._wrapper = tuple(wrapper)
        self._launch = launch
        self._process: subprocess.Popen[bytes] | None = None
        self._already = 0
        data = Path(settings["log.dirs"])
        data.mkdir()
        (data / "meta.properties").write_text(meta(cluster, number, new_id()))
        shutil.copy(FETCHED / "bootstrap.checkpoint", data)
        self._file = directory / "broker.properties"
        self._file.write_text(as_file(settings))

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Raises LabError if it was never started."""
        if self._process is None:
            raise LabError(f"broker {self.number} was not started")
        return self._process.pid

    def start(self) -> None:
        """Start the process and return when it serves. Raises LabError, with its log."""
        self.begin()
        self.wait_ready()

    def begin(self) -> None:
        """Start the process; it need not serve yet. Raises LabError if it runs already."""
        if self.running:
            raise LabError(f"broker {self.number} runs already")
        command = ("java", *JVM, "-cp", f"{FETCHED}/jars/*", "kafka.Kafka", str(self._file))
        self._already = self._starts()

        def make() -> subprocess.Popen[bytes]:
            with self.log.open("ab") as log:
                return subprocess.Popen(
                    [*self._wrapper, *command],
                    cwd=self._directory,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )

        self._process = self._launch(make)
        (self._directory / "broker.pid").write_text(str(self._process.pid))

    def wait_ready(self) -> None:
        """Wait until the broker that begin() started serves. Raises LabError, with its log."""
        with suppress(LabError):
            wait_until(lambda: not self.running or self._starts() > self._already, START_TIMEOUT, "started")
        if not self.running or self._starts() <= self._already:
            raise LabError(f"broker {self.number} did not start\n{self.log_tail()}")

    def kill(self) -> None:
        """SIGKILL, as a crash; fine if it does not run."""
        self.send(signal.SIGKILL)
        self.wait_end()

    def stop(self) -> None:
        """SIGTERM and wait for the end; fine if it does not run. Raises LabError, and kills it, if it is late."""
        self.send(signal.SIGTERM)
        self.wait_end()

    def pause(self) -> None:
        """SIGSTOP: it hangs, its sockets stay open, until resume()."""
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def send(self, number: signal.Signals) -> None:
        """Fine if it does not run."""
        if self._process is not None:
            self._process.send_signal(number)

    def wait_end(self) -> None:
        """Raises LabError, and kills it, if it is late."""
        if self._process is None:
            return
        try:
            self._process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            self._process.wait(END_TIMEOUT)
            raise LabError(f"broker {self.number} did not end\n{self.log_tail()}") from error

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-LOG_TAIL:]

    def _starts(self) -> int:
        return self.log.read_text(errors="replace").count(STARTED) if self.log.exists() else 0
