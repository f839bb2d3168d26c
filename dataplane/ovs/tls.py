"""Mutual TLS as Open vSwitch does it: both sides show a certificate, each checks the other's against a CA.

Certificates made by ovs-pki name no host, so by default the peer's name is not compared, only who signed it.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from dataplane.ovs.remote import TlsFiles

_ABOUT_US = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")
"""Parts of the names of alerts (RFC 8446 section 6.2) that speak of the certificate that we showed."""


class TlsError(Exception):
    """TLS cannot be had. The message names the file and the cause."""


class TlsIdentity:
    """Who we are and whom we trust, as read from the files once; files that are replaced count for the next one."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises TlsError naming the file that cannot be used and why."""
        self._files = files
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._context.check_hostname = bool(files.peer_name)
        _must_be_readable("tls_ca", files.ca)
        _must_be_readable("tls_certificate", files.certificate)
        _must_be_readable("tls_key", files.key)
        try:
            self._context.load_verify_locations(files.ca)
        except (ssl.SSLError, OSError) as error:
            raise TlsError(f"tls_ca {files.ca} holds no certificate: {_words(error)}") from error
        try:
            # Without a password at hand an encrypted key would ask for one at the terminal.
            self._context.load_cert_chain(files.certificate, files.key, password=lambda: "")
        except (ssl.SSLError, OSError) as error:
            raise TlsError(
                f"tls_certificate {files.certificate} and tls_key {files.key} cannot be used: {_words(error)}"
            ) from error

    def wrap(self, sock: socket.socket) -> ssl.SSLSocket:
        """TLS over a connected, non-blocking socket, before its handshake; the descriptor's number stays."""
        return self._context.wrap_socket(
            sock, do_handshake_on_connect=False, server_hostname=self._files.peer_name or None
        )

    def explain(self, error: OSError) -> str:
        """Why TLS failed, in words that name the file to look at."""
        if isinstance(error, ssl.SSLCertVerificationError):
            why = error.verify_message.rstrip(".")
            return f"TLS: the switch's certificate is refused: {why} (tls_ca is {self._files.ca})"
        reason = error.reason or "" if isinstance(error, ssl.SSLError) else ""
        if "_ALERT_" in reason:
            said = reason.partition("_ALERT_")[2]
            if any(part in said for part in _ABOUT_US):
                return f"TLS: the switch refuses our certificate {self._files.certificate}: {_lower(said)}"
            return f"TLS: the switch ends it: {_lower(said)}"
        if isinstance(error, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError):
            return self.explain_end()
        return f"TLS: {_words(error)}"

    def explain_end(self) -> str:
        """Why the switch may have hung up before it said anything."""
        return (
            "TLS: the switch hung up during the handshake: has it keys (ovs-vsctl set-ssl), and does it trust the CA "
            f"of {self._files.certificate}?"
        )


def _must_be_readable(setting: str, file: Path) -> None:
    try:
        file.open("rb").close()
    except OSError as error:
        raise TlsError(f"{setting} {file} cannot be read: {error.strerror}") from error


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return _lower(error.reason)
    return error.strerror or str(error)


def _lower(reason: str) -> str:
    return reason.replace("_", " ").lower()
