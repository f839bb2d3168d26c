"""What can go wrong between us and the bridge, and the names an operator reads."""

from __future__ import annotations

_TYPE_NAMES = {
    0: "HELLO_FAILED",
    1: "BAD_REQUEST",
    2: "BAD_ACTION",
    3: "BAD_INSTRUCTION",
    4: "BAD_MATCH",
    5: "FLOW_MOD_FAILED",
    6: "GROUP_MOD_FAILED",
    7: "PORT_MOD_FAILED",
    8: "TABLE_MOD_FAILED",
    9: "QUEUE_OP_FAILED",
    10: "SWITCH_CONFIG_FAILED",
    11: "ROLE_REQUEST_FAILED",
    12: "METER_MOD_FAILED",
    13: "TABLE_FEATURES_FAILED",
    14: "BAD_PROPERTY",
    15: "ASYNC_CONFIG_FAILED",
    16: "FLOW_MONITOR_FAILED",
    17: "BUNDLE_FAILED",
    0xFFFF: "EXPERIMENTER",
}

_CODE_NAMES = {
    (1, 1): "BAD_TYPE",
    (1, 2): "BAD_MULTIPART",
    (1, 3): "BAD_EXPERIMENTER",
    (1, 6): "BAD_LEN",
    (1, 9): "BAD_TABLE_ID",
    (1, 11): "BAD_PORT",
    (1, 12): "BAD_PACKET",
    (2, 0): "BAD_TYPE",
    (2, 1): "BAD_LEN",
    (2, 4): "BAD_OUT_PORT",
    (2, 5): "BAD_ARGUMENT",
    (2, 9): "BAD_OUT_GROUP",
    (2, 10): "MATCH_INCONSISTENT",
    (2, 13): "BAD_SET_TYPE",
    (2, 14): "BAD_SET_LEN",
    (2, 15): "BAD_SET_ARGUMENT",
    (3, 0): "UNKNOWN_INST",
    (3, 2): "BAD_TABLE_ID",
    (3, 7): "BAD_LEN",
    (4, 0): "BAD_TYPE",
    (4, 1): "BAD_LEN",
    (4, 6): "BAD_FIELD",
    (4, 7): "BAD_VALUE",
    (4, 8): "BAD_MASK",
    (4, 9): "BAD_PREREQ",
    (4, 10): "DUP_FIELD",
    (5, 1): "TABLE_FULL",
    (5, 2): "BAD_TABLE_ID",
    (5, 3): "OVERLAP",
    (6, 0): "GROUP_EXISTS",
    (6, 8): "UNKNOWN_GROUP",
    (12, 1): "METER_EXISTS",
    (12, 2): "INVALID_METER",
    (12, 3): "UNKNOWN_METER",
    (12, 6): "BAD_RATE",
    (12, 7): "BAD_BURST",
    (12, 10): "OUT_OF_METERS",
    (17, 2): "BAD_ID",
    (17, 4): "CLOSED",
    (17, 13): "MSG_FAILED",
}


class DecodeError(ValueError):
    """Bytes that are not the message or structure they were taken for."""


class OpenFlowError(Exception):
    """The bridge refused a message (OpenFlow 1.4, 7.5.4).

    ``type`` and ``code`` are the numbers of the protocol, ``xid`` the transaction id of the refused message,
    ``data`` the first bytes of it as the bridge returned them.
    """

    def __init__(self, error_type: int, code: int, xid: int = 0, data: bytes = b"") -> None:
        super().__init__(error_type, code, xid, data)
        self.type = error_type
        self.code = code
        self.xid = xid
        self.data = data

    def __str__(self) -> str:
        type_name = _TYPE_NAMES.get(self.type, "UNKNOWN")
        code_name = _CODE_NAMES.get((self.type, self.code), "")
        return f"{type_name}{'/' if code_name else ''}{code_name} ({self.type}, {self.code})"


class ProgrammerError(Exception):
    """The programmer could not connect, or could not take the work in time."""


class ProgrammerLost(ProgrammerError):  # noqa: N818 - reads as what happened
    """The connection to the bridge is gone (or closed by us); what was outstanding may or may not be applied."""
