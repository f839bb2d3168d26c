"""Settings: one typed, frozen object, from a TOML file, the environment and flags (later ones win).

A setting is named `section.key` in the file, `ACA_SECTION__KEY` in the environment and `--section-key` as a flag. The
model below is the only list of settings: the flags, the help text and the environment names are made from it.
"""

from __future__ import annotations

import difflib
import re
import socket
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from aca.contradictions import contradictions
from aca.kafkasettings import KafkaSettings
from aca.ovssettings import OvsDataPlaneSettings
from aca.settingtypes import (
    Address,
    Addresses,
    Controllers,
    Faults,
    Listens,
    OptionalPath,
    Section,
    UdpPort,
    check_device_name,
    is_ipv4,
)
from dataplane.addresses import parse_address

ENVIRONMENT_PREFIX = "ACA_"
CONFIG_VARIABLE = "ACA_CONFIG"
"""Names the configuration file; not a setting itself."""

# Kubernetes puts these into every pod of a namespace that has a service called "aca"; nobody wrote them by hand.
_SERVICE_LINK = re.compile(r"ACA_(?:[A-Z0-9]+_)*?(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT(?:_\d+_[A-Z]+\w*)?)")


class ConfigError(Exception):
    """A setting is unknown or its value is refused. The message names every such setting and what is allowed."""


def _spell_level(value: object) -> object:
    """Levels may be written in any case."""
    return value.lower() if isinstance(value, str) and value.lower() in get_args(Level) else value


DataPlaneKind = Literal["ovs", "netlink"]
Level = Literal["debug", "info", "warning", "error"]


class HostSettings(Section):
    """This host"""

    id: str = Field(
        default_factory=socket.gethostname, min_length=1, description="Name of this host in logs and status.",
        json_schema_extra={"shown_default": "the host's name"},
    )
    addresses: Addresses = Field(
        description="All addresses of this host, of management and data path: resources named for them are ours, "
        "neighbours on them are local.",
    )
    tunnel_address: Address | None = Field(
        default=None, validate_default=True, description="Data path address: where tunnels of this host end, IPv4.",
        json_schema_extra={"shown_default": "the first IPv4 address of host.addresses"},
    )

    tunnel_interface: Annotated[str, AfterValidator(check_device_name)] | None = Field(
        default=None, description="Interface whose first IPv4 address is where tunnels end. It is followed when it "
        "changes; as long as it has none, host.tunnel_address counts.",
        json_schema_extra={"shown_default": "none"},
    )

    @field_validator("tunnel_address")
    @classmethod
    def _check_tunnel_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and not is_ipv4(value):
            raise ValueError("tunnels end at IPv4 addresses")
        # Addresses that were refused are not in the data.
        if value is None and not any(map(is_ipv4, info.data.get("addresses", ["0.0.0.0"]))):
            raise ValueError("tunnels end at IPv4 addresses, and host.addresses has none")
        return value

    @property
    def data_path_address(self) -> str:
        """The tunnel address, or the first IPv4 address if none is set."""
        return self.tunnel_address or next(filter(is_ipv4, self.addresses))

    @property
    def packed_addresses(self) -> frozenset[bytes]:
        """All own addresses, 4 or 16 bytes each."""
        return frozenset(map(parse_address, self.addresses))


class GrpcSettings(Section):
    """gRPC server for controllers"""

    listen: Listens = Field(
        default=("0.0.0.0:50001",),
        description="Where to listen: ADDRESS:PORT or unix:/PATH, several with commas (a list in the file).",
    )
    max_message_mib: int = Field(default=512, ge=1, le=2047, description="Largest message taken, in MiB.")
    max_concurrent_messages: int = Field(
        default=64, ge=1, le=10_000, description="Messages in hand at once; further ones wait on the wire."
    )


