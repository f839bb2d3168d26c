from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResourceType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VPC: _ClassVar[ResourceType]
    SUBNET: _ClassVar[ResourceType]
    PORT: _ClassVar[ResourceType]
    NEIGHBOR: _ClassVar[ResourceType]
    SECURITYGROUP: _ClassVar[ResourceType]
    DHCP: _ClassVar[ResourceType]
    ROUTER: _ClassVar[ResourceType]
    GATEWAY: _ClassVar[ResourceType]

class OperationType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INFO: _ClassVar[OperationType]
    CREATE: _ClassVar[OperationType]
    UPDATE: _ClassVar[OperationType]
    GET: _ClassVar[OperationType]
    DELETE: _ClassVar[OperationType]

class OperationStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SUCCESS: _ClassVar[OperationStatus]
    FAILURE: _ClassVar[OperationStatus]
    INVALID_ARG: _ClassVar[OperationStatus]
    PENDING: _ClassVar[OperationStatus]
    OUT_OF_ORDER: _ClassVar[OperationStatus]

class RequestType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_DEMAND: _ClassVar[RequestType]
    AGENT_RESTARTED: _ClassVar[RequestType]

class EtherType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    IPV4: _ClassVar[EtherType]
    IPV6: _ClassVar[EtherType]

class Protocol(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TCP: _ClassVar[Protocol]
    UDP: _ClassVar[Protocol]
    ICMP: _ClassVar[Protocol]
    HTTP: _ClassVar[Protocol]
    ARP: _ClassVar[Protocol]

class NetworkType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VXLAN: _ClassVar[NetworkType]
    VLAN: _ClassVar[NetworkType]
    GRE: _ClassVar[NetworkType]
    GENEVE: _ClassVar[NetworkType]
    VXLAN_GPE: _ClassVar[NetworkType]

class UpdateType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELTA: _ClassVar[UpdateType]
    FULL: _ClassVar[UpdateType]
VPC: ResourceType
SUBNET: ResourceType
PORT: ResourceType
NEIGHBOR: ResourceType
SECURITYGROUP: ResourceType
DHCP: ResourceType
ROUTER: ResourceType
GATEWAY: ResourceType
INFO: OperationType
CREATE: OperationType
UPDATE: OperationType
GET: OperationType
DELETE: OperationType
SUCCESS: OperationStatus
FAILURE: OperationStatus
INVALID_ARG: OperationStatus
PENDING: OperationStatus
OUT_OF_ORDER: OperationStatus
ON_DEMAND: RequestType
AGENT_RESTARTED: RequestType
IPV4: EtherType
IPV6: EtherType
TCP: Protocol
UDP: Protocol
ICMP: Protocol
HTTP: Protocol
ARP: Protocol
VXLAN: NetworkType
VLAN: NetworkType
GRE: NetworkType
GENEVE: NetworkType
VXLAN_GPE: NetworkType
DELTA: UpdateType
FULL: UpdateType

class ResourceIdType(_message.Message):
    __slots__ = ("type", "id")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    type: ResourceType
    id: str
    def __init__(self, type: _Optional[_Union[ResourceType, str]] = ..., id: _Optional[str] = ...) -> None: ...
