"""The procedures of the transit daemon's RPC program: number, argument, result, and what sending one twice does.

UDP has no memory of what was answered, so that a call whose answer was lost can only be repeated where that does no
harm: most are upserts; a delete or an unload answers a second time that nothing is there; a load of what is loaded
does nothing. A hosted endpoint takes another interface slot each time, and a pipeline stage may be put in twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

from dataplane.mizar import values as v

PROGRAM: Final = 0x20009051
VERSION: Final = 1
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Procedure(Generic[A]):
    """`result`: the structure answered, or None for a code. `missing`: the codes by which a delete says that nothing
    was there, which is as good as done if it was sent twice."""

    number: int
    name: str
    argument: type[A]
    result: type[object] | None = None
    missing: frozenset[int] = frozenset()
    repeatable: bool = True

    def __call__(self, argument: A) -> Call:
        """The call with this argument, to be run in a batch."""
        return Call(self, argument)


class Call(NamedTuple):
    """One call to make."""

    procedure: Procedure[Any]
    argument: object

    @property
    def repeatable(self) -> bool:
        """Whether the daemon ends up the same if it gets the call twice."""
        if isinstance(self.argument, v.Endpoint) and self.procedure.number == UPDATE_EP.number:
            return not self.argument.hosted_interface
        return self.procedure.repeatable

    def __str__(self) -> str:
        return f"{self.procedure.name} {self.argument}"


def _gone(*codes: int) -> frozenset[int]:
    return frozenset(codes)


_ONCE = False
UPDATE_VPC: Final = Procedure(1, "UPDATE_VPC", v.Vpc)
UPDATE_NET: Final = Procedure(2, "UPDATE_NET", v.Network)
UPDATE_EP: Final = Procedure(3, "UPDATE_EP", v.Endpoint)
UPDATE_PORT: Final = Procedure(4, "UPDATE_PORT", v.Port)
UPDATE_AGENT_EP: Final = Procedure(5, "UPDATE_AGENT_EP", v.Endpoint)
UPDATE_AGENT_MD: Final = Procedure(6, "UPDATE_AGENT_MD", v.AgentMetadata)
DELETE_VPC: Final = Procedure(7, "DELETE_VPC", v.VpcKey, missing=_gone(3))
DELETE_NET: Final = Procedure(8, "DELETE_NET", v.NetworkKey, missing=_gone(2))
DELETE_EP: Final = Procedure(9, "DELETE_EP", v.EndpointKey, missing=_gone(2))
DELETE_AGENT_EP: Final = Procedure(10, "DELETE_AGENT_EP", v.EndpointKey, missing=_gone(2))
DELETE_AGENT_MD: Final = Procedure(11, "DELETE_AGENT_MD", v.Intf)
GET_VPC: Final = Procedure(12, "GET_VPC", v.VpcKey, v.Vpc)
GET_NET: Final = Procedure(13, "GET_NET", v.NetworkKey, v.Network)
GET_EP: Final = Procedure(14, "GET_EP", v.EndpointKey, v.Endpoint)
GET_AGENT_EP: Final = Procedure(15, "GET_AGENT_EP", v.EndpointKey, v.Endpoint)
GET_AGENT_MD: Final = Procedure(16, "GET_AGENT_MD", v.Intf, v.AgentMetadata)
LOAD_TRANSIT_XDP: Final = Procedure(17, "LOAD_TRANSIT_XDP", v.XdpIntf)
LOAD_TRANSIT_AGENT_XDP: Final = Procedure(18, "LOAD_TRANSIT_AGENT_XDP", v.XdpIntf)
UNLOAD_TRANSIT_XDP: Final = Procedure(19, "UNLOAD_TRANSIT_XDP", v.Intf, missing=_gone(2))
UNLOAD_TRANSIT_AGENT_XDP: Final = Procedure(20, "UNLOAD_TRANSIT_AGENT_XDP", v.Intf, missing=_gone(2))
LOAD_TRANSIT_XDP_PIPELINE_STAGE: Final = Procedure(21, "LOAD_TRANSIT_XDP_PIPELINE_STAGE", v.EbpfProg, repeatable=_ONCE)
UNLOAD_TRANSIT_XDP_PIPELINE_STAGE: Final = Procedure(22, "UNLOAD_TRANSIT_XDP_PIPELINE_STAGE", v.EbpfProgStage)
UPDATE_TRANSIT_NETWORK_POLICY: Final = Procedure(23, "UPDATE_TRANSIT_NETWORK_POLICY", v.VsipCidr)
DELETE_TRANSIT_NETWORK_POLICY: Final = Procedure(24, "DELETE_TRANSIT_NETWORK_POLICY", v.VsipCidrKey, missing=_gone(3))
UPDATE_TRANSIT_NETWORK_POLICY_ENFORCEMENT: Final = Procedure(
    25, "UPDATE_TRANSIT_NETWORK_POLICY_ENFORCEMENT", v.VsipEnforce
)
DELETE_TRANSIT_NETWORK_POLICY_ENFORCEMENT: Final = Procedure(
    26, "DELETE_TRANSIT_NETWORK_POLICY_ENFORCEMENT", v.VsipEnforce, missing=_gone(3)
)
UPDATE_TRANSIT_NETWORK_POLICY_PROTOCOL_PORT: Final = Procedure(
    27, "UPDATE_TRANSIT_NETWORK_POLICY_PROTOCOL_PORT", v.VsipPpo
)
DELETE_TRANSIT_NETWORK_POLICY_PROTOCOL_PORT: Final = Procedure(
    28, "DELETE_TRANSIT_NETWORK_POLICY_PROTOCOL_PORT", v.VsipPpoKey, missing=_gone(3)
)
UPDATE_AGENT_NETWORK_POLICY: Final = Procedure(29, "UPDATE_AGENT_NETWORK_POLICY", v.VsipCidr)
DELETE_AGENT_NETWORK_POLICY: Final = Procedure(30, "DELETE_AGENT_NETWORK_POLICY", v.VsipCidrKey, missing=_gone(3))
UPDATE_AGENT_NETWORK_POLICY_ENFORCEMENT: Final = Procedure(31, "UPDATE_AGENT_NETWORK_POLICY_ENFORCEMENT", v.VsipEnforce)
DELETE_AGENT_NETWORK_POLICY_ENFORCEMENT: Final = Procedure(
    32, "DELETE_AGENT_NETWORK_POLICY_ENFORCEMENT", v.VsipEnforce, missing=_gone(3)
)
UPDATE_AGENT_NETWORK_POLICY_PROTOCOL_PORT: Final = Procedure(33, "UPDATE_AGENT_NETWORK_POLICY_PROTOCOL_PORT", v.VsipPpo)
DELETE_AGENT_NETWORK_POLICY_PROTOCOL_PORT: Final = Procedure(
    34, "DELETE_AGENT_NETWORK_POLICY_PROTOCOL_PORT", v.VsipPpoKey, missing=_gone(3)
)
UPDATE_PACKET_METADATA: Final = Procedure(35, "UPDATE_PACKET_METADATA", v.PacketMetadata)
DELETE_PACKET_METADATA: Final = Procedure(36, "DELETE_PACKET_METADATA", v.PacketMetadataKey, missing=_gone(2, 3))
UPDATE_TRANSIT_POD_LABEL_POLICY: Final = Procedure(37, "UPDATE_TRANSIT_POD_LABEL_POLICY", v.PodLabelPolicy)
DELETE_TRANSIT_POD_LABEL_POLICY: Final = Procedure(
    38, "DELETE_TRANSIT_POD_LABEL_POLICY", v.PodLabelPolicyKey, missing=_gone(3)
)
UPDATE_TRANSIT_NAMESPACE_LABEL_POLICY: Final = Procedure(
    39, "UPDATE_TRANSIT_NAMESPACE_LABEL_POLICY", v.NamespaceLabelPolicy
)
DELETE_TRANSIT_NAMESPACE_LABEL_POLICY: Final = Procedure(
    40, "DELETE_TRANSIT_NAMESPACE_LABEL_POLICY", v.NamespaceLabelPolicyKey, missing=_gone(3)
)
UPDATE_TRANSIT_POD_AND_NAMESPACE_LABEL_POLICY: Final = Procedure(
    41, "UPDATE_TRANSIT_POD_AND_NAMESPACE_LABEL_POLICY", v.PodAndNamespaceLabelPolicy
)
DELETE_TRANSIT_POD_AND_NAMESPACE_LABEL_POLICY: Final = Procedure(
    42, "DELETE_TRANSIT_POD_AND_NAMESPACE_LABEL_POLICY", v.PodAndNamespaceLabelPolicyKey, missing=_gone(3)
)
UPDATE_BW_QOS_CONFIG: Final = Procedure(43, "UPDATE_BW_QOS_CONFIG", v.BwQosConfig)
DELETE_BW_QOS_CONFIG: Final = Procedure(44, "DELETE_BW_QOS_CONFIG", v.BwQosConfigKey, missing=_gone(2, 3))
GET_BW_QOS_CONFIG: Final = Procedure(45, "GET_BW_QOS_CONFIG", v.BwQosConfigKey, v.BwQosConfig)
UPDATE_TX_STATS: Final = Procedure(46, "UPDATE_TX_STATS", v.TxStats)
GET_TX_STATS: Final = Procedure(47, "GET_TX_STATS", v.TxStatsKey, v.TxStats)

PROCEDURES: Final[dict[int, Procedure[Any]]] = {
    value.number: value for value in list(globals().values()) if isinstance(value, Procedure)
}
"""All 47 by number."""
