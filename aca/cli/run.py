"""`aca run`: the agent itself. Its options are made from the settings model."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import click

from aca.cli.console import CommandError
from aca.config import CONFIG_VARIABLE, ConfigError, SettingInfo, load_settings, setting_infos

_HELP = """Run the agent in the foreground until SIGTERM or SIGINT.

Every setting can be given in the file (TOML: [section] key = value), in the environment and as a flag; a flag wins
over the environment, which wins over the file. Lists are written with commas in the latter two. Unknown keys and bad
values are refused.

Exit status: 0 stopped by a signal; 1 cannot start; 2 wrong settings; 3 ended itself, as when another agent with the
same host.id has taken its place in Kafka; 128 + signal number after a second signal."""


class _SettingOption(click.Option):
    """An option for one setting. Its text is checked by the model, as the file's and the environment's values are."""

    def __init__(self, info: SettingInfo) -> None:
        default = f"default: {info.default}" if info.default else "must be set"
        super().__init__(
            [info.flag, _parameter(info)],
            metavar=info.kind,
            help=f"{info.description} [{default}; {info.environment}]",
        )
        self.info = info


class _RunCommand(click.Command):
    """Lists the settings section by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [option for option in self.params if isinstance(option, _SettingOption)]
        others = [option for option in self.get_params(ctx) if not isinstance(option, _SettingOption)]
        with formatter.section("Options"):
            formatter.write_dl([record for option in others if (record := option.get_help_record(ctx))])
        for path, group in itertools.groupby(options, key=lambda option: option.info.path[:-1]):
            members = list(group)
            with formatter.section(f"{members[0].info.section_title} [{'.'.join(path)}]"):
                formatter.write_dl([record for option in members if (record := option.get_help_record(ctx))])


def _parameter(info: SettingInfo) -> str:
    return "__".join(info.path)


def _run(config: Path | None, **flags: str | None) -> None:
    by_parameter = {_parameter(info): info.name for info in setting_infos()}
    given = {by_parameter[parameter]: text for parameter, text in flags.items() if text is not None}
    try:
        settings = load_settings(config, os.environ, given)
    except ConfigError as error:
        raise CommandError(str(error)) from None
    # Here and not above: no other command needs the servers and the data plane.
    from aca.agent import StartError, run_agent
    from aca.ending import FAILED_STATUS, AgentFailed

    try:
        run_agent(settings)
    except ConfigError as error:
        raise CommandError(str(error)) from None
    except AgentFailed as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(FAILED_STATUS) from None
    except StartError as error:
        raise click.ClickException(str(error)) from None


def _make() -> click.Command:
    params: list[Any] = [
        click.Option(
            ["--config"],
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            envvar=CONFIG_VARIABLE,
            help=f"Settings in TOML. [{CONFIG_VARIABLE}]",
        ),
        *(_SettingOption(info) for info in setting_infos()),
    ]
    return _RunCommand("run", callback=_run, params=params, help=_HELP, short_help="Run the agent.")


run = _make()
