from goalstate_proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubnetConfiguration(_message.Message):
    __slots__ = ("revision_number", "request_id", "id", "update_type", "network_type", "vpc_id", "name", "cidr", "tunnel_id", "gateway", "dhcp_enable", "extra_dhcp_options", "dns_entry_list", "availability_zone")
    class Gateway(_message.Message):
        __slots__ = ("ip_address", "mac_address")
        IP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
        MAC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
        ip_address: str
        mac_address: str
        def __init__(self, ip_address: _Optional[str] = ..., mac_address: _Optional[str] = ...) -> None: ...
    class ExtraDhcpOption(_message.Message):
        __slots__ = ("name", "value")
        NAME_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        name: str
        value: str
        def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class DnsEntry(_message.Message):
        __slots__ = ("entry",)
        ENTRY_FIELD_NUMBER: _ClassVar[int]
        entry: str
        def __init__(self, entry: _Optional[str] = ...) -> None: ...
    REVISION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TYPE_FIELD_NUMBER: _ClassVar[int]
    NETWORK_TYPE_FIELD_NUMBER: _ClassVar[int]
    VPC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CIDR_FIELD_NUMBER: _ClassVar[int]
    TUNNEL_ID_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_FIELD_NUMBER: _ClassVar[int]
    DHCP_ENABLE_FIELD_NUMBER: _ClassVar[int]
    EXTRA_DHCP_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    DNS_ENTRY_LIST_FIELD_NUMBER: _ClassVar[int]
    AVAILABILITY_ZONE_FIELD_NUMBER: _ClassVar[int]
    revision_number: int
    request_id: str
    id: str
    update_type: _common_pb2.UpdateType
    network_type: _common_pb2.NetworkType
    vpc_id: str
    name: str
    cidr: str
    tunnel_id: int
    gateway: SubnetConfiguration.Gateway
    dhcp_enable: bool
    extra_dhcp_options: _containers.RepeatedCompositeFieldContainer[SubnetConfiguration.ExtraDhcpOption]
    dns_entry_list: _containers.RepeatedCompositeFieldContainer[SubnetConfiguration.DnsEntry]
    availability_zone: str
    def __init__(self, revision_number: _Optional[int] = ..., request_id: _Optional[str] = ..., id: _Optional[str] = ..., update_type: _Optional[_Union[_common_pb2.UpdateType, str]] = ..., network_type: _Optional[_Union[_common_pb2.NetworkType, str]] = ..., vpc_id: _Optional[str] = ..., name: _Optional[str] = ..., cidr: _Optional[str] = ..., tunnel_id: _Optional[int] = ..., gateway: _Optional[_Union[SubnetConfiguration.Gateway, _Mapping]] = ..., dhcp_enable: _Optional[bool] = ..., extra_dhcp_options: _Optional[_Iterable[_Union[SubnetConfiguration.ExtraDhcpOption, _Mapping]]] = ..., dns_entry_list: _Optional[_Iterable[_Union[SubnetConfiguration.DnsEntry, _Mapping]]] = ..., availability_zone: _Optional[str] = ...) -> None: ...

class SubnetState(_message.Message):
    __slots__ = ("operation_type", "configuration")
    OPERATION_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    operation_type: _common_pb2.OperationType
    configuration: SubnetConfiguration
    def __init__(self, operation_type: _Optional[_Union[_common_pb2.OperationType, str]] = ..., configuration: _Optional[_Union[SubnetConfiguration, _Mapping]] = ...) -> None: ...
