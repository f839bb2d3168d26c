"""The command line: `aca run`, `aca check`, `aca push`, `aca status`, `aca version`."""

from __future__ import annotations

import platform

import click
import google.protobuf
import grpc

from aca.cli.check import check
from aca.cli.push import push
from aca.cli.run import run
from aca.cli.status import status
from aca.version import agent_version

__all__ = ["main"]

_EPILOG = """\b
Exit status:
  0  done; all is well
  1  done, and something is not as it should be (a resource failed or is
     invalid; the agent cannot start)
  2  not done: wrong usage, settings or files, or no connection
"""


@click.group(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def main() -> None:
    """Host agent of a cloud network: goal states in, a programmed data plane out."""


@main.command()
def version() -> None:
    """Print the versions of the agent and of what it stands on."""
    click.echo(
        f"aca {agent_version()} (Python {platform.python_version()}, gRPC {grpc.__version__}, "
        f"protobuf {google.protobuf.__version__})"
    )


for _command in (run, check, push, status):
    main.add_command(_command)
