"""The command line: `aca run`, `aca check`, `aca push`, `aca status`, `aca version`."""

import os

# gRPC's core writes to standard error what we say ourselves, in words for people; it looks here when it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from aca.cli.commands import main

__all__ = ["main"]
