"""How single settings are checked: addresses, names, lists of them. All raise ValueError with a sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from dataplane.addresses import AddressError, format_address, is_unicast_address, parse_address
from dataplane.faults import parse_fault
from dataplane.ovs.remote import parse_remote

_HOST_PORT = re.compile(r"(?:\[(?P<v6>[^\]]*)\]|(?P<host>[^:\[\]]*)):(?P<port>\d{1,5})")


def _split_any(value: object) -> object:
    """Lists are written with commas where only text can be given; one value need not be in a list."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _split(value: object) -> object:
    """As `_split_any`, for lists that must not be empty."""
    parts = _split_any(value)
    if isinstance(parts, list | tuple) and not parts:
        raise ValueError("must not be empty")
    return parts


def _check_address(text: str) -> str:
    try:
        address = parse_address(text)
    except AddressError:
        raise ValueError("must be an IPv4 or IPv6 address") from None
    if not is_unicast_address(address):
        raise ValueError("must be an address that a host can own (not loopback, multicast or unspecified)")
    return format_address(address)


def is_ipv4(address: str) -> bool:
    return len(parse_address(address)) == 4


def _check_fault(text: str) -> str:
    parse_fault(text)
    return text


def _check_listen(text: str) -> str:
    if text.startswith("unix:"):
        if not text.startswith("unix:/") or len(text) < len("unix:/x"):
            raise ValueError("must be unix:/ABSOLUTE/PATH")
        return text
    match = _HOST_PORT.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ValueError("must be ADDRESS:PORT, [IPv6 ADDRESS]:PORT or unix:/PATH")
    host = match["v6"] if match["v6"] is not None else match["host"]
    if host != "localhost":
        try:
            parse_address(host)
        except AddressError:
            raise ValueError("must begin with an IP address or 'localhost' (IPv6 in brackets)") from None
    return text


def _check_controller(text: str) -> str:
    if text.startswith("unix:/") and len(text) > len("unix:/"):
        return text
    match = _HOST_PORT.fullmatch(text)
    if match is None or not 1 <= int(match["port"]) <= 65535 or not (match["v6"] or match["host"]):
        raise ValueError("must be HOST:PORT, [IPv6 ADDRESS]:PORT or unix:/PATH")
    if match["v6"] is not None:
        try:
            parse_address(match["v6"])
        except AddressError:
            raise ValueError("must have an IPv6 address in the brackets") from None
    return text


def _check_remote(text: str) -> str:
    return str(parse_remote(text))


def check_device_name(text: str) -> str:
    # The kernel's IFNAMSIZ: 15 bytes and the closing zero.
    if not 1 <= len(text.encode()) <= 15 or "/" in text or any(char.isspace() for char in text):
        raise ValueError("must be a device name: 1 to 15 bytes without '/' and spaces")
    return text


Address = Annotated[str, AfterValidator(_check_address)]
Addresses = Annotated[tuple[Address, ...], BeforeValidator(_split)]
Listen = Annotated[str, AfterValidator(_check_listen)]
Listens = Annotated[tuple[Listen, ...], BeforeValidator(_split)]
Controllers = Annotated[tuple[Annotated[str, AfterValidator(_check_controller)], ...], BeforeValidator(_split_any)]
Faults = Annotated[tuple[Annotated[str, AfterValidator(_check_fault)], ...], BeforeValidator(_split_any)]
Remote = Annotated[str, AfterValidator(_check_remote)]
OptionalRemote = Annotated[Remote | None, BeforeValidator(lambda value: value or None)]
UdpPort = Annotated[int, Field(ge=1, le=65535)]
OptionalPath = Annotated[Path | None, BeforeValidator(lambda value: value or None)]
"""Empty text stands for none."""


class Section(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=False)
