"""Asking the agent on this host, by its admin socket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import grpc

from aca.cli.console import CommandError
from aca.config import AdminSettings
from goalstate_proto import aca_pb2_grpc

Reply = TypeVar("Reply")

_DENIED = "permission denied: only the agent's user may ask it; run as root"

socket_option = click.option(
    "--socket",
    # Not looked at by click: we say more about a socket that is not for this user.
    type=click.Path(path_type=Path, readable=False),
    default=AdminSettings.model_fields["socket"].default,
    envvar="ACA_ADMIN__SOCKET",
    show_default=True,
    show_envvar=True,
    help="The agent's admin socket.",
)


def ask(socket: Path, question: Callable[[aca_pb2_grpc.AdminStub], Reply]) -> Reply:
    """The agent's answer. Raises CommandError, saying what may be wrong."""
    with grpc.insecure_channel(f"unix:{socket.absolute()}", [("grpc.max_receive_message_length", -1)]) as channel:
        try:
            return question(aca_pb2_grpc.AdminStub(channel))
        except grpc.RpcError as error:
            raise CommandError(f"no answer from the agent at {socket}: {_reason(socket, error)}") from None


def _reason(socket: Path, error: Any) -> str:
    try:
        if not socket.exists():
            return "there is no such socket; is the agent running?"
    except PermissionError:
        return _DENIED
    details: str = error.details() or error.code().name
    if "ermission denied" in details:
        return _DENIED
    return "nobody answers there; is the agent running?" if "onnection refused" in details else details
