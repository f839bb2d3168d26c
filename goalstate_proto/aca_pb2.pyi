from goalstate_proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReconcileMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOOK: _ClassVar[ReconcileMode]
    REPAIR: _ClassVar[ReconcileMode]
    FORCE: _ClassVar[ReconcileMode]
LOOK: ReconcileMode
REPAIR: ReconcileMode
FORCE: ReconcileMode

class Problem(_message.Message):
    __slots__ = ("resource_type", "resource_id", "status", "reason")
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    resource_type: _common_pb2.ResourceType
    resource_id: str
    status: _common_pb2.OperationStatus
    reason: str
    def __init__(self, resource_type: _Optional[_Union[_common_pb2.ResourceType, str]] = ..., resource_id: _Optional[str] = ..., status: _Optional[_Union[_common_pb2.OperationStatus, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class ReplyExtension(_message.Message):
    __slots__ = ("problems",)
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    problems: _containers.RepeatedCompositeFieldContainer[Problem]
    def __init__(self, problems: _Optional[_Iterable[_Union[Problem, _Mapping]]] = ...) -> None: ...

class GoalStateExtension(_message.Message):
    __slots__ = ("replay_end",)
    REPLAY_END_FIELD_NUMBER: _ClassVar[int]
    replay_end: str
    def __init__(self, replay_end: _Optional[str] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

class ReconcileRequest(_message.Message):
    __slots__ = ("mode",)
    MODE_FIELD_NUMBER: _ClassVar[int]
    mode: ReconcileMode
    def __init__(self, mode: _Optional[_Union[ReconcileMode, str]] = ...) -> None: ...

class ReconcileReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...
