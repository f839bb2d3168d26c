"""What becomes of the kernel's refusals where nobody else has a use for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dataplane.base import DataPlaneError
from dataplane.kernel.wire import KernelError


@contextmanager
def asking() -> Iterator[None]:
    """Raises DataPlaneError instead of KernelError and OSError."""
    try:
        yield
    except (OSError, KernelError) as problem:
        raise DataPlaneError(f"the kernel does not do what it is asked: {problem}") from problem
