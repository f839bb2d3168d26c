"""A database for the pure parts of the OVSDB client."""

from dataclasses import dataclass, field, replace

from dataplane.ovs.ovsdb.rows import BridgeRow, InterfaceRow, RootRow

BRIDGE = BridgeRow("b-uuid", "br-int", "netdev", "00000000000000aa", "secure")
ROOT = RootRow("r-uuid", 5, 5)


@dataclass(slots=True)
class FakeView:
    """Implements rows.View; tests change the fields."""

    bridge_name: str = "br-int"
    root_row: RootRow | None = ROOT
    bridge_row: BridgeRow | None = BRIDGE
    interfaces: dict[str, InterfaceRow] = field(default_factory=dict)
    other_ports: set[str] = field(default_factory=set)

    def root(self) -> RootRow | None:
        return self.root_row

    def bridge(self) -> BridgeRow | None:
        return self.bridge_row

    def interface(self, name: str) -> InterfaceRow | None:
        return self.interfaces.get(name)

    def has_port(self, name: str) -> bool:
        return name in self.interfaces or name in self.other_ports

    def attach(self, name: str, **columns: object) -> None:
        """Put an interface on our bridge, or change its columns."""
        present = self.interfaces.get(name) or InterfaceRow(f"i-{name}", name, f"p-{name}")
        self.interfaces[name] = replace(present, **columns)  # type: ignore[arg-type]

    def configured(self, next_cfg: int, cur_cfg: int) -> None:
        self.root_row = replace(ROOT, next_cfg=next_cfg, cur_cfg=cur_cfg)
