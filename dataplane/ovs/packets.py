"""Frames that the agent sends: to a port, or through the tables as if a port had sent them."""

from __future__ import annotations

from dataplane.ovs.openflow import actions, messages
from dataplane.ovs.openflow.programmer import FlowProgrammer


class PacketSender:
    """Best effort: without a connection a frame is dropped. Methods may be called by any thread."""

    def __init__(self) -> None:
        self.programmer: FlowProgrammer | None = None

    def to_port(self, ofport: int, frame: bytes) -> None:
        programmer = self.programmer
        if programmer is not None:
            programmer.packet_out(messages.packet_out(frame, actions.output(ofport)))

    def through_tables(self, ofport: int, frame: bytes) -> None:
        programmer = self.programmer
        if programmer is not None:
            programmer.packet_out(messages.packet_out(frame, actions.output(actions.PORT_TABLE), in_port=ofport))
