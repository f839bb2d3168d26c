"""What becomes of packets that flows hand up: ICMP errors are answered here, DHCP and unknown destinations go to the
agent."""

from __future__ import annotations

import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable

from dataplane.base import Punt, PuntReason, Unresolved
from dataplane.model import PortWanted
from dataplane.ovs import ipv4
from dataplane.ovs.icmp import IcmpError, icmp_error
from dataplane.ovs.openflow.messages import PacketIn
from dataplane.ovs.pipeline.layout import REG_ADDRESS, REG_FLAGS, Feature, Flag, cookie_feature
from dataplane.ovs.pipeline.port import mac_of, subnet_of

_QUEUE_LENGTH = 4096

_ERRORS = {
    Feature.PUNT_TTL: IcmpError.TIME_EXCEEDED,
    Feature.PUNT_UNREACHABLE: IcmpError.NET_UNREACHABLE,
    Feature.PUNT_TOO_BIG: IcmpError.FRAGMENTATION_NEEDED,
}


class Punts:
    """One thread that answers. `handle` never blocks: under a flood the newest packets are dropped and counted.

    `port_of(ofport)` finds the port a packet came from, `subnet_of_key(key)` the VPC and id of the subnet whose key a
    packet carries, `send(ofport, frame)` gives a frame to a port,
    `resubmit(ofport, frame)` has the tables look at a frame as if the port had sent it, `listener` gets what only the
    agent can answer.
    """

    def __init__(
        self,
        port_of: Callable[[int], PortWanted | None],
        subnet_of_key: Callable[[int], tuple[str, str] | None],
        send: Callable[[int, bytes], None],
        resubmit: Callable[[int, bytes], None],
        listener: Callable[[Punt], None],
        tunnel_mtu: int,
    ) -> None:
        self._port_of = port_of
        self._subnet_of_key = subnet_of_key
        self._send = send
        self._resubmit = resubmit
        self._listener = listener
        self._tunnel_mtu = tunnel_mtu
        self._queue: queue.Queue[PacketIn | None] = queue.Queue(_QUEUE_LENGTH)
        self._thread = threading.Thread(target=self._loop, name="ovs-punts", daemon=True)
        self.counts: Counter[str] = Counter()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            try:
                self._queue.put(None, timeout=0.5)
            except queue.Full:
                return
            self._thread.join(1.0)

    def handle(self, packet: PacketIn) -> None:
        try:
            self._queue.put_nowait(packet)
        except queue.Full:
            self.counts["dropped"] += 1

    def _loop(self) -> None:
        while True:
            try:
                packet = self._queue.get(timeout=60.0)
            except queue.Empty:
                continue
            if packet is None:
                return
            try:
                self._answer(packet)
            except Exception:  # one packet must not end the thread
                self.counts["failed"] += 1
                logging.getLogger(__name__).exception("cannot answer a punted packet")

    def _answer(self, packet: PacketIn) -> None:
        try:
            feature = Feature(cookie_feature(packet.cookie))
        except ValueError:
            self.counts["unknown"] += 1
            return
        self.counts[feature.name.lower()] += 1
        wanted = self._port_of(packet.in_port)
        if wanted is None:
            return
        if feature is Feature.DHCP:
            self._listener(Punt(PuntReason.DHCP, wanted.id, packet.data))
            return
        if feature is Feature.PUNT_UNKNOWN:
            self._hand_up_unresolved(packet, wanted)
            return
        error = _ERRORS.get(feature)
        if error is not None:
            self._answer_routed(packet, wanted, error)

    def _hand_up_unresolved(self, packet: PacketIn, wanted: PortWanted) -> None:
        subnet = self._subnet_of_key(packet.metadata)
        frame = packet.data
        parsed = ipv4.parse(frame)
        if parsed is not None and packet.registers[REG_FLAGS] >> Flag.ROUTED & 1:
            # Its source MAC has been rewritten already.
            frame = frame[:6] + mac_of(wanted, parsed.source) + frame[12:]
        elif parsed is not None:
            # By its MAC it has been tried in all of the port's subnets.
            meant = subnet_of(wanted, parsed.target)
            subnet = meant.subnet.vpc_id, meant.id
        if subnet is None:
            return
        unresolved = Unresolved(*subnet, packet.registers[REG_ADDRESS].to_bytes(4, "big"))
        self._listener(Punt(PuntReason.UNKNOWN_DESTINATION, wanted.id, frame, unresolved))

    def _answer_routed(self, packet: PacketIn, wanted: PortWanted, error: IcmpError) -> None:
        """A routed packet that cannot go on as it is. Its source MAC may have been rewritten already."""
        parsed = ipv4.parse(packet.data)
        if parsed is None:
            return
        # The gateway that the guest speaks to: the one of the subnet its own address is in.
        subnet = subnet_of(wanted, parsed.source).subnet
        guest_mac = mac_of(wanted, parsed.source)
        if error is IcmpError.FRAGMENTATION_NEEDED:
            as_sent = parsed._replace(ethernet=packet.data[:6] + guest_mac + packet.data[12:14])
            for frame in ipv4.fragments(as_sent, self._tunnel_mtu):
                self._resubmit(packet.in_port, frame)
        if subnet.gateway_mac is None or subnet.gateway_address is None or len(subnet.gateway_address) != 4:
            return
        answer = icmp_error(
            packet.data, error, guest_mac, subnet.gateway_mac, subnet.gateway_address, self._tunnel_mtu
        )
        if answer is not None:
            self._send(packet.in_port, answer)
