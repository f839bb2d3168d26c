"""The agent makes the devices of its ports: a tap or a veth pair, with nothing left of them afterwards."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from goalstate_proto import common_pb2
from tests.conformance.frames import arp_frame
from tests.conformance.network import Nic, Subnet, deletion, port_state, subnet_state, v2
from tests.lab import AgentProcess, Host, Lab, wait_until

pytestmark = pytest.mark.lab

TUNSETIFF = 0x400454CA
IFF_TAP_WITHOUT_HEADER = 0x1002
ETH_P_ALL = 0x0003
ARP_REPLY = b"\x08\x06\x00\x01\x08\x00\x06\x04\x00\x02"

SUBNET = Subnet("made-subnet", "made-vpc", "10.9.0.0/24", "aa:ff:00:00:09:01", 7100)


def nic(host: Host) -> Nic:
    addresses = ((SUBNET, SUBNET.at(10)),)
    return Nic("5fd1c0de-77aa-made-0000", SUBNET.vpc_id, "aa:bb:00:00:09:0a", host.underlay_ip, addresses)


@contextmanager
def tap_end(host: Host, port: Nic) -> Iterator[tuple[Callable[[bytes], object], Callable[[], bytes], int]]:
    """What a hypervisor does with a tap: opens it and reads and writes frames."""

    def opened() -> int:
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", f"tap{port.id[:11]}".encode(), IFF_TAP_WITHOUT_HEADER))
        return fd

    fd = host.namespace.call(opened)
    try:
        yield (lambda frame: os.write(fd, frame)), (lambda: os.read(fd, 2048)), fd
    finally:
        os.close(fd)


@contextmanager
def veth_end(host: Host, port: Nic) -> Iterator[tuple[Callable[[bytes], object], Callable[[], bytes], int]]:
    """What a container has of a veth pair, though its end stays where it was made."""
    peer = f"veth{port.id[:11]}"
    host.run("ip", "link", "set", peer, "up")
    end = host.namespace.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    end.bind((peer, 0))
    try:
        yield end.send, (lambda: end.recv(2048)), end.fileno()
    finally:
        end.close()


def gateway_answers(send: Callable[[bytes], object], receive: Callable[[], bytes], fd: int, port: Nic) -> bool:
    """Whether an ARP request for the gateway comes back answered."""
    send(arp_frame(1, (port.mac, port.ip), ("00:00:00:00:00:00", SUBNET.gateway)))
    while select.select([fd], [], [], 0.5)[0]:
        if receive()[12:22] == ARP_REPLY:
            return True
    return False


def statuses(agent: AgentProcess, *states: object) -> set[int]:
    (reply,) = agent.push_v2(v2(*states))  # type: ignore[arg-type]
    return {one.operation_status for one in reply.operation_statuses}


@pytest.mark.parametrize(("how", "end"), [("tap", tap_end), ("veth", veth_end)])
def test_a_device_is_made_works_and_goes(lab: Lab, how: str, end: Callable[..., object]) -> None:
    host = lab.host("h1")
    agent = host.agent({"dataplane": {"make_devices": how}})
    agent.wait_ready()
    before = host.devices()
    port = nic(host)
    assert statuses(agent, subnet_state(SUBNET), port_state(port)) == {common_pb2.SUCCESS}
    assert f"tap{port.id[:11]}" in host.devices()
    with end(host, port) as (send, receive, fd):  # type: ignore[attr-defined]
        wait_until(lambda: gateway_answers(send, receive, fd, port), 5.0, "the gateway answers")
    # Told again, and by a fresh agent, it is the same device.
    assert statuses(agent, port_state(port)) == {common_pb2.SUCCESS}
    assert agent.stop() == 0
    again = host.agent({"dataplane": {"make_devices": how}})
    again.wait_ready()
    assert statuses(again, subnet_state(SUBNET), port_state(port)) == {common_pb2.SUCCESS}
    assert statuses(again, deletion(port_state(port)), deletion(subnet_state(SUBNET))) == {common_pb2.SUCCESS}
    wait_until(lambda: host.devices() == before, 5.0, "no device left")
    assert f"tap{port.id[:11]}" not in host.vsctl("list-ports", "br-int")


def test_a_device_of_somebody_else_is_left_alone(lab: Lab) -> None:
    host = lab.host("h1")
    port = nic(host)
    name = f"tap{port.id[:11]}"
    host.run("ip", "tuntap", "add", name, "mode", "tap")
    agent = host.agent({"dataplane": {"make_devices": "tap"}})
    agent.wait_ready()
    assert common_pb2.FAILURE in statuses(agent, subnet_state(SUBNET), port_state(port))
    (problem,) = agent.status()["problems"]
    assert name in problem["reason"] and "not ours" in problem["reason"]
    assert statuses(agent, deletion(port_state(port))) == {common_pb2.SUCCESS}
    assert name in host.devices()
