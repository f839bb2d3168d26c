from goalstate_proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DestinationType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INTERNET: _ClassVar[DestinationType]
    VPC_GW: _ClassVar[DestinationType]
INTERNET: DestinationType
VPC_GW: DestinationType

class RouterConfiguration(_message.Message):
    __slots__ = ("revision_number", "request_id", "id", "update_type", "host_dvr_mac_address", "subnet_routing_tables")
    class RoutingRuleExtraInfo(_message.Message):
        __slots__ = ("destination_type", "next_hop_mac")
        DESTINATION_TYPE_FIELD_NUMBER: _ClassVar[int]
        NEXT_HOP_MAC_FIELD_NUMBER: _ClassVar[int]
        destination_type: DestinationType
        next_hop_mac: str
        def __init__(self, destination_type: _Optional[_Union[DestinationType, str]] = ..., next_hop_mac: _Optional[str] = ...) -> None: ...
    class RoutingRule(_message.Message):
        __slots__ = ("operation_type", "id", "name", "destination", "next_hop_ip", "priority", "routing_rule_extra_info")
        OPERATION_TYPE_FIELD_NUMBER: _ClassVar[int]
        ID_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        DESTINATION_FIELD_NUMBER: _ClassVar[int]
        NEXT_HOP_IP_FIELD_NUMBER: _ClassVar[int]
        PRIORITY_FIELD_NUMBER: _ClassVar[int]
        ROUTING_RULE_EXTRA_INFO_FIELD_NUMBER: _ClassVar[int]
        operation_type: _common_pb2.OperationType
        id: str
        name: str
        destination: str
        next_hop_ip: str
        priority: int
        routing_rule_extra_info: RouterConfiguration.RoutingRuleExtraInfo
        def __init__(self, operation_type: _Optional[_Union[_common_pb2.OperationType, str]] = ..., id: _Optional[str] = ..., name: _Optional[str] = ..., destination: _Optional[str] = ..., next_hop_ip: _Optional[str] = ..., priority: _Optional[int] = ..., routing_rule_extra_info: _Optional[_Union[RouterConfiguration.RoutingRuleExtraInfo, _Mapping]] = ...) -> None: ...
    class SubnetRoutingTable(_message.Message):
        __slots__ = ("subnet_id", "routing_rules")
        SUBNET_ID_FIELD_NUMBER: _ClassVar[int]
        ROUTING_RULES_FIELD_NUMBER: _ClassVar[int]
        subnet_id: str
        routing_rules: _containers.RepeatedCompositeFieldContainer[RouterConfiguration.RoutingRule]
        def __init__(self, subnet_id: _Optional[str] = ..., routing_rules: _Optional[_Iterable[_Union[RouterConfiguration.RoutingRule, _Mapping]]] = ...) -> None: ...
    REVISION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TYPE_FIELD_NUMBER: _ClassVar[int]
    HOST_DVR_MAC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SUBNET_ROUTING_TABLES_FIELD_NUMBER: _ClassVar[int]
    revision_number: int
    request_id: str
    id: str
    update_type: _common_pb2.UpdateType
    host_dvr_mac_address: str
    subnet_routing_tables: _containers.RepeatedCompositeFieldContainer[RouterConfiguration.SubnetRoutingTable]
    def __init__(self, revision_number: _Optional[int] = ..., request_id: _Optional[str] = ..., id: _Optional[str] = ..., update_type: _Optional[_Union[_common_pb2.UpdateType, str]] = ..., host_dvr_mac_address: _Optional[str] = ..., subnet_routing_tables: _Optional[_Iterable[_Union[RouterConfiguration.SubnetRoutingTable, _Mapping]]] = ...) -> None: ...

class RouterState(_message.Message):
    __slots__ = ("operation_type", "configuration")
    OPERATION_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    operation_type: _common_pb2.OperationType
    configuration: RouterConfiguration
    def __init__(self, operation_type: _Optional[_Union[_common_pb2.OperationType, str]] = ..., configuration: _Optional[_Union[RouterConfiguration, _Mapping]] = ...) -> None: ...
