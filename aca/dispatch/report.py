"""What the status says of the resources: pure, for people and programs (docs/status.md)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from aca.dispatch.outcomes import Outcomes
from aca.dispatch.plan import UPSERT_ORDER
from aca.goalstate.conflicts import conflicts
from aca.goalstate.desired import DesiredState
from dataplane.model import Kind

_MAX_CONFLICTS_SHOWN = 1000


def describe_resources(
    state: DesiredState, outcomes: Outcomes, in_work: Counter[Kind], *, ready: bool
) -> dict[str, Any]:
    """Counts by kind, problems, refusals, notes and conflicts, JSON-ready."""
    resources = {
        kind.name: outcomes.counts(kind, in_work[kind], confirmed=_is_confirmed(state, kind, ready=ready))
        for kind in Kind
    }
    problems, total = outcomes.describe(list(Kind))
    return {
        "resources": resources,
        "in_work": in_work.total(),
        "problems": problems,
        "problems_total": total,
        "refused": outcomes.describe_refused(),
        "notes": _notes(state),
        "conflicts": conflicts(state)[:_MAX_CONFLICTS_SHOWN],
    }


def _is_confirmed(state: DesiredState, kind: Kind, *, ready: bool) -> bool:
    """Whether resources of this kind without a problem are programmed: not while nothing can be."""
    if kind is Kind.SECURITYGROUP:
        return state.capabilities.security_groups
    return ready or kind not in UPSERT_ORDER


def _notes(state: DesiredState) -> list[str]:
    """What holds for this agent as it is, and is no fault of any one resource."""
    notes = []
    if state.security_groups and not state.capabilities.security_groups:
        notes.append("Security groups are remembered, not enforced: every port is open.")
    if state.gateways and not state.capabilities.gateways:
        notes.append("Gateway states are remembered, not programmed.")
    return notes
