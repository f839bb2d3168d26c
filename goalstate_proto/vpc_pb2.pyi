from goalstate_proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VpcConfiguration(_message.Message):
    __slots__ = ("revision_number", "request_id", "id", "update_type", "project_id", "name", "cidr", "tunnel_id", "gateway_ids")
    REVISION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROJECT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CIDR_FIELD_NUMBER: _ClassVar[int]
    TUNNEL_ID_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_IDS_FIELD_NUMBER: _ClassVar[int]
    revision_number: int
    request_id: str
    id: str
    update_type: _common_pb2.UpdateType
    project_id: str
    name: str
    cidr: str
    tunnel_id: int
    gateway_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, revision_number: _Optional[int] = ..., request_id: _Optional[str] = ..., id: _Optional[str] = ..., update_type: _Optional[_Union[_common_pb2.UpdateType, str]] = ..., project_id: _Optional[str] = ..., name: _Optional[str] = ..., cidr: _Optional[str] = ..., tunnel_id: _Optional[int] = ..., gateway_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class VpcState(_message.Message):
    __slots__ = ("operation_type", "configuration")
    OPERATION_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    operation_type: _common_pb2.OperationType
    configuration: VpcConfiguration
    def __init__(self, operation_type: _Optional[_Union[_common_pb2.OperationType, str]] = ..., configuration: _Optional[_Union[VpcConfiguration, _Mapping]] = ...) -> None: ...
