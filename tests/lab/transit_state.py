"""What a transit daemon keeps and answers: its maps, its interface slots, its quirks. No sockets."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.lab.transit_wire import PROCEDURES

Value = dict[str, Any]
Key = tuple[Any, ...]
LIMITS = {"vpc": 8192, "net": 16385, "ep": 65537, "port": 65536, "agent_ep": 4096, "packet_metadata": 4096}
ENFORCEMENTS = 1024
SLOTS = 128
STORED = 128


class Died(Exception):  # noqa: N818
    """The daemon is no more."""


class Unencodable(Exception):  # noqa: N818
    """A GET whose answer cannot be encoded: nothing was ever read into it."""


@dataclass(slots=True)
class Quirks:
    """What was seen of the daemon and can be left out of a test."""

    slot_leak: bool = True
    sticky_loads: bool = True
    second_load_kills: bool = True
    broken_gets: bool = True
    bandwidth_unknown_is_done: bool = True


@dataclass(frozen=True, slots=True)
class Made:
    """A call that came, and what it was answered (a code, or a structure)."""

    name: str
    argument: Value
    answer: Any


@dataclass(slots=True)
class TransitState:
    """One life of a daemon. `known`: names of interfaces that are there, None for all. `bad_paths`: programs that do
    not load. `forgetful`: interfaces whose next agent load answers 0 and does nothing."""

    quirks: Quirks = field(default_factory=Quirks)
    known: set[str] | None = None
    bad_paths: set[str] = field(default_factory=set)
    forgetful: set[str] = field(default_factory=set)
    qos: bool = False
    transit: str = ""
    ever_loaded: bool = False
    agents: set[str] = field(default_factory=set)
    maps: dict[str, dict[Key, Value]] = field(default_factory=dict)
    slots: dict[int, Key] = field(default_factory=dict)
    calls: list[Made] = field(default_factory=list)
    duplicates: int = 0
    _failed: dict[str, bool] = field(default_factory=dict)
    _read: set[str] = field(default_factory=set)

    def table(self, name: str) -> dict[Key, Value]:
        """What stands in a map: vpc, net, ep, port, agent_ep, agent_md, packet_metadata, bw_qos_config, tx_stats,
        pipeline_stage, or a policy's by its procedure's name without the verb."""
        return self.maps.setdefault(name, {})

    def count(self, name: str) -> int:
        """How often a procedure was called."""
        return Counter(made.name for made in self.calls)[name]

    @property
    def leaked(self) -> int:
        """Slots that no endpoint has any more."""
        held = {value["slot"] for value in self.table("ep").values() if value.get("slot") is not None}
        return len(set(self.slots) - held - {0})

    @property
    def empty(self) -> bool:
        """Whether nothing stands but loaded programs."""
        return not any(table for name, table in self.maps.items() if name != "tx_stats")

    def call(self, number: int, argument: Value) -> Any:
        """The answer to a call. Raises Died, Unencodable."""
        name = PROCEDURES[number][0]
        try:
            answer = self._call(name, argument)
        except (Died, Unencodable) as error:
            self.calls.append(Made(name, argument, error))
            raise
        self.calls.append(Made(name, argument, answer))
        return answer

    def _call(self, name: str, a: Value) -> Any:
        if special := getattr(self, f"_{name}", None):
            return special(a)
        verb, _, what = name.partition("_")
        if verb == "get":
            return self._get(what, a)
        if not self._here(what, a["interface"]):
            return 2
        table, key = self.table(what), self._key(what, a)
        if verb == "update":
            if what.endswith("network_policy") and a["cidr_type"] not in (0, 1, 2):
                return 2
            limit = ENFORCEMENTS if what.endswith("enforcement") else LIMITS.get(what, 1 << 30)
            if key not in table and self._standing(what, a["interface"]) >= limit:
                return 2 if what in LIMITS and what not in ("vpc", "port") else 3
            table[key] = a
            return 0
        if table.pop(key, None) is None:
            return 2 if what in ("net", "ep", "agent_ep", "bw_qos_config", "packet_metadata") else 3
        return 0

    def _standing(self, what: str, interface: str) -> int:
        if not self._on_agent(what):
            return len(self.table(what))
        return sum(value["interface"] == interface for value in self.table(what).values())

    @staticmethod
    def _on_agent(what: str) -> bool:
        return what.startswith("agent") or what == "packet_metadata"

    def _here(self, what: str, interface: str) -> bool:
        return interface in self.agents if self._on_agent(what) else bool(interface) and interface == self.transit

    @staticmethod
    def _key(what: str, a: Value) -> Key:
        """Fields that tell entries apart; the interface too for what agents keep."""
        left_out = {"bit_val", "remote_ips", "eptype", "mac", "hosted_interface", "veth", "routers_ips", "switches_ips"}
        left_out |= {"target_port"} if what == "port" else set()
        if what == "packet_metadata":
            return (a["interface"], a["tunid"], a["ip"])
        if what == "bw_qos_config" or what == "tx_stats":
            return (a["saddr"],)
        if what == "net":
            return (a["tunid"], _masked(a["netip"], a["prefixlen"]), a["prefixlen"])
        if not TransitState._on_agent(what):
            left_out |= {"interface"}
        return tuple(a[name] for name in sorted(a) if name not in left_out)

    def _update_vpc(self, a: Value) -> int:
        if not self._here("vpc", a["interface"]):
            return 2
        key = self._key("vpc", a)
        if key not in self.table("vpc") and len(self.table("vpc")) >= LIMITS["vpc"]:
            return 3
        self.table("vpc")[key] = a | {"routers_ips": a["routers_ips"][:STORED]}
        return 1 if len(a["routers_ips"]) > STORED else 0

    def _update_net(self, a: Value) -> int:
        if not self._here("net", a["interface"]) or a["prefixlen"] > 32:
            return 2
        key = self._key("net", a)
        if key not in self.table("net") and len(self.table("net")) >= LIMITS["net"]:
            return 2
        self.table("net")[key] = a | {"switches_ips": a["switches_ips"][:STORED]}
        return 0

    def _update_ep(self, a: Value) -> int:
        if not self._here("ep", a["interface"]):
            return 2
        if len(a["remote_ips"]) > STORED:
            return 1
        table, key = self.table("ep"), self._key("ep", a)
        old = table.get(key)
        hosted = a["hosted_interface"]
        if hosted and old is not None and {k: old[k] for k in a} == a:
            self.duplicates += 1
        if old is None and len(table) >= LIMITS["ep"]:
            return 2
        if hosted and self.known is not None and hosted not in self.known:
            table[key] = a | {"hosted_interface": "", "slot": None}
            return 1
        slot = None
        if hosted:
            if not self.quirks.slot_leak and old is not None and old["slot"] is not None:
                self.slots.pop(old["slot"], None)
            slot = next((number for number in range(1, SLOTS) if number not in self.slots), None)
            if slot is None:
                return 2
            self.slots[slot] = key
        table[key] = a | {"slot": slot}
        return 0

    def _delete_ep(self, a: Value) -> int:
        if not self._here("ep", a["interface"]):
            return 2
        old = self.table("ep").pop((a["ip"], a["tunid"]), None)
        if old is None:
            return 2
        self.slots.pop(old["slot"], None)
        return 0

    def _update_agent_md(self, a: Value) -> int:
        if a["interface"] not in self.agents or not self._here("vpc", a["eth"]["interface"]):
            return 2
        self.table("agent_md")[(a["interface"],)] = a
        return 0

    def _delete_agent_md(self, a: Value) -> int:
        if a["interface"] not in self.agents:
            return 2
        self.table("agent_md").pop((a["interface"],), None)
        return 0

    def _load_transit_xdp(self, a: Value) -> int:
        if self.transit == a["interface"] and self.transit:
            return 0
        if self.ever_loaded and self.quirks.second_load_kills:
            raise Died
        loaded = self._loads(a)
        if loaded:
            self.transit, self.ever_loaded = a["interface"], True
            self.maps.clear()
            self.slots = {0: (a["interface"],)}
        return self._load_code("transit", loaded)

    def _load_transit_agent_xdp(self, a: Value) -> int:
        name = a["interface"]
        if name in self.agents:
            return 0
        if name in self.forgetful:
            self.forgetful.discard(name)
            return 0
        loaded = self._loads(a)
        if loaded:
            self.agents.add(name)
        return self._load_code("agent", loaded)

    def _loads(self, a: Value) -> bool:
        there = self.known is None or a["interface"] in self.known
        return there and bool(a["interface"]) and a["xdp_path"] not in self.bad_paths

    def _load_code(self, side: str, loaded: bool) -> int:
        failed = not loaded or (self.quirks.sticky_loads and self._failed.get(side, False))
        self._failed[side] = failed
        return 3 if failed else 0

    def _unload_transit_xdp(self, a: Value) -> int:
        if not self._here("vpc", a["interface"]):
            return 2
        self.transit = ""
        self.maps = {name: table for name, table in self.maps.items() if self._on_agent(name)}
        self.slots.clear()
        return 0

    def _unload_transit_agent_xdp(self, a: Value) -> int:
        if a["interface"] not in self.agents:
            return 2
        self.agents.discard(a["interface"])
        for name, table in self.maps.items():
            if self._on_agent(name):
                for key in [key for key, value in table.items() if value["interface"] == a["interface"]]:
                    del table[key]
        return 0

    def _load_transit_xdp_pipeline_stage(self, a: Value) -> int:
        if not self._here("vpc", a["interface"]):
            return 2 if self.ever_loaded else -1
        if a["stage"] not in range(5):
            return 2
        if not self._loads(a):
            return 3
        self.table("pipeline_stage")[(a["stage"],)] = a
        return 0

    def _unload_transit_xdp_pipeline_stage(self, a: Value) -> int:
        if not self._here("vpc", a["interface"]):
            return 2 if self.ever_loaded else -1
        self.table("pipeline_stage").pop((a["stage"],), None)
        return 0

    def _update_bw_qos_config(self, a: Value) -> int:
        if not self._here("vpc", a["interface"]):
            return 0 if self.quirks.bandwidth_unknown_is_done else 2
        if not self.qos:
            return 2
        self.table("bw_qos_config")[(a["saddr"],)] = a
        return 0

    def _update_tx_stats(self, a: Value) -> int:
        if not self._here("vpc", a["interface"]):
            return 0 if self.quirks.bandwidth_unknown_is_done else 2
        self.table("tx_stats")[(a["saddr"],)] = a
        return 0

    def _delete_bw_qos_config(self, a: Value) -> int:
        if not self._here("vpc", a["interface"]):
            return 0 if self.quirks.bandwidth_unknown_is_done else 2
        return 0 if self.qos and self.table("bw_qos_config").pop((a["saddr"],), None) else 2

    def _get(self, what: str, a: Value) -> Value:
        found = self._found(what, a) if self._here(what, a["interface"]) else None
        if found is None:
            if what in ("ep", "agent_ep", "agent_md") and self.quirks.broken_gets and what not in self._read:
                raise Unencodable
            return _blank(what)
        self._read.add(what)
        if what == "ep":
            return found | {"hosted_interface": "lo" if found["slot"] else "", "veth": ""}
        if what == "agent_ep":
            return found | {"hosted_interface": "", "veth": ""}
        if what == "agent_md":
            ep = found["ep"] | {"interface": "", "veth": ""}
            net = found["net"] | {"interface": ""}
            if self.quirks.broken_gets:
                net["prefixlen"] = 0x9741A7E0
            return found | {"ep": ep, "net": net, "dst_mac_override": "00:00:00:00:00:00"}
        return found

    def _found(self, what: str, a: Value) -> Value | None:
        if what == "net":
            lengths = range(a["prefixlen"], -1, -1)
            keys = ((a["tunid"], _masked(a["netip"], length), length) for length in lengths)
            found = next((self.table("net")[key] for key in keys if key in self.table("net")), None)
            return None if found is None else found | {"netip": a["netip"]}
        if what == "agent_md":
            return self.table("agent_md").get((a["interface"],))
        return self.table(what).get(self._key(what, a))


def _masked(ip: str, length: int) -> str:
    number = int.from_bytes(bytes(int(part) for part in ip.split(".")), "big") >> (32 - length) << (32 - length)
    return ".".join(str(byte) for byte in number.to_bytes(4, "big"))


def _blank(what: str) -> Value:
    nothing, no_mac = "0.0.0.0", "00:00:00:00:00:00"
    net = {"interface": "", "prefixlen": 0, "tunid": 0, "netip": nothing, "switches_ips": []}
    ep = {"interface": "", "ip": nothing, "eptype": 0, "remote_ips": [], "mac": no_mac}
    ep |= {"hosted_interface": "", "veth": "", "tunid": 0}
    eth = {"interface": "", "ip": nothing, "mac": no_mac}
    counts = {f"{side}_{unit}": 0 for side in ("redirect", "pass", "drop") for unit in ("packets", "bytes")}
    return {
        "vpc": {"interface": "", "tunid": 0, "routers_ips": []},
        "net": net,
        "ep": ep,
        "agent_ep": ep,
        "agent_md": {"interface": "", "eth": eth, "ep": ep, "net": net, "dst_mac_override": no_mac},
        "bw_qos_config": {"interface": "", "saddr": nothing, "egress_bandwidth_bytes_per_sec": 0},
        "tx_stats": {"interface": "", "saddr": nothing} | counts,
    }[what]
