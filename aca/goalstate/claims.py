"""Who holds an address or MAC that several resources may claim: the last to arrive; on its removal the one before."""

from __future__ import annotations

from collections.abc import Iterator

Cell = str | tuple[str, ...]
"""One claimant, or several with the holder last. Nearly all have one, and there are millions: no list for those."""


class ClaimTable:
    """Claims on items (packed addresses or MACs) by resource ids, within one subnet."""

    __slots__ = ("cells",)

    def __init__(self) -> None:
        self.cells: dict[bytes, Cell] = {}
        """For the hot paths only: `setdefault(item, id) is id` claims what nobody has claimed yet."""

    def claim(self, item: bytes, claimant: str) -> str | None:
        """Make `claimant` the holder. Returns the resource that held the item until now, if it was another."""
        cell = self.cells.setdefault(item, claimant)
        if cell is claimant or cell == claimant:
            return None
        if isinstance(cell, str):
            self.cells[item] = (cell, claimant)
            return cell
        holder = cell[-1]
        if holder == claimant:
            return None
        self.cells[item] = (*(other for other in cell if other != claimant), claimant)
        return holder

    def release(self, item: bytes, claimant: str) -> str | None:
        """Withdraw a claim (none is fine). Returns the resource that now holds the item in its place, if any."""
        cell = self.cells.get(item)
        if cell is None or (isinstance(cell, str) and cell != claimant):
            return None
        if isinstance(cell, str):
            del self.cells[item]
            return None
        if claimant not in cell:
            return None
        left = tuple(other for other in cell if other != claimant)
        self.cells[item] = left[0] if len(left) == 1 else left
        return left[-1] if cell[-1] == claimant else None

    def holder(self, item: bytes) -> str | None:
        cell = self.cells.get(item)
        return cell if cell is None or isinstance(cell, str) else cell[-1]

    def claimants(self, item: bytes) -> tuple[str, ...]:
        """All claimants, the holder last."""
        cell = self.cells.get(item)
        if cell is None:
            return ()
        return (cell,) if isinstance(cell, str) else cell

    def contested(self) -> Iterator[tuple[bytes, tuple[str, ...]]]:
        """Items with several claimants, the holder last."""
        return ((item, cell) for item, cell in self.cells.items() if not isinstance(cell, str))

    def items(self) -> Iterator[bytes]:
        return iter(self.cells)

    def all_claimants(self) -> Iterator[str]:
        """Every claimant, once for each item that it claims."""
        for cell in self.cells.values():
            if isinstance(cell, str):
                yield cell
            else:
                yield from cell

    def __contains__(self, item: bytes) -> bool:
        return item in self.cells

    def __bool__(self) -> bool:
        return bool(self.cells)
