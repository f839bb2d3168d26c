from goalstate_proto import common_pb2 as _common_pb2
from goalstate_proto import dhcp_pb2 as _dhcp_pb2
from goalstate_proto import gateway_pb2 as _gateway_pb2
from goalstate_proto import neighbor_pb2 as _neighbor_pb2
from goalstate_proto import port_pb2 as _port_pb2
from goalstate_proto import router_pb2 as _router_pb2
from goalstate_proto import securitygroup_pb2 as _securitygroup_pb2
from goalstate_proto import subnet_pb2 as _subnet_pb2
from goalstate_proto import vpc_pb2 as _vpc_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GoalState(_message.Message):
    __slots__ = ("format_version", "vpc_states", "subnet_states", "port_states", "neighbor_states", "security_group_states", "dhcp_states", "router_states", "gateway_states")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    VPC_STATES_FIELD_NUMBER: _ClassVar[int]
    SUBNET_STATES_FIELD_NUMBER: _ClassVar[int]
    PORT_STATES_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOR_STATES_FIELD_NUMBER: _ClassVar[int]
    SECURITY_GROUP_STATES_FIELD_NUMBER: _ClassVar[int]
    DHCP_STATES_FIELD_NUMBER: _ClassVar[int]
    ROUTER_STATES_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_STATES_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    vpc_states: _containers.RepeatedCompositeFieldContainer[_vpc_pb2.VpcState]
    subnet_states: _containers.RepeatedCompositeFieldContainer[_subnet_pb2.SubnetState]
    port_states: _containers.RepeatedCompositeFieldContainer[_port_pb2.PortState]
    neighbor_states: _containers.RepeatedCompositeFieldContainer[_neighbor_pb2.NeighborState]
    security_group_states: _containers.RepeatedCompositeFieldContainer[_securitygroup_pb2.SecurityGroupState]
    dhcp_states: _containers.RepeatedCompositeFieldContainer[_dhcp_pb2.DHCPState]
    router_states: _containers.RepeatedCompositeFieldContainer[_router_pb2.RouterState]
    gateway_states: _containers.RepeatedCompositeFieldContainer[_gateway_pb2.GatewayState]
    def __init__(self, format_version: _Optional[int] = ..., vpc_states: _Optional[_Iterable[_Union[_vpc_pb2.VpcState, _Mapping]]] = ..., subnet_states: _Optional[_Iterable[_Union[_subnet_pb2.SubnetState, _Mapping]]] = ..., port_states: _Optional[_Iterable[_Union[_port_pb2.PortState, _Mapping]]] = ..., neighbor_states: _Optional[_Iterable[_Union[_neighbor_pb2.NeighborState, _Mapping]]] = ..., security_group_states: _Optional[_Iterable[_Union[_securitygroup_pb2.SecurityGroupState, _Mapping]]] = ..., dhcp_states: _Optional[_Iterable[_Union[_dhcp_pb2.DHCPState, _Mapping]]] = ..., router_states: _Optional[_Iterable[_Union[_router_pb2.RouterState, _Mapping]]] = ..., gateway_states: _Optional[_Iterable[_Union[_gateway_pb2.GatewayState, _Mapping]]] = ...) -> None: ...

class GoalStateV2(_message.Message):
    __slots__ = ("format_version", "host_resources", "vpc_states", "subnet_states", "port_states", "dhcp_states", "neighbor_states", "security_group_states", "router_states", "gateway_states")
    class HostResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: HostResources
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[HostResources, _Mapping]] = ...) -> None: ...
    class VpcStatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _vpc_pb2.VpcState
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_vpc_pb2.VpcState, _Mapping]] = ...) -> None: ...
    class SubnetStatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _subnet_pb2.SubnetState
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_subnet_pb2.SubnetState, _Mapping]] = ...) -> None: ...
    class PortStatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _port_pb2.PortState
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_port_pb2.PortState, _Mapping]] = ...) -> None: ...
    class DhcpStatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _dhcp_pb2.DHCPState
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_dhcp_pb2.DHCPState, _Mapping]] = ...) -> None: ...
    class NeighborStatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _neighbor_pb2.NeighborState
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_neighbor_pb2.NeighborState, _Mapping]] = ...) -> None: ...
    class SecurityGroupStatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _securitygroup_pb2.SecurityGroupState
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_securitygroup_pb2.SecurityGroupState, _Mapping]] = ...) -> None: ...
    class RouterStatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _router_pb2.RouterState
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_router_pb2.RouterState, _Mapping]] = ...) -> None: ...
    class GatewayStatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _gateway_pb2.GatewayState
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_gateway_pb2.GatewayState, _Mapping]] = ...) -> None: ...
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    HOST_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    VPC_STATES_FIELD_NUMBER: _ClassVar[int]
    SUBNET_STATES_FIELD_NUMBER: _ClassVar[int]
    PORT_STATES_FIELD_NUMBER: _ClassVar[int]
    DHCP_STATES_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOR_STATES_FIELD_NUMBER: _ClassVar[int]
    SECURITY_GROUP_STATES_FIELD_NUMBER: _ClassVar[int]
    ROUTER_STATES_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_STATES_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    host_resources: _containers.MessageMap[str, HostResources]
    vpc_states: _containers.MessageMap[str, _vpc_pb2.VpcState]
    subnet_states: _containers.MessageMap[str, _subnet_pb2.SubnetState]
    port_states: _containers.MessageMap[str, _port_pb2.PortState]
    dhcp_states: _containers.MessageMap[str, _dhcp_pb2.DHCPState]
    neighbor_states: _containers.MessageMap[str, _neighbor_pb2.NeighborState]
    security_group_states: _containers.MessageMap[str, _securitygroup_pb2.SecurityGroupState]
    router_states: _containers.MessageMap[str, _router_pb2.RouterState]
    gateway_states: _containers.MessageMap[str, _gateway_pb2.GatewayState]
    def __init__(self, format_version: _Optional[int] = ..., host_resources: _Optional[_Mapping[str, HostResources]] = ..., vpc_states: _Optional[_Mapping[str, _vpc_pb2.VpcState]] = ..., subnet_states: _Optional[_Mapping[str, _subnet_pb2.SubnetState]] = ..., port_states: _Optional[_Mapping[str, _port_pb2.PortState]] = ..., dhcp_states: _Optional[_Mapping[str, _dhcp_pb2.DHCPState]] = ..., neighbor_states: _Optional[_Mapping[str, _neighbor_pb2.NeighborState]] = ..., security_group_states: _Optional[_Mapping[str, _securitygroup_pb2.SecurityGroupState]] = ..., router_states: _Optional[_Mapping[str, _router_pb2.RouterState]] = ..., gateway_states: _Optional[_Mapping[str, _gateway_pb2.GatewayState]] = ...) -> None: ...

class HostResources(_message.Message):
    __slots__ = ("resources",)
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[_common_pb2.ResourceIdType]
    def __init__(self, resources: _Optional[_Iterable[_Union[_common_pb2.ResourceIdType, _Mapping]]] = ...) -> None: ...
