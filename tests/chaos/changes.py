"""A stream of changes that a controller tells a host, none of which concerns a guest with traffic."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

from goalstate_proto import common_pb2, neighbor_pb2
from tests.chaos.controller import Controller
from tests.chaos.world import CROWD, ROUTER, SUBNETS, crowd_nic, nic
from tests.conformance.network import Nic, Rule, State, Subnet, dhcp_state, neighbor_state, port_state, router_state
from tests.lab import LabError

END_S = 90.0
PAUSE_S = 0.02
NEIGHBORS = 200
ROUTES = "routes"

Change = tuple[str, State, bool]
"""What it is of, the state, and whether it is wanted."""


class Changes:
    """Ports of spare guests and their DHCP, neighbours, routes: they come, change and go, as the seed has it.

    A context manager: a thread tells them meanwhile. `once` can be called without it.
    """

    def __init__(self, controller: Controller, spares: Sequence[Nic], seed: int) -> None:
        self._controller = controller
        self._spares = spares
        self._random = random.Random(seed)
        self._ended = threading.Event()
        self._added: dict[str, State] = {}
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="changes", daemon=True)
        self.told = 0
        """How many changes there have been, told or not."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(END_S)
        if kind is None and self._thread.is_alive():
            raise LabError("a change is still being told")
        if kind is None and self._error is not None:
            raise self._error

    def once(self) -> None:
        """One change more, told at once."""
        self.many(1)

    def many(self, count: int) -> None:
        """So many changes more, in one message."""
        add: dict[str, State] = {}
        remove: dict[str, State] = {}
        for _ in range(count):
            for key, state, wanted in self._random.choice(self._kinds())():
                (remove if wanted else add).pop(key, None)
                (add if wanted else remove)[key] = state
        self._controller.change(add.values(), remove.values())
        self._added = {key: state for key, state in (self._added | add).items() if key not in remove}
        self.told += count

    def undo(self) -> None:
        """All that has been added is removed, and the routes are as they were."""
        gone = [state for key, state in self._added.items() if key != ROUTES]
        self._controller.change([ROUTER], gone)
        self._added.clear()

    def _work(self) -> None:
        try:
            while not self._ended.wait(PAUSE_S):
                self.once()
        except BaseException as error:
            self._error = error

    def _kinds(self) -> list[Callable[[], Iterable[Change]]]:
        return [self._port, self._no_port, self._neighbor, self._neighbor, self._no_neighbor, self._routes]

    def _port(self) -> Iterable[Change]:
        spare = self._random.choice(self._spares)
        pairs = [(spare.subnet.at(5000 + self._random.randrange(50)), "")] if self._random.random() < 0.5 else []
        yield f"port {spare.id}", port_state(spare, pairs=pairs), True
        yield f"dhcp {spare.id}", dhcp_state(spare), True

    def _no_port(self) -> Iterable[Change]:
        spare = self._random.choice(self._spares)
        yield f"dhcp {spare.id}", dhcp_state(spare), False
        yield f"port {spare.id}", port_state(spare), False

    def _neighbor(self) -> Iterable[Change]:
        some = self._some()
        yield f"neighbor {some.id}", neighbor_state(some, layer=neighbor_pb2.L3), True

    def _no_neighbor(self) -> Iterable[Change]:
        some = self._some()
        yield f"neighbor {some.id}", neighbor_state(some), False

    def _routes(self) -> Iterable[Change]:
        # A hop that is always there, and in the table's own subnet.
        hop = crowd_nic(2 * self._random.randrange(CROWD // 2)).ip
        rules = [Rule(f"10.{100 + n}.0.0/16", hop, f"rule-{n}") for n in range(self._random.randrange(4))]
        tables: list[Subnet | tuple[Subnet, Sequence[Rule]]] = [(SUBNETS[0], rules), SUBNETS[1]]
        yield ROUTES, router_state("router-chaos", tables, update_type=common_pb2.FULL), True

    def _some(self) -> Nic:
        number = self._random.randrange(NEIGHBORS)
        return nic(2000 + number, SUBNETS[number % 2], f"172.16.0.{70 + self._random.randrange(9)}")
