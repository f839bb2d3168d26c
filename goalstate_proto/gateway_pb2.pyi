from goalstate_proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GatewayType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEFAULT: _ClassVar[GatewayType]
    ZETA: _ClassVar[GatewayType]
    TGW: _ClassVar[GatewayType]
    IGW: _ClassVar[GatewayType]
    NGW: _ClassVar[GatewayType]
    ARION: _ClassVar[GatewayType]
DEFAULT: GatewayType
ZETA: GatewayType
TGW: GatewayType
IGW: GatewayType
NGW: GatewayType
ARION: GatewayType

class GatewayConfiguration(_message.Message):
    __slots__ = ("revision_number", "request_id", "id", "gateway_type", "destinations", "zeta_info", "arion_info")
    class destination(_message.Message):
        __slots__ = ("ip_address", "mac_address")
        IP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
        MAC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
        ip_address: str
        mac_address: str
        def __init__(self, ip_address: _Optional[str] = ..., mac_address: _Optional[str] = ...) -> None: ...
    class zeta(_message.Message):
        __slots__ = ("port_inband_operation",)
        PORT_INBAND_OPERATION_FIELD_NUMBER: _ClassVar[int]
        port_inband_operation: int
        def __init__(self, port_inband_operation: _Optional[int] = ...) -> None: ...
    class arion(_message.Message):
        __slots__ = ("vpc_id", "vni", "subnet_id", "port_inband_operation")
        VPC_ID_FIELD_NUMBER: _ClassVar[int]
        VNI_FIELD_NUMBER: _ClassVar[int]
        SUBNET_ID_FIELD_NUMBER: _ClassVar[int]
        PORT_INBAND_OPERATION_FIELD_NUMBER: _ClassVar[int]
        vpc_id: str
        vni: int
        subnet_id: str
        port_inband_operation: int
        def __init__(self, vpc_id: _Optional[str] = ..., vni: _Optional[int] = ..., subnet_id: _Optional[str] = ..., port_inband_operation: _Optional[int] = ...) -> None: ...
    REVISION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_TYPE_FIELD_NUMBER: _ClassVar[int]
    DESTINATIONS_FIELD_NUMBER: _ClassVar[int]
    ZETA_INFO_FIELD_NUMBER: _ClassVar[int]
    ARION_INFO_FIELD_NUMBER: _ClassVar[int]
    revision_number: int
    request_id: str
    id: str
    gateway_type: GatewayType
    destinations: _containers.RepeatedCompositeFieldContainer[GatewayConfiguration.destination]
    zeta_info: GatewayConfiguration.zeta
    arion_info: GatewayConfiguration.arion
    def __init__(self, revision_number: _Optional[int] = ..., request_id: _Optional[str] = ..., id: _Optional[str] = ..., gateway_type: _Optional[_Union[GatewayType, str]] = ..., destinations: _Optional[_Iterable[_Union[GatewayConfiguration.destination, _Mapping]]] = ..., zeta_info: _Optional[_Union[GatewayConfiguration.zeta, _Mapping]] = ..., arion_info: _Optional[_Union[GatewayConfiguration.arion, _Mapping]] = ...) -> None: ...

class GatewayState(_message.Message):
    __slots__ = ("operation_type", "configuration")
    OPERATION_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    operation_type: _common_pb2.OperationType
    configuration: GatewayConfiguration
    def __init__(self, operation_type: _Optional[_Union[_common_pb2.OperationType, str]] = ..., configuration: _Optional[_Union[GatewayConfiguration, _Mapping]] = ...) -> None: ...
