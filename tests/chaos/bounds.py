"""How long things may take."""

from __future__ import annotations

import os

CROWDED = 5.0
"""The short form runs beside other tests, on whatever machine: what it checks is that things come back at all."""


def bound(seconds: float) -> float:
    """The seconds that are promised; the long form, which has the machine to itself, holds the agent to them."""
    return seconds if os.environ.get("ACA_LONG") == "1" else seconds * CROWDED
