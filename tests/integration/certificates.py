"""Authorities and certificates for tests of TLS, made by the openssl program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dataplane.ovs.remote import TlsFiles
from tests.lab.commands import run

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Certificate:
    certificate: Path
    key: Path


class Authority:
    """A CA in a directory of its own, which is made."""

    def __init__(self, directory: Path, name: str) -> None:
        directory.mkdir()
        self.directory = directory
        self.certificate = directory / "ca.pem"
        self._key = directory / "ca-key.pem"
        subject = ("-subj", f"/CN={name}", "-days", "30")
        run(["openssl", "req", "-x509", *_KEY, "-keyout", str(self._key), "-out", str(self.certificate), *subject])

    def issue(self, name: str, *, days: int = 30, alternative: str = "") -> Certificate:
        """A certificate; of no use any more if `days` is negative. `alternative` is as in "IP:192.0.2.1"."""
        made = Certificate(self.directory / f"{name}.pem", self.directory / f"{name}-key.pem")
        request = self.directory / f"{name}.csr"
        run(["openssl", "req", "-new", *_KEY, "-keyout", str(made.key), "-out", str(request), "-subj", f"/CN={name}"])
        extensions: list[str] = []
        if alternative:
            file = self.directory / f"{name}.ext"
            file.write_text(f"subjectAltName={alternative}\n")
            extensions = ["-extfile", str(file)]
        run(
            [
                *("openssl", "x509", "-req", "-in", str(request), "-out", str(made.certificate), "-days", str(days)),
                *("-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial", *extensions),
            ]
        )
        return made


@dataclass(frozen=True, slots=True)
class Pki:
    """As ovs-pki has it: one authority for switches, one for those that program them."""

    switches: Authority
    agents: Authority

    @classmethod
    def make_in(cls, directory: Path) -> Pki:
        directory.mkdir()
        return cls(Authority(directory / "switchca", "switch CA"), Authority(directory / "controllerca", "agent CA"))

    def files(self, agent: Certificate) -> TlsFiles:
        """What an agent with this certificate needs."""
        return TlsFiles(self.switches.certificate, agent.certificate, agent.key)
