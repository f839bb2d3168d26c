"""Writing TOML, which the standard library only reads."""

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def dumps(document: Mapping[str, Any]) -> str:
    """Nested mappings of strings, integers, floats, booleans and lists of these as TOML 1.0.

    Raises TypeError for anything else.
    """
    return "\n".join(_section("", document)).lstrip() + "\n"


def _section(path: str, values: Mapping[str, Any]) -> list[str]:
    lines = [f"{_key(key)} = {_value(v)}" for key, v in values.items() if not isinstance(v, Mapping)]
    if path and lines:
        lines.insert(0, f"\n[{path}]")
    for key, value in values.items():
        if isinstance(value, Mapping):
            lines += _section(f"{path}.{_key(key)}" if path else _key(key), value)
    return lines


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            # JSON's escapes are TOML's, once every character is kept as it is.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list() | tuple():
            return f"[{', '.join(_value(item) for item in value)}]"
        case _:
            raise TypeError(f"no TOML for {value!r}")
