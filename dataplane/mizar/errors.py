"""What can go wrong between the agent and the transit daemon."""

from __future__ import annotations

from typing import Final

MEANINGS: Final = {1: "done in part or not", 2: "error", 3: "fatal", 4: "not implemented", -1: "not tried"}
ACCEPT_STATES: Final = {
    1: "the program is not there",
    2: "wrong version of the program",
    3: "no such procedure",
    4: "the arguments cannot be decoded",
    5: "the answer could not be encoded",
}
"""RFC 5531 section 9, accept_stat."""


class MizarError(Exception):
    """Any failure of a call; the message names the procedure."""


class ValueRefused(MizarError):  # noqa: N818
    """A value that must not or cannot be sent: nothing was. The message names structure, field, value and bound."""

    def __init__(self, structure: str, field: str, value: object, reason: str) -> None:
        shown = repr(value)
        if len(shown) > 80:
            shown = shown[:77] + "..."
        super().__init__(f"{structure}.{field} {shown}: {reason}")
        self.structure, self.field, self.value, self.reason = structure, field, value, reason


class CodeError(MizarError):
    """The daemon answered a code other than 0. `about`: the argument in short."""

    def __init__(self, procedure: str, code: int, about: str) -> None:
        super().__init__(f"{procedure} {about}: code {code} ({MEANINGS.get(code, 'unknown')})")
        self.procedure, self.code = procedure, code


class ReplyError(MizarError):
    """An answer came that says nothing of use: not accepted, truncated, or garbled. Whether the call was done is open
    except where the daemon said that it was not (`accept_stat` 1 to 4)."""

    def __init__(self, procedure: str, reason: str, accept_stat: int | None = None) -> None:
        super().__init__(f"{procedure}: {reason}")
        self.procedure, self.accept_stat = procedure, accept_stat


class Unanswered(MizarError):  # noqa: N818
    """No answer came. `sent`: whether the daemon may have got the call, and then whether it was done is open."""

    def __init__(self, procedure: str, reason: str, *, sent: bool) -> None:
        super().__init__(f"{procedure}: {reason}; " + ("it may have been done" if sent else "not sent"))
        self.procedure, self.reason, self.sent = procedure, reason, sent


class Lost(Unanswered):
    """The daemon cannot be reached, or is no longer the one that was: what it held may be gone."""


class Closed(Unanswered):
    """The client was closed."""


class XdrError(MizarError):
    """Bytes that are not the structure they should be."""
