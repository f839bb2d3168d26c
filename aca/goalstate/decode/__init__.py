"""Protobuf goal states to validated values of `dataplane.model`: nothing past this package sees protobuf.

Decoding never raises for what a message holds: a resource with a bad field becomes a `Change` with an `error` that
names the resource, the field and the value, and the rest of the message proceeds.
"""

from aca.goalstate.decode.hosts import concerns
from aca.goalstate.decode.messages import decode_neighbor_rules, decode_v1, decode_v2
from aca.goalstate.decode.replay import ends_replay
from aca.goalstate.decode.together import decode_together, removals

__all__ = [
    "concerns",
    "decode_neighbor_rules",
    "decode_together",
    "decode_v1",
    "decode_v2",
    "ends_replay",
    "removals",
]
