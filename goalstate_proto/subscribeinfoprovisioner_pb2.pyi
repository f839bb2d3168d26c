from goalstate_proto import common_pb2 as _common_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubscribeOperation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    Subscribe: _ClassVar[SubscribeOperation]
    Unsubscribe: _ClassVar[SubscribeOperation]
Subscribe: SubscribeOperation
Unsubscribe: SubscribeOperation

class NodeSubscribeInfo(_message.Message):
    __slots__ = ("subscribe_operation", "topic", "key")
    SUBSCRIBE_OPERATION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    subscribe_operation: SubscribeOperation
    topic: str
    key: str
    def __init__(self, subscribe_operation: _Optional[_Union[SubscribeOperation, str]] = ..., topic: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class SubscribeOperationReply(_message.Message):
    __slots__ = ("operationStatus",)
    OPERATIONSTATUS_FIELD_NUMBER: _ClassVar[int]
    operationStatus: _common_pb2.OperationStatus
    def __init__(self, operationStatus: _Optional[_Union[_common_pb2.OperationStatus, str]] = ...) -> None: ...