class ControllerSettings(Section):
    """Controllers that this agent asks"""

    addresses: Controllers = Field(
        default=(), description="Whom to ask for unknown destinations: HOST:PORT or unix:/PATH, several with commas (a "
        "list in the file); the next one is asked when one cannot be reached. Without any nobody is asked.",
        json_schema_extra={"shown_default": "none"},
    )
    request_timeout_s: float = Field(
        default=1.0, gt=0, le=60, description="How long one of them may take to answer, in seconds."
    )
    keepalive_s: float = Field(
        default=20.0, ge=1, le=3600, description="How often a silent connection is tried, in seconds."
    )
    tls_ca: OptionalPath = Field(
        default=None, description="PEM file of the authorities that their certificates must be from; without it "
        "connections are in the clear.", json_schema_extra={"shown_default": "none"},
    )
    tls_certificate: OptionalPath = Field(
        default=None, description="PEM file with the certificate of this agent, if they want one.",
        json_schema_extra={"shown_default": "none"},
    )
    tls_key: OptionalPath = Field(
        default=None, validate_default=True, description="PEM file with its key.",
        json_schema_extra={"shown_default": "none"},
    )

    @field_validator("tls_key")
    @classmethod
    def _check_key(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        certificate = info.data.get("tls_certificate")
        if (value is None) != (certificate is None):
            raise ValueError("controller.tls_certificate and controller.tls_key go together")
        if value is not None and info.data.get("tls_ca") is None:
            raise ValueError("needs controller.tls_ca: without it connections are in the clear")
        return value


class OnDemandSettings(Section):
    """Unknown destinations"""

    enabled: bool = Field(default=True, description="Ask controllers for unknown destinations, if there are any.")
    deadline_s: float = Field(
        default=5.0, gt=0, le=60, description="How long a packet waits for its destination, in seconds."
    )
    negative_s: float = Field(
        default=10.0, ge=0, le=3600, description="How long a destination is not asked for again after a controller has "
        "said that there is no way, in seconds.",
    )
    max_questions: int = Field(default=10_000, ge=1, le=1_000_000, description="Destinations asked for at once.")
    max_kept_kib: int = Field(default=16_384, ge=64, le=1_048_576, description="Packets that wait, in KiB.")


class AdminSettings(Section):
    """Local socket for `aca status`"""

    socket: Path = Field(
        default=Path("/run/aca/admin.sock"), description="Path of the socket, which only the agent's user (normally "
        "root) may open. Missing directories are made.",
    )


class NetlinkDataPlaneSettings(Section):
    """The Linux kernel's own bridges, routes and nftables"""

    vxlan_port: UdpPort = Field(default=4789, description="UDP port of VXLAN tunnels.")
    geneve_port: UdpPort = Field(default=6081, description="UDP port of Geneve tunnels, where the kernel has them.")
    namespace_prefix: str = Field(
        default="aca-", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", description="What the names of the routers' "
        "network namespaces begin with; nothing else on the host may begin so.",
    )


class DataPlaneSettings(Section):
    """Data plane"""

    kind: DataPlaneKind = Field(default="ovs", description="Which data plane to program.")
    workers: int = Field(default=4, ge=1, le=64, description="Threads that program it.")
    default_network_type: Literal["vxlan", "geneve"] = Field(
        default="vxlan", description="Encapsulation of subnets that do not name one."
    )
    make_devices: Literal["no", "tap", "veth"] = Field(
        default="no", description="Make the ports' devices instead of waiting for them: a persistent tap, or a veth "
        "pair whose other end is eth0, with the port's addresses and default route, in a network namespace of its own.",
    )
    port_namespace_prefix: str = Field(
        default="acaport-", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", description="What the names of the "
        "namespaces that make_devices makes begin with; the port's id follows.",
    )
    tunnel_mtu: int = Field(
        default=1450, ge=576, le=65535, description="Largest IP packet that fits into a tunnel, in bytes."
    )
    ready_wait_s: float = Field(
        default=5.0, ge=0, le=60, description="How long a push waits for a data plane that is not ready before it is "
        "answered PENDING, in seconds.",
    )
    reply_timeout_s: float = Field(
        default=240.0, gt=0, le=3600, description="How long a push may take before it is answered as it stands, in "
        "seconds (controllers give up after 300).",
    )
    ovs: OvsDataPlaneSettings = OvsDataPlaneSettings()
    netlink: NetlinkDataPlaneSettings = NetlinkDataPlaneSettings()


class ReconcileSettings(Section):
    """Keeping the data plane equal to the desired state"""

    controller_replays: bool = Field(
        default=False, description="The controller replays everything that is meant for this host when the agent tells "
        "it that it has started, and ends the replay with the closing marker (docs/wire-extensions.md). Only then does "
        "the agent take away by itself what nothing wants.",
    )
    sweep_limit: float = Field(
        default=0.5, ge=0, le=1, description="Largest part of what stands that is taken away at once, unasked; more "
        "needs `aca reconcile --force`.",
    )
    check_every_s: float = Field(
        default=5.0, ge=0.5, le=3600, description="How often to look for what somebody else has changed, in seconds."
    )
    survey_every_s: float = Field(
        default=3600.0, ge=10, le=86_400, description="How often to compare everything, once the desired state is "
        "complete, in seconds.",
    )


class LogSettings(Section):
    """Logging, to standard error"""

    level: Annotated[Level, BeforeValidator(_spell_level)] = Field(default="info", description="Least level written.")
    format: Literal["console", "json"] = Field(default="console", description="For people or one JSON object a line.")


class FaultSettings(Section):
    """Faults on demand, for tests and rehearsals"""

    rules: Faults = Field(
        default=(), description="What is to go wrong, and when: '(crash|fail|drop) at POINT [N]' or 'delay at POINT "
        "[N] by SECONDS', several with commas (docs/restart.md lists the points).",
    )


class Settings(Section):
    """Everything that can be set."""

    host: HostSettings
    grpc: GrpcSettings = GrpcSettings()
    controller: ControllerSettings = ControllerSettings()
    kafka: KafkaSettings = KafkaSettings()
    on_demand: OnDemandSettings = OnDemandSettings()
    admin: AdminSettings = AdminSettings()
    dataplane: DataPlaneSettings = DataPlaneSettings()
    reconcile: ReconcileSettings = ReconcileSettings()
    faults: FaultSettings = FaultSettings()
    log: LogSettings = LogSettings()

    @model_validator(mode="after")
    def _check_replays(self) -> Settings:
        if self.reconcile.controller_replays and not self.controller.addresses:
            raise ValueError("reconcile.controller_replays needs controller.addresses: nobody is told of a start")
        return self

    @property
    def asks_on_demand(self) -> bool:
        """Whether there is somebody to ask for unknown destinations, and it is wanted."""
        return bool(self.controller.addresses) and self.on_demand.enabled


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """One setting, for help texts and look-up."""

    path: tuple[str, ...]
    section_title: str
    description: str
    kind: str
    """What to write, for example INTEGER or vxlan|geneve."""
    default: str
    """As people read it; empty if the setting must be given."""
    secret: bool = False
    """Values are never shown."""

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def environment(self) -> str:
        return ENVIRONMENT_PREFIX + "__".join(self.path).upper()

    @property
    def flag(self) -> str:
        return "--" + "-".join(self.path).replace("_", "-")


def setting_infos() -> list[SettingInfo]:
    """Every setting, in the order of the model."""
    return list(_walk(Settings, ()))


def load_settings(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
) -> Settings:
    """Settings from a TOML file, `ACA_` variables and flags (by setting name, `grpc.listen`), each over the one before.

    Raises ConfigError naming every unknown key and refused value as the user wrote it (file key, variable or flag).
    """
    infos = {info.name: info for info in setting_infos()}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    problems: list[str] = []
    if file is not None:
        problems += _take_file(file, infos, values, origins)
    problems += _take_environment(environment or {}, infos, values, origins)
    for name, text in (flags or {}).items():
        values[name], origins[name] = text, f"flag {infos[name].flag}"
    try:
        settings = Settings.model_validate(_nest(values))
        problems += [f"{origins.get(name, name)}: {what}" for name, what in contradictions(settings)]
    except ValidationError as error:
        problems += _explain(error, infos, origins)
    if problems:
        raise ConfigError("\n".join(problems))
    return settings


def _walk(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[SettingInfo]:
    title = (model.__doc__ or "").strip()
    nested: list[tuple[str, type[BaseModel]]] = []
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            nested.append((name, field.annotation))
        else:
            extra = field.json_schema_extra
            secret = isinstance(extra, dict) and bool(extra.get("secret"))
            yield SettingInfo((*path, name), title, field.description or "", _kind(field), _default(field), secret)
    for name, inner in nested:
        yield from _walk(inner, (*path, name))


def _kind(field: FieldInfo) -> str:
    annotation = field.annotation
    if get_origin(annotation) is Literal:
        return "|".join(get_args(annotation))
    simple = {int: "INTEGER", float: "NUMBER", bool: "true|false", Path: "PATH"}
    if isinstance(annotation, type) and annotation in simple:
        return simple[annotation]
    return "TEXT,..." if get_origin(annotation) is tuple else "TEXT"


def _default(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    if isinstance(extra, dict) and "shown_default" in extra:
        return str(extra["shown_default"])
    if field.is_required():
        return ""
    if isinstance(field.default, bool):
        return str(field.default).lower()
    return ",".join(map(str, field.default)) if isinstance(field.default, tuple) else str(field.default)


def _take_file(
    file: Path, infos: Mapping[str, SettingInfo], values: dict[str, Any], origins: dict[str, str]
) -> list[str]:
    """Puts the file's settings into `values`; returns what is wrong with its keys."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: is not TOML: {error}") from None
    sections = {".".join(info.path[:depth]) for info in infos.values() for depth in range(1, len(info.path))}
    problems = []
    for name, value in _flatten(document, sections):
        if name in infos:
            values[name], origins[name] = value, f"{file}: {name}"
        elif name in sections:
            problems.append(f"{file}: {name} is a section, not a setting; {_allowed(name, infos)}")
        else:
            problems.append(f"{file}: {name} is not a setting; {_allowed(name, infos)}")
    return problems


def _flatten(table: Mapping[str, Any], sections: set[str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, dict) and name in sections:
            yield from _flatten(value, sections, name + ".")
        else:
            yield name, value


def _take_environment(
    environment: Mapping[str, str], infos: Mapping[str, SettingInfo], values: dict[str, Any], origins: dict[str, str]
) -> list[str]:
    by_variable = {info.environment: info.name for info in infos.values()}
    problems = []
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == CONFIG_VARIABLE:
            continue
        if variable in by_variable:
            name = by_variable[variable]
            values[name], origins[name] = text, f"environment variable {variable}"
        elif not _SERVICE_LINK.fullmatch(variable):
            wanted = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
            close = difflib.get_close_matches(variable, by_variable, n=1)
            hint = f"did you mean {close[0]}?" if close else _allowed(wanted, infos)
            problems.append(f"environment variable {variable} is not a setting; {hint}")
    return problems


def _allowed(name: str, infos: Mapping[str, SettingInfo]) -> str:
    """The settings of the section that an unknown name seems to mean, else the sections."""
    section = name
    while section:
        siblings = [info.path[-1] for info in infos.values() if ".".join(info.path[:-1]) == section]
        if siblings:
            return f"[{section}] has: {', '.join(siblings)}"
        section = section.rpartition(".")[0]
    sections = dict.fromkeys(".".join(info.path[:-1]) for info in infos.values())
    return f"there are the sections: {', '.join(sections)}"


def _nest(values: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {"host": {}}
    for name, value in values.items():
        *sections, key = name.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[key] = value
    return tree


def _explain(error: ValidationError, infos: Mapping[str, SettingInfo], origins: Mapping[str, str]) -> list[str]:
    problems = []
    for detail in error.errors():
        if not detail["loc"]:  # settings that do not go together
            problems.append(str(detail["ctx"]["error"]))
            continue
        name, rest = _setting_of(detail["loc"], infos)
        info = infos[name]
        if detail["type"] == "missing":
            problems.append(
                f"{name} must be set: in the file, as {info.environment} or {info.flag}. {info.description}"
            )
            continue
        what = detail["ctx"]["error"] if detail["type"] == "value_error" else _sentence(detail["msg"], info)
        if detail["input"] is None:  # no way of giving a setting can say that: it is a default that does not fit
            problems.append(f"{name} must be set: {what}")
            continue
        place = f" (item {int(rest[0]) + 1})" if rest and isinstance(rest[0], int) else ""
        given = "what is given" if info.secret else repr(detail["input"])
        problems.append(f"{origins.get(name, name)}{place}: {given} is refused: {what}")
    return problems


def _setting_of(loc: tuple[int | str, ...], infos: Mapping[str, SettingInfo]) -> tuple[str, tuple[int | str, ...]]:
    for depth in range(len(loc), 0, -1):
        name = ".".join(str(part) for part in loc[:depth])
        if name in infos:
            return name, loc[depth:]
    raise AssertionError(f"no setting at {loc}")  # sections are always tables here: _nest made them


def _sentence(message: str, info: SettingInfo) -> str:
    text = re.sub(r"^(Input|Value|Tuple|String) should", "must", message)
    if number := re.match(r"must be a valid (integer|number)\b", text):
        return f"must be {'an' if number[1] == 'integer' else 'a'} {number[1]}"
    return text if text != message or "|" not in info.kind else f"must be one of {info.kind}"
