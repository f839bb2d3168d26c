from goalstate_proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PortConfiguration(_message.Message):
    __slots__ = ("revision_number", "request_id", "id", "update_type", "vpc_id", "name", "device_id", "device_owner", "mac_address", "admin_state_up", "host_info", "fixed_ips", "allow_address_pairs", "security_group_ids")
    class HostInfo(_message.Message):
        __slots__ = ("ip_address", "mac_address")
        IP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
        MAC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
        ip_address: str
        mac_address: str
        def __init__(self, ip_address: _Optional[str] = ..., mac_address: _Optional[str] = ...) -> None: ...
    class FixedIp(_message.Message):
        __slots__ = ("subnet_id", "ip_address")
        SUBNET_ID_FIELD_NUMBER: _ClassVar[int]
        IP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
        subnet_id: str
        ip_address: str
        def __init__(self, subnet_id: _Optional[str] = ..., ip_address: _Optional[str] = ...) -> None: ...
    class AllowAddressPair(_message.Message):
        __slots__ = ("ip_address", "mac_address")
        IP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
        MAC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
        ip_address: str
        mac_address: str
        def __init__(self, ip_address: _Optional[str] = ..., mac_address: _Optional[str] = ...) -> None: ...
    class SecurityGroupId(_message.Message):
        __slots__ = ("id",)
        ID_FIELD_NUMBER: _ClassVar[int]
        id: str
        def __init__(self, id: _Optional[str] = ...) -> None: ...
    REVISION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TYPE_FIELD_NUMBER: _ClassVar[int]
    VPC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    DEVICE_OWNER_FIELD_NUMBER: _ClassVar[int]
    MAC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ADMIN_STATE_UP_FIELD_NUMBER: _ClassVar[int]
    HOST_INFO_FIELD_NUMBER: _ClassVar[int]
    FIXED_IPS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_ADDRESS_PAIRS_FIELD_NUMBER: _ClassVar[int]
    SECURITY_GROUP_IDS_FIELD_NUMBER: _ClassVar[int]
    revision_number: int
    request_id: str
    id: str
    update_type: _common_pb2.UpdateType
    vpc_id: str
    name: str
    device_id: str
    device_owner: str
    mac_address: str
    admin_state_up: bool
    host_info: PortConfiguration.HostInfo
    fixed_ips: _containers.RepeatedCompositeFieldContainer[PortConfiguration.FixedIp]
    allow_address_pairs: _containers.RepeatedCompositeFieldContainer[PortConfiguration.AllowAddressPair]
    security_group_ids: _containers.RepeatedCompositeFieldContainer[PortConfiguration.SecurityGroupId]
    def __init__(self, revision_number: _Optional[int] = ..., request_id: _Optional[str] = ..., id: _Optional[str] = ..., update_type: _Optional[_Union[_common_pb2.UpdateType, str]] = ..., vpc_id: _Optional[str] = ..., name: _Optional[str] = ..., device_id: _Optional[str] = ..., device_owner: _Optional[str] = ..., mac_address: _Optional[str] = ..., admin_state_up: _Optional[bool] = ..., host_info: _Optional[_Union[PortConfiguration.HostInfo, _Mapping]] = ..., fixed_ips: _Optional[_Iterable[_Union[PortConfiguration.FixedIp, _Mapping]]] = ..., allow_address_pairs: _Optional[_Iterable[_Union[PortConfiguration.AllowAddressPair, _Mapping]]] = ..., security_group_ids: _Optional[_Iterable[_Union[PortConfiguration.SecurityGroupId, _Mapping]]] = ...) -> None: ...

class PortState(_message.Message):
    __slots__ = ("operation_type", "configuration")
    OPERATION_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    operation_type: _common_pb2.OperationType
    configuration: PortConfiguration
    def __init__(self, operation_type: _Optional[_Union[_common_pb2.OperationType, str]] = ..., configuration: _Optional[_Union[PortConfiguration, _Mapping]] = ...) -> None: ...
