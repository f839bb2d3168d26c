from goalstate_proto import common_pb2 as _common_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DHCPConfiguration(_message.Message):
    __slots__ = ("revision_number", "request_id", "id", "update_type", "subnet_id", "mac_address", "ipv4_address", "ipv6_address", "port_host_name")
    REVISION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TYPE_FIELD_NUMBER: _ClassVar[int]
    SUBNET_ID_FIELD_NUMBER: _ClassVar[int]
    MAC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    IPV4_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    IPV6_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORT_HOST_NAME_FIELD_NUMBER: _ClassVar[int]
    revision_number: int
    request_id: str
    id: str
    update_type: _common_pb2.UpdateType
    subnet_id: str
    mac_address: str
    ipv4_address: str
    ipv6_address: str
    port_host_name: str
    def __init__(self, revision_number: _Optional[int] = ..., request_id: _Optional[str] = ..., id: _Optional[str] = ..., update_type: _Optional[_Union[_common_pb2.UpdateType, str]] = ..., subnet_id: _Optional[str] = ..., mac_address: _Optional[str] = ..., ipv4_address: _Optional[str] = ..., ipv6_address: _Optional[str] = ..., port_host_name: _Optional[str] = ...) -> None: ...

class DHCPState(_message.Message):
    __slots__ = ("operation_type", "configuration")
    OPERATION_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    operation_type: _common_pb2.OperationType
    configuration: DHCPConfiguration
    def __init__(self, operation_type: _Optional[_Union[_common_pb2.OperationType, str]] = ..., configuration: _Optional[_Union[DHCPConfiguration, _Mapping]] = ...) -> None: ...
