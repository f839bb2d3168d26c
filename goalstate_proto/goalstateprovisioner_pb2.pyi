from goalstate_proto import common_pb2 as _common_pb2
from goalstate_proto import goalstate_pb2 as _goalstate_pb2
from goalstate_proto import neighbor_pb2 as _neighbor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GoalStateOperationReply(_message.Message):
    __slots__ = ("format_version", "operation_statuses", "message_total_operation_time")
    class GoalStateOperationStatus(_message.Message):
        __slots__ = ("resource_id", "resource_type", "operation_type", "operation_status", "dataplane_programming_time", "network_configuration_time", "state_elapse_time")
        RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
        RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
        OPERATION_TYPE_FIELD_NUMBER: _ClassVar[int]
        OPERATION_STATUS_FIELD_NUMBER: _ClassVar[int]
        DATAPLANE_PROGRAMMING_TIME_FIELD_NUMBER: _ClassVar[int]
        NETWORK_CONFIGURATION_TIME_FIELD_NUMBER: _ClassVar[int]
        STATE_ELAPSE_TIME_FIELD_NUMBER: _ClassVar[int]
        resource_id: str
        resource_type: _common_pb2.ResourceType
        operation_type: _common_pb2.OperationType
        operation_status: _common_pb2.OperationStatus
        dataplane_programming_time: int
        network_configuration_time: int
        state_elapse_time: int
        def __init__(self, resource_id: _Optional[str] = ..., resource_type: _Optional[_Union[_common_pb2.ResourceType, str]] = ..., operation_type: _Optional[_Union[_common_pb2.OperationType, str]] = ..., operation_status: _Optional[_Union[_common_pb2.OperationStatus, str]] = ..., dataplane_programming_time: _Optional[int] = ..., network_configuration_time: _Optional[int] = ..., state_elapse_time: _Optional[int] = ...) -> None: ...
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    OPERATION_STATUSES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_TOTAL_OPERATION_TIME_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    operation_statuses: _containers.RepeatedCompositeFieldContainer[GoalStateOperationReply.GoalStateOperationStatus]
    message_total_operation_time: int
    def __init__(self, format_version: _Optional[int] = ..., operation_statuses: _Optional[_Iterable[_Union[GoalStateOperationReply.GoalStateOperationStatus, _Mapping]]] = ..., message_total_operation_time: _Optional[int] = ...) -> None: ...

class HostRequest(_message.Message):
    __slots__ = ("format_version", "state_requests")
    class ResourceStateRequest(_message.Message):
        __slots__ = ("request_type", "request_id", "tunnel_id", "source_ip", "source_port", "destination_ip", "destination_port", "ethertype", "protocol")
        REQUEST_TYPE_FIELD_NUMBER: _ClassVar[int]
        REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
        TUNNEL_ID_FIELD_NUMBER: _ClassVar[int]
        SOURCE_IP_FIELD_NUMBER: _ClassVar[int]
        SOURCE_PORT_FIELD_NUMBER: _ClassVar[int]
        DESTINATION_IP_FIELD_NUMBER: _ClassVar[int]
        DESTINATION_PORT_FIELD_NUMBER: _ClassVar[int]
        ETHERTYPE_FIELD_NUMBER: _ClassVar[int]
        PROTOCOL_FIELD_NUMBER: _ClassVar[int]
        request_type: _common_pb2.RequestType
        request_id: str
        tunnel_id: int
        source_ip: str
        source_port: int
        destination_ip: str
        destination_port: int
        ethertype: _common_pb2.EtherType
        protocol: _common_pb2.Protocol
        def __init__(self, request_type: _Optional[_Union[_common_pb2.RequestType, str]] = ..., request_id: _Optional[str] = ..., tunnel_id: _Optional[int] = ..., source_ip: _Optional[str] = ..., source_port: _Optional[int] = ..., destination_ip: _Optional[str] = ..., destination_port: _Optional[int] = ..., ethertype: _Optional[_Union[_common_pb2.EtherType, str]] = ..., protocol: _Optional[_Union[_common_pb2.Protocol, str]] = ...) -> None: ...
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    state_requests: _containers.RepeatedCompositeFieldContainer[HostRequest.ResourceStateRequest]
    def __init__(self, format_version: _Optional[int] = ..., state_requests: _Optional[_Iterable[_Union[HostRequest.ResourceStateRequest, _Mapping]]] = ...) -> None: ...

class HostRequestReply(_message.Message):
    __slots__ = ("format_version", "operation_statuses", "total_operation_time")
    class HostRequestOperationStatus(_message.Message):
        __slots__ = ("request_id", "operation_status")
        REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
        OPERATION_STATUS_FIELD_NUMBER: _ClassVar[int]
        request_id: str
        operation_status: _common_pb2.OperationStatus
        def __init__(self, request_id: _Optional[str] = ..., operation_status: _Optional[_Union[_common_pb2.OperationStatus, str]] = ...) -> None: ...
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    OPERATION_STATUSES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_OPERATION_TIME_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    operation_statuses: _containers.RepeatedCompositeFieldContainer[HostRequestReply.HostRequestOperationStatus]
    total_operation_time: int
    def __init__(self, format_version: _Optional[int] = ..., operation_statuses: _Optional[_Iterable[_Union[HostRequestReply.HostRequestOperationStatus, _Mapping]]] = ..., total_operation_time: _Optional[int] = ...) -> None: ...

class NeighborRulesRequest(_message.Message):
    __slots__ = ("format_version", "request_id", "neigborstates")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NEIGBORSTATES_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    request_id: str
    neigborstates: _containers.RepeatedCompositeFieldContainer[_neighbor_pb2.NeighborState]
    def __init__(self, format_version: _Optional[int] = ..., request_id: _Optional[str] = ..., neigborstates: _Optional[_Iterable[_Union[_neighbor_pb2.NeighborState, _Mapping]]] = ...) -> None: ...
