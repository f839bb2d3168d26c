"""The version of this installation."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def agent_version() -> str:
    """The installed package's version; 'unknown' when run from a source tree that is not installed."""
    try:
        return version("aca")
    except PackageNotFoundError:
        return "unknown"
