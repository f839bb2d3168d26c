"""What of a partition is finished: only what has nothing unfinished before it may be committed. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Unit:
    """Records of one partition that are finished together. `after` is the offset behind the last of them."""

    after: int
    finished: bool = False


@dataclass(slots=True)
class Tracker:
    """One partition, of one assignment: another assignment has its own, so a late finish commits nothing there."""

    units: deque[Unit] = field(default_factory=deque)
    position: int | None = None
    """Offset behind the last record that was begun."""
    reached: int | None = None
    """All before this offset is finished; None if nothing is yet."""
    committed: int | None = None

    def begin(self, after: int) -> Unit:
        """Records up to `after`, which is excluded, are in hand. Offsets may have gaps; they only rise."""
        if self.position is not None and after <= self.position:
            raise ValueError(f"offset {after} does not rise above {self.position}")
        unit = Unit(after)
        self.units.append(unit)
        self.position = after
        return unit

    def finish(self, unit: Unit) -> None:
        """Idempotent; in any order."""
        unit.finished = True
        while self.units and self.units[0].finished:
            self.reached = self.units.popleft().after

    @property
    def to_commit(self) -> int | None:
        """The offset to commit, None if it is committed already."""
        return self.reached if self.reached != self.committed else None
