from goalstate_proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NeighborType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    L2: _ClassVar[NeighborType]
    L3: _ClassVar[NeighborType]
L2: NeighborType
L3: NeighborType

class NeighborConfiguration(_message.Message):
    __slots__ = ("revision_number", "request_id", "id", "update_type", "vpc_id", "name", "mac_address", "host_mac_address", "host_ip_address", "fixed_ips", "allow_address_pairs")
    class FixedIp(_message.Message):
        __slots__ = ("neighbor_type", "subnet_id", "ip_address", "arion_group", "tunnel_id")
        NEIGHBOR_TYPE_FIELD_NUMBER: _ClassVar[int]
        SUBNET_ID_FIELD_NUMBER: _ClassVar[int]
        IP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
        ARION_GROUP_FIELD_NUMBER: _ClassVar[int]
        TUNNEL_ID_FIELD_NUMBER: _ClassVar[int]
        neighbor_type: NeighborType
        subnet_id: str
        ip_address: str
        arion_group: str
        tunnel_id: int
        def __init__(self, neighbor_type: _Optional[_Union[NeighborType, str]] = ..., subnet_id: _Optional[str] = ..., ip_address: _Optional[str] = ..., arion_group: _Optional[str] = ..., tunnel_id: _Optional[int] = ...) -> None: ...
    class AllowAddressPair(_message.Message):
        __slots__ = ("ip_address", "mac_address")
        IP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
        MAC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
        ip_address: str
        mac_address: str
        def __init__(self, ip_address: _Optional[str] = ..., mac_address: _Optional[str] = ...) -> None: ...
    REVISION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TYPE_FIELD_NUMBER: _ClassVar[int]
    VPC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MAC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HOST_MAC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HOST_IP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FIXED_IPS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_ADDRESS_PAIRS_FIELD_NUMBER: _ClassVar[int]
    revision_number: int
    request_id: str
    id: str
    update_type: _common_pb2.UpdateType
    vpc_id: str
    name: str
    mac_address: str
    host_mac_address: str
    host_ip_address: str
    fixed_ips: _containers.RepeatedCompositeFieldContainer[NeighborConfiguration.FixedIp]
    allow_address_pairs: _containers.RepeatedCompositeFieldContainer[NeighborConfiguration.AllowAddressPair]
    def __init__(self, revision_number: _Optional[int] = ..., request_id: _Optional[str] = ..., id: _Optional[str] = ..., update_type: _Optional[_Union[_common_pb2.UpdateType, str]] = ..., vpc_id: _Optional[str] = ..., name: _Optional[str] = ..., mac_address: _Optional[str] = ..., host_mac_address: _Optional[str] = ..., host_ip_address: _Optional[str] = ..., fixed_ips: _Optional[_Iterable[_Union[NeighborConfiguration.FixedIp, _Mapping]]] = ..., allow_address_pairs: _Optional[_Iterable[_Union[NeighborConfiguration.AllowAddressPair, _Mapping]]] = ...) -> None: ...

class NeighborState(_message.Message):
    __slots__ = ("operation_type", "configuration")
    OPERATION_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    operation_type: _common_pb2.OperationType
    configuration: NeighborConfiguration
    def __init__(self, operation_type: _Optional[_Union[_common_pb2.OperationType, str]] = ..., configuration: _Optional[_Union[NeighborConfiguration, _Mapping]] = ...) -> None: ...
