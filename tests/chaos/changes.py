"""A stream of changes that a controller tells a host, none of which concerns a guest with traffic."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from goalstate_proto import common_pb2, neighbor_pb2
from tests.chaos.controller import Controller
from tests.chaos.world import SUBNETS, nic
from tests.conformance.network import Nic, Rule, dhcp_state, neighbor_state, port_state, router_state
from tests.lab import LabError

END_S = 90.0
PAUSE_S = 0.02
NEIGHBORS = 200


class Changes:
    """Ports of spare guests and their DHCP, neighbours, routes: they come, change and go, as the seed has it.

    A context manager: a thread tells them meanwhile. `once` can be called without it.
    """

    def __init__(self, controller: Controller, spares: Sequence[Nic], seed: int) -> None:
        self._controller = controller
        self._spares = spares
        self._random = random.Random(seed)
        self._ended = threading.Event()
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
        """One change more."""
        self._random.choice(self._kinds())()
        self.told += 1

    def _work(self) -> None:
        try:
            while not self._ended.wait(PAUSE_S):
                self.once()
        except BaseException as error:
            self._error = error

    def _kinds(self) -> list[Callable[[], object]]:
        return [self._port, self._no_port, self._neighbor, self._neighbor, self._no_neighbor, self._routes]

    def _port(self) -> object:
        spare = self._random.choice(self._spares)
        pairs = [(spare.subnet.at(5000 + self._random.randrange(50)), "")] if self._random.random() < 0.5 else []
        return self._controller.tell(port_state(spare, pairs=pairs), dhcp_state(spare))

    def _no_port(self) -> object:
        spare = self._random.choice(self._spares)
        return self._controller.remove(dhcp_state(spare), port_state(spare))

    def _neighbor(self) -> object:
        return self._controller.tell(neighbor_state(self._some(), layer=neighbor_pb2.L3))

    def _no_neighbor(self) -> object:
        return self._controller.remove(neighbor_state(self._some()))

    def _some(self) -> Nic:
        number = self._random.randrange(NEIGHBORS)
        return nic(2000 + number, SUBNETS[number % 2], f"172.16.0.{70 + self._random.randrange(9)}")

    def _routes(self) -> object:
        hop = self._some().ip
        rules = [Rule(f"10.{100 + n}.0.0/16", hop, f"rule-{n}") for n in range(self._random.randrange(4))]
        tables = [(SUBNETS[0], rules), SUBNETS[1]]
        return self._controller.tell(router_state("router-chaos", tables, update_type=common_pb2.FULL))
