"""The certificates of a broker for tests: a good one and one whose time is over, of one authority made at run time."""

from __future__ import annotations

from pathlib import Path

from tests.integration.certificates import Authority, Certificate
from tests.kafka.settings import Listener, Security

TLS = "TLS"
EXPIRED = "EXPIRED"
SCRAM_TLS = "SCRAM"
USER = "agent"
PASSWORD = "correct-horse"


def authority_file(directory: Path) -> Path:
    """What clients trust, once security_in() has made it."""
    return directory / "broker-ca" / "ca.pem"


def security_in(directory: Path, address: str) -> Security:
    """Make an authority and certificates for `address` below `directory`.

    Listeners: TLS; EXPIRED, TLS with a certificate that is of no use any more; SCRAM, TLS and SASL/SCRAM-SHA-512.
    """
    authority = Authority(directory / "broker-ca", "broker CA")
    good = _keystore(authority.issue("broker", alternative=f"IP:{address}"))
    expired = _keystore(authority.issue("old-broker", days=-1, alternative=f"IP:{address}"))
    return Security(
        (Listener(TLS, good), Listener(EXPIRED, expired), Listener(SCRAM_TLS, good, protocol="SASL_SSL")),
    )


def _keystore(of: Certificate) -> Path:
    """Key and certificate in one file, as Kafka wants them."""
    file = of.certificate.with_suffix(".keystore")
    file.write_text(of.key.read_text() + of.certificate.read_text())
    return file
