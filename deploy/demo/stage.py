"""The demonstration itself, step by step, on a lab; what was expected and did not happen is collected."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from deploy.demo.adapt import Plan
from deploy.demo.intent import HOSTS, Network, PlannedGuest
from deploy.demo.planes import Plane, first_hosts, in_words
from deploy.demo.probes import Matrix, ping_matrix, take_lease, trace_route
from deploy.demo.show import Outcomes, Show
from tests.lab import AgentProcess, Guest, GuestSpec, Host, Lab, LabError

REPOSITORY = Path(__file__).resolve().parents[2]
PUSH_TIMEOUT_S = 60.0
STATUS_TIMEOUT_S = 20.0


def aca_command() -> list[str]:
    """How `aca` is called here: the console command beside this Python, or its module."""
    script = Path(sys.executable).parent / "aca"
    return [str(script)] if script.exists() else [sys.executable, "-m", "aca.cli"]


class Stage:
    """One run on an open lab. `failures` has, in words, each expectation that was not met; `met` counts the others."""

    def __init__(self, lab: Lab, plan: Plan, planes: Mapping[str, Plane], console: Console, show: Show) -> None:
        self.failures: list[str] = []
        self.met = 0
        self._lab = lab
        self._network = plan.network
        self._refused = plan.refused
        self._planes = planes
        self._console = console
        self._show = show
        self._hosts: dict[str, Host] = {}
        self._agents: dict[str, AgentProcess] = {}
        self._guests: dict[str, Guest] = {}

    def play(self) -> None:
        """All steps. Raises LabError, CommandError (both kinds), ValueError if one cannot be done at all."""
        self._start_hosts()
        self._plug_guests()
        self._show.title("The network that is wanted")
        self._show.picture({name: host.underlay_ip for name, host in self._hosts.items()})
        self._refuse()
        self._push()
        self._stand()
        for planned in self._network.guests:
            if planned.by_dhcp:
                self._lease(planned)
        self._ping()
        self._trace()
        self._status()

    def commands(self) -> list[tuple[str, str]]:
        """What to type to go on with a lab that is kept: (what for, command)."""
        aca = " ".join(aca_command())
        host = HOSTS[0]
        agent = self._agents[host]
        file = self._network.files[host][0]
        entries = [
            (f"enter guest {g.name} ({g.ip} on {g.host})", f"ip netns exec {self._guests[g.name].namespace.name} bash")
            for g in self._network.guests
        ]
        return [
            *entries,
            (f"enter host {host}", f"ip netns exec {self._hosts[host].namespace.name} bash"),
            ("what an agent has and waits for", f"{aca} status --socket {self._hosts[host].admin_socket}"),
            ("push a goal state", f"{aca} push --to {agent.target} {file}"),
            *(
                entry
                for name in first_hosts(self._planes)
                for entry in self._planes[name].commands(self._hosts[name])
            ),
            ("the agents' logs", " ".join(str(a.log) for a in self._agents.values())),
            ("remove it (without the name: all that were kept)", f"deploy/demo.sh --clean {self._lab.prefix}"),
        ]

    # -- steps

    def _start_hosts(self) -> None:
        with self._step(in_words(self._planes)):
            for name in HOSTS:
                self._hosts[name] = self._lab.host(name, dataplane=self._planes[name].name)
            for name, host in self._hosts.items():
                self._agents[name] = host.agent()
            for agent in self._agents.values():
                agent.wait_ready()

    def _plug_guests(self) -> None:
        with self._step(f"{len(self._network.guests)} guests, each a namespace on a tap device"):
            for name, host in self._hosts.items():
                planned = self._network.guests_on(name)
                made = host.guests([spec_of(guest) for guest in planned])
                self._guests |= {guest.name: running for guest, running in zip(planned, made, strict=True)}

    def _refuse(self) -> None:
        """Hosts that are asked for more than their data plane can do say so."""
        if not self._refused:
            return
        self._show.title("What a data plane cannot do it says")
        for host, files in self._refused.items():
            self._show_push(host, list(files))
            with self._working("pushing"):
                outcomes = self._push_to(host, list(files))
            self._show.refusals(outcomes)
            self._expect(outcomes.exit_status == 1, f"{host}: aca push ended with {outcomes.exit_status}, not 1")
            for subnet in frozenset[str]().union(*files.values()):
                entry = outcomes.resources.get(("SUBNET", subnet), {"status": "no answer", "reason": ""})
                good = entry["status"] == "INVALID_ARG" and "network_type" in entry["reason"]
                self._expect(good, f"{host}: SUBNET {subnet} is {entry['status']} {entry['reason']}, not INVALID_ARG")
        self._show.line("So everything goes over VXLAN here. What else netlink cannot do: docs/netlink.md")

    def _push(self) -> None:
        self._show.title("Goal states pushed, as a controller does")
        for host in HOSTS:
            self._show_push(host, self._network.files[host])
        with self._working("pushing"), ThreadPoolExecutor(len(HOSTS)) as pool:
            pushed = list(pool.map(lambda host: self._push_to(host, self._network.files[host]), HOSTS))
        self._show.outcomes(pushed)
        for outcomes in pushed:
            self._judge_outcomes(outcomes)

    def _show_push(self, host: str, files: Sequence[Path]) -> None:
        self._show.line(f"$ aca push --to {self._agents[host].target} {' '.join(path.name for path in files)}", "bold")

    def _push_to(self, host: str, files: Sequence[Path]) -> Outcomes:
        argv = [*aca_command(), "push", "--json", "--to", self._agents[host].target, *map(str, files)]
        done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=PUSH_TIMEOUT_S, check=False)
        try:
            return Outcomes.parse(host, done.stdout, done.returncode)
        except ValueError:
            raise LabError(f"{' '.join(argv)}: exit status {done.returncode}\n{done.stderr}") from None

    def _judge_outcomes(self, outcomes: Outcomes) -> None:
        resources = outcomes.resources
        for key in sorted(self._network.resources[outcomes.host] | resources.keys()):
            status = resources[key]["status"] if key in resources else "no answer"
            name = self._network.names.get(key) or key[1]
            self._expect(status == "SUCCESS", f"{outcomes.host}: {key[0]} {name} is {status}")
        self._expect(outcomes.exit_status == 0, f"{outcomes.host}: aca push ended with {outcomes.exit_status}")

    def _stand(self) -> None:
        self._show.title("What stands on the hosts now")
        for name, host in self._hosts.items():
            things = self._planes[name].standing(host, self._network)
            self._show.standing(name, things)
            for thing in things:
                self._expect(thing.expected, f"{name}: {thing.words}: not for {', '.join(thing.missing)}")

    def _lease(self, planned: PlannedGuest) -> None:
        self._show.title(f"{planned.name} asks for its address by DHCP")
        with self._working("waiting for a lease"):
            lease = take_lease(planned, self._guests[planned.name])
        self._show.lease(lease)
        got = lease.address or "no address"
        self._expect(lease.expected, f"{planned.name} has {got} by DHCP, not {planned.ip}")

    def _ping(self) -> None:
        self._show.title("Everyone pings everyone")
        with self._working("pinging"):
            matrix = ping_matrix([(planned, self._guests[planned.name]) for planned in self._network.guests])
        self._show.matrix(matrix)
        self._judge_matrix(matrix)

    def _judge_matrix(self, matrix: Matrix) -> None:
        for pair in matrix.pairs.values():
            verb = "must reach" if pair.source.must_reach(pair.target) else "must not reach"
            seen = ", ".join(sorted(pair.seen_by)) or "nobody"
            self._expect(
                pair.expected,
                f"{pair.source.name} {verb} {pair.target.name} ({pair.target.ip}): {pair.ping.received} of"
                f" {pair.ping.sent} pings answered, requests seen by {seen}",
            )
        for gateway in matrix.gateways.values():
            words = f"{gateway.source.name} must reach its gateway {gateway.source.subnet.gateway}"
            self._expect(gateway.expected, words)

    def _trace(self) -> None:
        ends = routed_pair(self._network)
        if ends is None:
            return
        source, target = ends
        self._show.title(f"The route from {source.name} on {source.host} to {target.name} on {target.host}")
        self._show.line(f"$ traceroute -n {target.ip}", "bold")
        with self._working("tracing"):
            route = trace_route(source, self._guests[source.name], target)
        self._show.route(route)
        wanted = f"{source.subnet.gateway}, {target.ip}"
        got = ", ".join(address for address, _ in route.hops)
        self._expect(route.expected, f"the route to {target.name} is {got}, not {wanted}")

    def _status(self) -> None:
        for host in first_hosts(self._planes):
            self._show.title(f"What the agent of {host} says")
            socket = str(self._hosts[host].admin_socket)
            self._show.line(f"$ aca status --socket {socket}", "bold")
            # Its own colours and width, so straight to our output.
            sys.stdout.flush()
            argv = [*aca_command(), "status", "--socket", socket]
            done = subprocess.run(argv, cwd=REPOSITORY, timeout=STATUS_TIMEOUT_S, check=False)
            self._expect(done.returncode == 0, f"{host}: aca status ended with {done.returncode}")
        for name, agent in self._agents.items():
            status = agent.status()
            for problem in status["problems"]:
                words = f"{name}: {problem['kind']} {problem['id']}: {problem['status']} {problem['reason']}"
                self._expect(False, words)
            self._expect(status["problems_total"] == 0, f"{name}: {status['problems_total']} problems in its status")

    # -- how steps are told

    def _expect(self, met: bool, failure: str) -> None:
        if met:
            self.met += 1
        else:
            self.failures.append(failure)

    @contextmanager
    def _step(self, what: str) -> Iterator[None]:
        begin = time.monotonic()
        with self._working(what):
            yield
        self._show.line(f"{time.monotonic() - begin:5.1f} s  {what}")

    @contextmanager
    def _working(self, what: str) -> Iterator[None]:
        if not self._console.is_terminal:
            yield
            return
        with self._console.status(what):
            yield


def spec_of(guest: PlannedGuest) -> GuestSpec:
    """The guest as the lab makes it; one that is to ask for its address begins without."""
    if guest.by_dhcp:
        return GuestSpec(guest.port_id, guest.mac, ())
    return GuestSpec(guest.port_id, guest.mac, (f"{guest.ip}/{guest.subnet.prefix_length}",), guest.subnet.gateway)


def routed_pair(network: Network) -> tuple[PlannedGuest, PlannedGuest] | None:
    """Two guests on different hosts that a router joins; None if there are none."""
    return next(
        (
            (source, target)
            for source in network.guests
            for target in network.guests
            if source.must_reach(target) and source.subnet != target.subnet and source.host != target.host
        ),
        None,
    )
