"""Telling the controllers that this agent has started and holds nothing, until one of them has taken it in."""

from __future__ import annotations

import asyncio
import random
import uuid
from typing import Protocol

import structlog

from aca.ondemand.values import Answers, Verdict

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0

_log = structlog.get_logger(__name__)


class Teller(Protocol):
    """Who is told of the replay."""

    def expect_replay(self, request_id: str) -> None: ...

    def replay_answered(self, request_id: str) -> None: ...


class Controllers(Protocol):
    """Who is asked for it."""

    async def agent_restarted(self, request_id: str, source: bytes) -> Answers: ...


async def ask_for_replay(controllers: Controllers, engine: Teller, source: bytes) -> None:
    """Returns when a controller has answered with success. To be cancelled when it is not wanted any more.

    `source` is this host's data path address, packed.

    Refusals are tried again as well: the controller may not know this host yet. Pauses grow from 1 s to 60 s, and vary
    by half, so that the hosts of a region do not come all at once to a controller that is back.
    """
    request_id = str(uuid.uuid4())
    engine.expect_replay(request_id)
    pause = _FIRST_PAUSE_S
    while True:
        answers = await controllers.agent_restarted(request_id, source)
        verdict = answers.verdict(request_id)
        if verdict is Verdict.ROUTABLE:
            _log.info("a controller knows that this agent has started", request=request_id)
            engine.replay_answered(request_id)
            return
        why = answers.trouble or "refused" if verdict is Verdict.UNROUTABLE else answers.trouble or "no answer"
        _log.warning("no controller knows yet that this agent has started", reason=why, again_in_s=round(pause))
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(2 * pause, _LONGEST_PAUSE_S)
