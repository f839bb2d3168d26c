from goalstate_proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SecurityGroupConfiguration(_message.Message):
    __slots__ = ("revision_number", "request_id", "id", "update_type", "vpc_id", "name", "security_group_rules")
    class Direction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        EGRESS: _ClassVar[SecurityGroupConfiguration.Direction]
        INGRESS: _ClassVar[SecurityGroupConfiguration.Direction]
    EGRESS: SecurityGroupConfiguration.Direction
    INGRESS: SecurityGroupConfiguration.Direction
    class SecurityGroupRule(_message.Message):
        __slots__ = ("operation_type", "security_group_id", "id", "direction", "ethertype", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix", "remote_group_id")
        OPERATION_TYPE_FIELD_NUMBER: _ClassVar[int]
        SECURITY_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
        ID_FIELD_NUMBER: _ClassVar[int]
        DIRECTION_FIELD_NUMBER: _ClassVar[int]
        ETHERTYPE_FIELD_NUMBER: _ClassVar[int]
        PROTOCOL_FIELD_NUMBER: _ClassVar[int]
        PORT_RANGE_MIN_FIELD_NUMBER: _ClassVar[int]
        PORT_RANGE_MAX_FIELD_NUMBER: _ClassVar[int]
        REMOTE_IP_PREFIX_FIELD_NUMBER: _ClassVar[int]
        REMOTE_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
        operation_type: _common_pb2.OperationType
        security_group_id: str
        id: str
        direction: SecurityGroupConfiguration.Direction
        ethertype: _common_pb2.EtherType
        protocol: _common_pb2.Protocol
        port_range_min: int
        port_range_max: int
        remote_ip_prefix: str
        remote_group_id: str
        def __init__(self, operation_type: _Optional[_Union[_common_pb2.OperationType, str]] = ..., security_group_id: _Optional[str] = ..., id: _Optional[str] = ..., direction: _Optional[_Union[SecurityGroupConfiguration.Direction, str]] = ..., ethertype: _Optional[_Union[_common_pb2.EtherType, str]] = ..., protocol: _Optional[_Union[_common_pb2.Protocol, str]] = ..., port_range_min: _Optional[int] = ..., port_range_max: _Optional[int] = ..., remote_ip_prefix: _Optional[str] = ..., remote_group_id: _Optional[str] = ...) -> None: ...
    REVISION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TYPE_FIELD_NUMBER: _ClassVar[int]
    VPC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SECURITY_GROUP_RULES_FIELD_NUMBER: _ClassVar[int]
    revision_number: int
    request_id: str
    id: str
    update_type: _common_pb2.UpdateType
    vpc_id: str
    name: str
    security_group_rules: _containers.RepeatedCompositeFieldContainer[SecurityGroupConfiguration.SecurityGroupRule]
    def __init__(self, revision_number: _Optional[int] = ..., request_id: _Optional[str] = ..., id: _Optional[str] = ..., update_type: _Optional[_Union[_common_pb2.UpdateType, str]] = ..., vpc_id: _Optional[str] = ..., name: _Optional[str] = ..., security_group_rules: _Optional[_Iterable[_Union[SecurityGroupConfiguration.SecurityGroupRule, _Mapping]]] = ...) -> None: ...

class SecurityGroupState(_message.Message):
    __slots__ = ("operation_type", "configuration")
    OPERATION_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    operation_type: _common_pb2.OperationType
    configuration: SecurityGroupConfiguration
    def __init__(self, operation_type: _Optional[_Union[_common_pb2.OperationType, str]] = ..., configuration: _Optional[_Union[SecurityGroupConfiguration, _Mapping]] = ...) -> None: ...
