"""Whether the bridge can be taken over: which version of the pipeline stands on it. Pure.

`external_ids:aca-pipeline` of the bridge names the version, `aca-pipeline-former` older ones of which flows may still
stand, until they have been swept. `aca-agent` names the agent that programs the bridge: the last one that was started.
All are written in the transaction that makes sure of the bridge, before any flow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dataplane.ovs.openflow import messages
from dataplane.ovs.ovsdb import BridgeState, OvsdbError
from dataplane.ovs.pipeline.layout import FORMER_MARKS, HARMLESS_VERSIONS, PIPELINE_VERSION, Feature, cookie_range

OWNER = "aca-owner"
AGENT = "aca-agent"
PIPELINE = "aca-pipeline"
FORMER = "aca-pipeline-former"
_UNMARKED = 1
"""The version that wrote none."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """Older versions of which flows may stand, and what the bridge's external_ids say from now on."""

    former: frozenset[int] = frozenset()

    @property
    def external_ids(self) -> tuple[tuple[str, str], ...]:
        ids = ((OWNER, "aca"), (PIPELINE, str(PIPELINE_VERSION)))
        return (*ids, (FORMER, ",".join(map(str, sorted(self.former))))) if self.former else ids

    @property
    def marks(self) -> tuple[int, ...]:
        """First bytes of the cookies of those versions."""
        return tuple(FORMER_MARKS[version] for version in sorted(self.former))

    @property
    def harmful_flows(self) -> list[bytes]:
        """Flow-mods that delete what must not stand beside our flows: what tables and registers mean has changed."""
        return [
            messages.flow_delete_by_cookie(*cookie_range(FORMER_MARKS[version], feature))
            for version in sorted(self.former - HARMLESS_VERSIONS)
            for feature in Feature
        ]


def take_over(bridge: BridgeState | None) -> Takeover:
    """Raises OvsdbError if an agent that knows more has been here: nothing must be touched then."""
    if bridge is None:
        return Takeover()
    ids = bridge.external_ids
    text = ids.get(PIPELINE, str(_UNMARKED) if OWNER in ids else "")
    try:
        versions = _versions([text, *ids.get(FORMER, "").split(",")])
        newest = max(versions, default=0)
    except ValueError:
        newest = 0
        versions = frozenset({0})
    if newest > PIPELINE_VERSION or not versions <= {*FORMER_MARKS, PIPELINE_VERSION}:
        raise OvsdbError(
            f"bridge {bridge.name} has pipeline version {text!r} (external_ids:{PIPELINE}), this agent understands "
            f"{PIPELINE_VERSION}: nothing is touched, traffic goes on as it is; run a newer agent, or delete the bridge"
        )
    return Takeover(versions - {PIPELINE_VERSION})


def other_agent(bridge: BridgeState | None, own: str) -> str:
    """The name of the agent that has the bridge now, if that is not `own`; else empty."""
    name = bridge.external_ids.get(AGENT, "") if bridge is not None else ""
    return name if name != own else ""


def _versions(texts: Iterable[str]) -> frozenset[int]:
    return frozenset(int(text) for text in texts if text)
