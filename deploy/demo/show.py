"""How the demonstration looks: everything reads without colour, and without Unicode where there is none."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from deploy.demo.intent import HOSTS, Network, Subnet, router_name
from deploy.demo.planes import Plane, Standing
from deploy.demo.probes import Lease, Matrix, PairResult, Route

PIPE_WIDTH = 100
# Above, right, below, left; the whole has to fit into 80 columns.
CELL = (0, 1, 0, 0)
COLOURS = ("cyan", "magenta", "yellow", "blue")
KINDS = ("VPC", "SUBNET", "ROUTER", "PORT", "NEIGHBOR", "DHCP", "SECURITYGROUP", "GATEWAY")
REACHED, APART, WRONG = "✓", "∙", "✗"
GOOD, QUIET, BAD = "green", "dim", "bold red"
ASCII: dict[str, str | int | None] = {
    "✓": "ok",
    "∙": ".",
    "✗": "X",
    "═": "=",
    "─": "-",
    **dict.fromkeys("┐┘┬┴┤┼┌├└", "+"),
}
# What a row of guests looks like where it meets the wire: (goes on above, goes on below, leads to the bridge).
WIRES = {
    (False, False, True): "─",
    (False, True, False): "┐",
    (True, True, False): "┤",
    (True, False, False): "┘",
    (False, True, True): "┬",
    (True, True, True): "┼",
    (True, False, True): "┴",
}
MIRRORED = {"┐": "┌", "┤": "├", "┘": "└"}


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What `aca push --json` printed for one host, and its exit status."""

    host: str
    messages: Sequence[Mapping[str, Any]]
    exit_status: int

    @classmethod
    def parse(cls, host: str, printed: str, exit_status: int) -> "Outcomes":
        """Raises ValueError if it is not JSON."""
        return cls(host, tuple(json.loads(printed)), exit_status)

    @property
    def resources(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        """The outcomes by (kind, id)."""
        return {(entry["kind"], entry["id"]): entry for message in self.messages for entry in message["resources"]}


class Show:
    """Prints to one console."""

    def __init__(self, console: Console, network: Network, planes: Mapping[str, Plane]) -> None:
        self._console = console
        self._network = network
        self._planes = planes
        self._colours = {subnet: COLOURS[n % len(COLOURS)] for n, subnet in enumerate(network.subnets)}
        self._ascii = console.options.ascii_only

    def title(self, words: str) -> None:
        self._console.print()
        self._console.rule(self._text(words, "bold"), align="left", style="dim")

    def line(self, words: str, style: str = "") -> None:
        self._console.print(self._text(words, style), soft_wrap=True)

    def verdict(self, good: bool, words: str) -> None:
        mark, style = (REACHED, "bold green") if good else (WRONG, BAD)
        self.line(f"{mark} {words}", style)

    # -- the picture

    def picture(self, underlay: Mapping[str, str]) -> None:
        """The network as its users see it, and the hosts it is on; `underlay` has the hosts' addresses."""
        self._console.print(self._users_view())
        self._console.print(self._hosts_view(underlay))

    def _users_view(self) -> RenderableType:
        trees = []
        for vpc in self._network.vpcs:
            tree = Tree(self._text(f"VPC {vpc.name}  {vpc.cidr}", "bold"), guide_style="dim")
            routers: dict[str, Tree] = {}
            for subnet in self._network.subnets_of(vpc):
                branch = tree
                if subnet.router is not None:
                    if subnet.router not in routers:
                        routers[subnet.router] = tree.add(self._text(f"router {router_name(subnet.router)}", "bold"))
                    branch = routers[subnet.router]
                leaf = branch.add(self._subnet(subnet))
                for guest in self._network.guests_in(subnet):
                    how = ", address by DHCP" if guest.by_dhcp else ""
                    leaf.add(self._text(f"{guest.name}  {guest.ip}  on {guest.host}{how}", self._colours[subnet]))
            trees.append(tree)
        return Group(*trees)

    def _subnet(self, subnet: Subnet) -> Text:
        lone = "" if subnet.router is not None else ", no router"
        words = f"subnet {subnet.name}  {subnet.cidr}, gateway {subnet.gateway}{lone}"
        text = self._text(words, self._colours[subnet])
        twins = [s.name for s in self._network.subnets if s != subnet and s.cidr == subnet.cidr]
        if twins:
            text.append(self._text(f"  (also {', '.join(twins)}'s range)", "dim"))
        return text

    def _hosts_view(self, underlay: Mapping[str, str]) -> RenderableType:
        left, right = HOSTS
        tunnels = list(dict.fromkeys(f"{s.encapsulation} {s.tunnel}" for s in self._network.subnets))
        middle = Text("\n").join(self._text(line) for line in ("", *tunnels[:1], "═" * 13, *tunnels[1:]))
        grid = Table.grid(padding=0)
        for _ in range(3):
            grid.add_column(justify="center", vertical="top", no_wrap=True)
        grid.add_row(self._host(left, underlay[left], False), middle, self._host(right, underlay[right], True))
        return grid

    def _host(self, name: str, address: str, mirrored: bool) -> Panel:
        guests = self._network.guests_on(name)
        joint = self._planes[name].joint
        rows = []
        for number, guest in enumerate(guests):
            bridge = number == len(guests) // 2
            wire = WIRES[number > 0, number < len(guests) - 1, bridge]
            label = Text(f"{guest.name:<9}{guest.ip:<9}", self._colours[guest.subnet])
            if mirrored:
                stub = self._text(f"{f'{joint} ─' if bridge else '':>8}{MIRRORED.get(wire, wire)}─ ")
                rows.append(stub + label)
            else:
                rows.append(label + self._text(f" ─{wire}{f'─ {joint}' if bridge else ''}"))
        title = self._text(f"host {name}  {address}  {self._planes[name].name}", "bold")
        # Wires must not be centred or folded.
        drawing = Text("\n", justify="left", no_wrap=True).join(rows)
        return Panel(drawing, title=title, title_align="left", expand=False, border_style="dim")

    # -- outcomes

    def outcomes(self, pushed: Sequence[Outcomes]) -> None:
        """One line per resource, two columns per host: what became of it, and how long that took."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=CELL)
        for column in ("kind", "name"):
            table.add_column(column, no_wrap=True)
        for outcomes in pushed:
            table.add_column(f"{outcomes.host}, ms")
            table.add_column("in data plane", justify="right")
        by_host = {outcomes.host: outcomes.resources for outcomes in pushed}
        keys = {key for resources in by_host.values() for key in resources}
        for kind, resource_id in sorted(keys, key=self._order):
            entries = [by_host[outcomes.host].get((kind, resource_id)) for outcomes in pushed]
            cells = [cell for entry in entries for cell in self._outcome(entry)]
            name = self._network.names.get((kind, resource_id), "")
            table.add_row(kind, Text(name or resource_id), *cells)
        self._console.print(table)
        for outcomes in pushed:
            self.line(self._times(outcomes), "dim")

    def _order(self, key: tuple[str, str]) -> tuple[int, str, str]:
        kind, resource_id = key
        place = KINDS.index(kind) if kind in KINDS else len(KINDS)
        return place, self._network.names.get(key, ""), resource_id

    def _outcome(self, entry: Mapping[str, Any] | None) -> tuple[Text, Text]:
        if entry is None:
            return Text(""), Text("")
        total, data_plane = (f"{entry[name] / 1000:.1f}" for name in ("elapsed_us", "dataplane_us"))
        if entry["status"] == "SUCCESS":
            return self._text(f"{REACHED} {total:>5}", GOOD), Text(data_plane)
        return self._text(f"{WRONG} {entry['status']} {total}\n{entry['reason']}", BAD), Text(data_plane)

    def _times(self, outcomes: Outcomes) -> str:
        calls = ", ".join(
            f"{'PushNetworkResourceStates' if m['layout'] == 'v1' else 'PushGoalStatesStream'} of"
            f" {len(m['resources'])} resources {m['seconds'] * 1000:.1f} ms"
            for m in outcomes.messages
        )
        return f"{outcomes.host}: {calls} (from sending to reply)"

    def refusals(self, outcomes: Outcomes) -> None:
        """What became of resources of which some cannot be had on this host, and why."""
        for (kind, resource_id), entry in sorted(outcomes.resources.items(), key=lambda item: self._order(item[0])):
            name = self._network.names.get((kind, resource_id)) or resource_id
            reason = entry["reason"]
            for (_, known_id), known_name in self._network.names.items():
                reason = reason.replace(known_id, known_name)
            self.line(f"  {kind:<9}{name:<9}{entry['status']:<12} {reason}".rstrip())

    # -- what stands

    def standing(self, host: str, things: Sequence[Standing]) -> None:
        self.line(f"{host}, {self._planes[host].title}:", "bold")
        for thing in things:
            mark, style = (REACHED, "") if thing.expected else (WRONG, BAD)
            lacking = "" if thing.expected else f"; NOT for {', '.join(thing.missing)}"
            self.line(f"  {mark} {thing.words}{lacking}", style)

    # -- what guests found out

    def matrix(self, matrix: Matrix) -> None:
        guests = self._network.guests
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=CELL)
        table.add_column("from \\ to", no_wrap=True)
        for guest in guests:
            table.add_column(Text(guest.name, self._colours[guest.subnet]), no_wrap=True)
        table.add_column("gateway", no_wrap=True)
        for source in guests:
            cells = [
                self._pair(matrix.pairs[source.name, target.name]) if target is not source else Text("")
                for target in guests
            ]
            gateway = matrix.gateways[source.name]
            cells.append(self._reached(gateway.ping.rtts) if gateway.expected else self._text(f"{WRONG} LOST", BAD))
            table.add_row(Text(source.name, self._colours[source.subnet]), *cells)
        self._console.print(table)
        self.line(f"{REACHED} reached, as it must be: median round trip in ms", GOOD)
        self.line(f"{APART} kept apart, as it must be; a name: this guest of the own VPC has that address and answered")
        self.line(f"{WRONG} not as it must be: LOST no answer, LEAK the other guest was reached", BAD)

    def _pair(self, pair: PairResult) -> Text:
        if not pair.expected:
            word = "LOST" if pair.source.must_reach(pair.target) else "LEAK"
            return self._text(f"{WRONG} {word}", BAD)
        if pair.source.must_reach(pair.target):
            return self._reached(pair.ping.rtts)
        if pair.own_address:
            return self._text(f"{APART} own", QUIET)
        answerer = next(iter(sorted(pair.seen_by)), "") if pair.ping.received else ""
        return self._text(f"{APART} {answerer}", QUIET)

    def _reached(self, rtts: Sequence[float]) -> Text:
        return self._text(f"{REACHED} {statistics.median(rtts):.2f}", GOOD)

    def route(self, route: Route) -> None:
        for number, (address, milliseconds) in enumerate(route.hops, start=1):
            who = {route.source.subnet.gateway: "gateway", route.target.ip: route.target.name}.get(address, "")
            time = f"{milliseconds} ms" if milliseconds else ""
            self.line(f"  {number}  {address:<12} {who:<10} {time}")

    def lease(self, lease: Lease) -> None:
        for line in lease.output.splitlines():
            self.line(f"  {line}", "" if line.startswith("lease:") else "dim")

    # -- afterwards

    def commands(self, commands: Sequence[tuple[str, str]]) -> None:
        """Commands to copy, each with what it is for. Never wrapped by us."""
        for what, command in commands:
            self._console.print(self._text(f"{what}:", "dim"), soft_wrap=True)
            self._console.print(self._text(f"  {command}"), soft_wrap=True)

    def _text(self, words: str, style: str = "") -> Text:
        # Text, not str: what comes from outside must not be read as markup.
        return Text(words.translate(str.maketrans(ASCII)) if self._ascii else words, style)
