"""The procedures of the transit daemon as methods, one call each, waiting for its answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from dataplane.mizar import procedures as p
from dataplane.mizar import values as v
from dataplane.mizar.errors import MizarError, ReplyError
from dataplane.mizar.procedures import Call

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one call.

    `value`: the code 0 of a change, or the structure of a GET. `error`: why there is none, else None. `sent`: how
    often the call went out, so that 0 means that the daemon never saw it."""

    call: Call
    value: object | None
    error: MizarError | None
    sent: int

    @property
    def done(self) -> bool:
        """Whether the daemon said that it did it. A delete that went out twice is done if nothing is there."""
        return self.error is None


class TypedCalls(ABC):
    """One method per procedure. Those that change something raise CodeError for any code but 0; all raise
    MizarError (see errors)."""

    @abstractmethod
    def run(self, calls: Sequence[Call]) -> list[Answer]:
        """The calls in this order on the wire; an answer for each, in this order."""

    def _change(self, call: Call) -> None:
        (answer,) = self.run((call,))
        if answer.error is not None:
            raise answer.error

    def _ask(self, call: Call, structure: type[S]) -> S:
        (answer,) = self.run((call,))
        if answer.error is not None:
            raise answer.error
        if not isinstance(answer.value, structure):
            raise ReplyError(call.procedure.name, "answered with another structure")
        return answer.value

    def update_vpc(self, argument: v.Vpc) -> None:
        self._change(p.UPDATE_VPC(argument))

    def update_net(self, argument: v.Network) -> None:
        self._change(p.UPDATE_NET(argument))

    def update_ep(self, argument: v.Endpoint) -> None:
        self._change(p.UPDATE_EP(argument))

    def update_port(self, argument: v.Port) -> None:
        self._change(p.UPDATE_PORT(argument))

    def update_agent_ep(self, argument: v.Endpoint) -> None:
        self._change(p.UPDATE_AGENT_EP(argument))

    def update_agent_md(self, argument: v.AgentMetadata) -> None:
        self._change(p.UPDATE_AGENT_MD(argument))

    def delete_vpc(self, argument: v.VpcKey) -> None:
        self._change(p.DELETE_VPC(argument))

    def delete_net(self, argument: v.NetworkKey) -> None:
        self._change(p.DELETE_NET(argument))

    def delete_ep(self, argument: v.EndpointKey) -> None:
        self._change(p.DELETE_EP(argument))

    def delete_agent_ep(self, argument: v.EndpointKey) -> None:
        self._change(p.DELETE_AGENT_EP(argument))

    def delete_agent_md(self, argument: v.Intf) -> None:
        self._change(p.DELETE_AGENT_MD(argument))

    def get_vpc(self, argument: v.VpcKey) -> v.Vpc:
        return self._ask(p.GET_VPC(argument), v.Vpc)

    def get_net(self, argument: v.NetworkKey) -> v.Network:
        return self._ask(p.GET_NET(argument), v.Network)

    def get_ep(self, argument: v.EndpointKey) -> v.Endpoint:
        return self._ask(p.GET_EP(argument), v.Endpoint)

    def get_agent_ep(self, argument: v.EndpointKey) -> v.Endpoint:
        return self._ask(p.GET_AGENT_EP(argument), v.Endpoint)

    def get_agent_md(self, argument: v.Intf) -> v.AgentMetadata:
        return self._ask(p.GET_AGENT_MD(argument), v.AgentMetadata)

    def load_transit_xdp(self, argument: v.XdpIntf) -> None:
        self._change(p.LOAD_TRANSIT_XDP(argument))

    def load_transit_agent_xdp(self, argument: v.XdpIntf) -> None:
        self._change(p.LOAD_TRANSIT_AGENT_XDP(argument))

    def unload_transit_xdp(self, argument: v.Intf) -> None:
        self._change(p.UNLOAD_TRANSIT_XDP(argument))

    def unload_transit_agent_xdp(self, argument: v.Intf) -> None:
        self._change(p.UNLOAD_TRANSIT_AGENT_XDP(argument))

    def load_transit_xdp_pipeline_stage(self, argument: v.EbpfProg) -> None:
        self._change(p.LOAD_TRANSIT_XDP_PIPELINE_STAGE(argument))

    def unload_transit_xdp_pipeline_stage(self, argument: v.EbpfProgStage) -> None:
        self._change(p.UNLOAD_TRANSIT_XDP_PIPELINE_STAGE(argument))

    def update_transit_network_policy(self, argument: v.VsipCidr) -> None:
        self._change(p.UPDATE_TRANSIT_NETWORK_POLICY(argument))

    def delete_transit_network_policy(self, argument: v.VsipCidrKey) -> None:
        self._change(p.DELETE_TRANSIT_NETWORK_POLICY(argument))

    def update_transit_network_policy_enforcement(self, argument: v.VsipEnforce) -> None:
        self._change(p.UPDATE_TRANSIT_NETWORK_POLICY_ENFORCEMENT(argument))

    def delete_transit_network_policy_enforcement(self, argument: v.VsipEnforce) -> None:
        self._change(p.DELETE_TRANSIT_NETWORK_POLICY_ENFORCEMENT(argument))

    def update_transit_network_policy_protocol_port(self, argument: v.VsipPpo) -> None:
        self._change(p.UPDATE_TRANSIT_NETWORK_POLICY_PROTOCOL_PORT(argument))

    def delete_transit_network_policy_protocol_port(self, argument: v.VsipPpoKey) -> None:
        self._change(p.DELETE_TRANSIT_NETWORK_POLICY_PROTOCOL_PORT(argument))

    def update_agent_network_policy(self, argument: v.VsipCidr) -> None:
        self._change(p.UPDATE_AGENT_NETWORK_POLICY(argument))

    def delete_agent_network_policy(self, argument: v.VsipCidrKey) -> None:
        self._change(p.DELETE_AGENT_NETWORK_POLICY(argument))

    def update_agent_network_policy_enforcement(self, argument: v.VsipEnforce) -> None:
        self._change(p.UPDATE_AGENT_NETWORK_POLICY_ENFORCEMENT(argument))

    def delete_agent_network_policy_enforcement(self, argument: v.VsipEnforce) -> None:
        self._change(p.DELETE_AGENT_NETWORK_POLICY_ENFORCEMENT(argument))

    def update_agent_network_policy_protocol_port(self, argument: v.VsipPpo) -> None:
        self._change(p.UPDATE_AGENT_NETWORK_POLICY_PROTOCOL_PORT(argument))

    def delete_agent_network_policy_protocol_port(self, argument: v.VsipPpoKey) -> None:
        self._change(p.DELETE_AGENT_NETWORK_POLICY_PROTOCOL_PORT(argument))

    def update_packet_metadata(self, argument: v.PacketMetadata) -> None:
        self._change(p.UPDATE_PACKET_METADATA(argument))

    def delete_packet_metadata(self, argument: v.PacketMetadataKey) -> None:
        self._change(p.DELETE_PACKET_METADATA(argument))

    def update_transit_pod_label_policy(self, argument: v.PodLabelPolicy) -> None:
        self._change(p.UPDATE_TRANSIT_POD_LABEL_POLICY(argument))

    def delete_transit_pod_label_policy(self, argument: v.PodLabelPolicyKey) -> None:
        self._change(p.DELETE_TRANSIT_POD_LABEL_POLICY(argument))

    def update_transit_namespace_label_policy(self, argument: v.NamespaceLabelPolicy) -> None:
        self._change(p.UPDATE_TRANSIT_NAMESPACE_LABEL_POLICY(argument))

    def delete_transit_namespace_label_policy(self, argument: v.NamespaceLabelPolicyKey) -> None:
        self._change(p.DELETE_TRANSIT_NAMESPACE_LABEL_POLICY(argument))

    def update_transit_pod_and_namespace_label_policy(self, argument: v.PodAndNamespaceLabelPolicy) -> None:
        self._change(p.UPDATE_TRANSIT_POD_AND_NAMESPACE_LABEL_POLICY(argument))

    def delete_transit_pod_and_namespace_label_policy(self, argument: v.PodAndNamespaceLabelPolicyKey) -> None:
        self._change(p.DELETE_TRANSIT_POD_AND_NAMESPACE_LABEL_POLICY(argument))

    def update_bw_qos_config(self, argument: v.BwQosConfig) -> None:
        self._change(p.UPDATE_BW_QOS_CONFIG(argument))

    def delete_bw_qos_config(self, argument: v.BwQosConfigKey) -> None:
        self._change(p.DELETE_BW_QOS_CONFIG(argument))

    def get_bw_qos_config(self, argument: v.BwQosConfigKey) -> v.BwQosConfig:
        return self._ask(p.GET_BW_QOS_CONFIG(argument), v.BwQosConfig)

    def update_tx_stats(self, argument: v.TxStats) -> None:
        self._change(p.UPDATE_TX_STATS(argument))

    def get_tx_stats(self, argument: v.TxStatsKey) -> v.TxStats:
        return self._ask(p.GET_TX_STATS(argument), v.TxStats)
