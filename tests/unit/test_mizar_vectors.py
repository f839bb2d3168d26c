"""Requests and answers recorded of the real command and daemon: the client's tables and the test daemon's agree with
every byte."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from dataplane.mizar.exchange import answer_of, body_of
from dataplane.mizar.layouts import LAYOUTS
from dataplane.mizar.procedures import PROCEDURES, Call
from tests.lab import transit_wire
from tests.lab.transit_state import Value

VECTORS = json.loads((Path(__file__).parent / "data" / "mizar_vectors.json").read_text())
NAMES = {
    "tunnel_id": "tunid", "nip": "netip", "hosted_iface": "hosted_interface", "iface": "interface",
    "bit_value": "bit_val", "protocol": "proto", "src_addr": "saddr",
}  # fmt: skip
WORDS = {"Premium": 2, "High": 0}
IPS = ("ip", "netip", "local_ip", "cidr_ip", "saddr")


def plain(structure: str, source: dict[str, Any], interface: str) -> Value:
    """What the command was given, by the names of the wire."""
    given = {NAMES.get(name, name): value for name, value in source.items()} | {}
    given.setdefault("interface", interface)
    if structure == "port":
        given["protocol"] = given.pop("proto")
    if structure == "vsip_enforce":
        given["local_ip"] = given.pop("ip")
    found = {}
    for part in transit_wire.STRUCTURES[structure].split():
        name, kind = part.split(":")
        value = given[name]
        if kind[0] == "{":
            found[name] = plain(kind[1:-1], value, interface)
        else:
            found[name] = int(WORDS.get(value, value)) if kind in "uqbpi" else value
    return found


def packed(structure: str, value: Value) -> Any:
    """The same as the client has it."""
    found: dict[str, Any] = {}
    for part in transit_wire.STRUCTURES[structure].split():
        name, kind = part.split(":")
        field = value[name]
        match kind[0]:
            case "{":
                field = packed(kind[1:-1], field)
            case "A":
                field = tuple(socket.inet_aton(ip) for ip in field)
            case "a" | "n":
                field = socket.inet_aton(field)
            case "m":
                field = bytes.fromhex(field.replace(":", ""))
        found[name] = field
    return next(cls for cls in LAYOUTS if cls.__name__.lower() == structure.replace("_", ""))(**found)


def label(vector: dict[str, Any]) -> str:
    return f"{VECTORS.index(vector)}-{vector['command']}"


@pytest.mark.parametrize("vector", VECTORS, ids=label)
def test_a_request_has_the_recorded_bytes(vector: dict[str, Any]) -> None:
    _, structure, _ = transit_wire.PROCEDURES[vector["procedure"]]
    source = vector["json"][0] if isinstance(vector["json"], list) else vector["json"]
    value = plain(structure, source, vector["interface"])
    recorded = bytes.fromhex(vector["args_hex"])
    call = PROCEDURES[vector["procedure"]](packed(structure, value))
    assert body_of(call)[36:] == recorded
    assert transit_wire.read(structure, recorded) == value
    assert transit_wire.write(structure, value) == recorded
    assert LAYOUTS[call.procedure.argument].decode(recorded) == (call.argument, len(recorded))


@pytest.mark.parametrize("vector", VECTORS, ids=label)
def test_a_recorded_answer_is_understood(vector: dict[str, Any]) -> None:
    procedure = PROCEDURES[vector["procedure"]]
    results = bytes.fromhex(vector["result_hex"])
    reply = bytes.fromhex("000000070000000100000000000000000000000000000000") + results
    answer = answer_of(Call(procedure, None), reply, 1)
    if procedure.result is None:
        code = int.from_bytes(results, "big")
        assert answer.done == (code == 0)
        assert answer.error is None or f"code {code}" in str(answer.error)
    else:
        structure = transit_wire.PROCEDURES[vector["procedure"]][2]
        assert answer.value == packed(structure, transit_wire.read(structure, results))
