"""The command line as a whole: its commands, and what they have in common."""

from __future__ import annotations

import platform

import click
import google.protobuf
import grpc

from aca.cli.check import check
from aca.cli.push import push
from aca.cli.reconcile import reconcile
from aca.cli.run import run
from aca.cli.status import status
from aca.version import agent_version

_EPILOG = """\b
Exit status:
  0  done; all is well
  1  done, and something is not as it should be (a resource failed or is
     invalid; the agent cannot start)
  2  not done: wrong usage, settings or files, or no connection
"""


def _versions() -> str:
    return (
        f"aca {agent_version()} (Python {platform.python_version()}, gRPC {grpc.__version__}, "
        f"protobuf {google.protobuf.__version__})"
    )


def _print_versions(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(_versions())
        context.exit()


@click.group(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_versions,
              help="Print the versions and exit.")
def main() -> None:
    """Host agent of a cloud network: goal states in, a programmed data plane out."""


@main.command()
def version() -> None:
    """Print the versions of the agent and of what it stands on."""
    click.echo(_versions())


for _command in (run, check, push, status, reconcile):
    main.add_command(_command)
