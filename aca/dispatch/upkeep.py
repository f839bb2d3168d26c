"""Keeping what stands equal to what is wanted: cheap checks for drift, surveys, and the sweep of what nothing wants.

The data plane's part may take seconds and runs on a thread of its own, one job at a time; everything else here is for
the engine's thread.
"""

from __future__ import annotations

import enum
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import structlog

from aca.dispatch.completeness import Completeness
from aca.dispatch.ticket import Turn
from dataplane.base import DataPlane, DataPlaneError, Leftover, Survey
from dataplane.faults import Faults
from dataplane.model import Key

_MAX_REQUESTS = 16
_MAX_SHOWN = 1000
_FIRST_CHECK_S = 0.5
_RETRY_S = 10.0
"""After a survey or sweep that the data plane refused."""

_log = structlog.get_logger(__name__)

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class UpkeepSettings:
    """Seconds between checks and between surveys of a complete state, and the largest part of what stands that a sweep
    may take away unasked (0 to 1)."""

    check_every_s: float = 5.0
    survey_every_s: float = 3600.0
    sweep_limit: float = 0.5


class Mode(enum.Enum):
    """What an operator asks for."""

    LOOK = "look"
    REPAIR = "repair"
    FORCE = "force"
    """Sweep even if the state is not known to be complete, or if it takes away more than the limit."""


class ReconcileRefused(Exception):  # noqa: N818 - an answer, not a fault
    """It cannot be done now; the message says why."""


@dataclass(slots=True, eq=False)
class Request:
    """`document` is the answer as far as it is known; `turns` are what still puts things back."""

    mode: Mode
    future: Future[Document] = field(default_factory=Future)
    document: Document = field(default_factory=dict)
    turns: set[Turn] = field(default_factory=set)
    swept: bool = False


class Stage(enum.Enum):
    CHECK = "check"
    SURVEY = "survey"
    SWEEP = "sweep"


@dataclass(frozen=True, slots=True)
class Job:
    stage: Stage
    request: Request | None = None


@dataclass(frozen=True, slots=True)
class JobOver:
    """`result` is the survey, or how many objects were swept; `error` is why there is none."""

    job: Job
    result: Survey | int
    error: str


def why_not_sweep(survey: Survey, limit: float) -> str:
    """The guard against mass sweeps: why these leftovers are not taken away unasked, or nothing."""
    found = len(survey.leftovers)
    if found > limit * survey.standing:
        return (
            f"{found} of {survey.standing} objects would be taken away, which is more than the part allowed "
            f"({limit:g}); look at `aca reconcile --dry-run`, and allow it with `aca reconcile --force`"
        )
    return ""


class Upkeep:
    """Engine's thread only. `post` hands a finished job to that thread."""

    def __init__(
        self,
        dataplane: DataPlane,
        settings: UpkeepSettings,
        completeness: Completeness,
        faults: Faults,
        post: Callable[[JobOver], None],
    ) -> None:
        self._dataplane = dataplane
        self._settings = settings
        self._completeness = completeness
        self._faults = faults
        self._post = post
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="upkeep")
        self._job: Job | None = None
        self._requests: deque[Request] = deque()
        self._unfinished: list[Request] = []
        self._next_check = 0.0
        self._next_survey = 0.0
        self._alarm = ""
        self._drifted = 0
        self._swept = 0
        self._last: dict[str, Document] = {}

    # -- what to do next

    def ask(self, request: Request) -> None:
        """An operator's request; its future gives the answer, or ReconcileRefused."""
        if len(self._requests) >= _MAX_REQUESTS:
            request.future.set_exception(ReconcileRefused("too many requests wait already"))
        else:
            self._requests.append(request)

    def ready(self, now: float) -> None:
        """The data plane has just looked at everything; what controllers have waited to say goes first."""
        self._next_check = now + min(_FIRST_CHECK_S, self._settings.check_every_s)

    def completed(self) -> None:
        """The desired state has come to be complete: survey and sweep as soon as possible."""
        self._next_survey = 0.0

    def next_due(self) -> float | None:
        """When `start_due` has something to do (monotonic seconds)."""
        if self._job is not None:
            return None
        if self._requests:
            return 0.0
        return min(self._next_check, self._next_survey) if self._completeness.complete else self._next_check

    def start_due(self, now: float, unsettled: Callable[[], Collection[Key]]) -> None:
        """Start what is due, if nothing is in work. `unsettled` are wanted but not programmed now."""
        if self._job is not None:
            return
        if self._requests:
            request = self._requests.popleft()
            self._unfinished.append(request)
            keys = frozenset(unsettled())
            self._start(Job(Stage.SURVEY, request), lambda: self._dataplane.survey(keys))
        elif self._completeness.complete and now >= self._next_survey:
            keys = frozenset(unsettled())
            self._start(Job(Stage.SURVEY), lambda: self._dataplane.survey(keys))
        elif now >= self._next_check:
            self._start(Job(Stage.CHECK), self._dataplane.check)

    def _start(self, job: Job, work: Callable[[], Survey | int]) -> None:
        self._job = job
        self._thread.submit(self._run, job, work)

    def _run(self, job: Job, work: Callable[[], Survey | int]) -> None:
        try:
            if job.stage is not Stage.CHECK:
                self._faults.at(job.stage.value)
            result = work()
            if job.stage is Stage.SWEEP:
                self._faults.at("swept")
            self._post(JobOver(job, result, ""))
        except DataPlaneError as problem:
            self._post(JobOver(job, 0, str(problem)))
        except Exception as problem:  # a bug in a backend must not end the upkeep
            _log.exception("data plane raised", stage=job.stage.value)
            self._post(JobOver(job, 0, f"internal error: {problem!r}"))

    # -- what came of it

    def over(self, over: JobOver, now: float) -> frozenset[Key]:
        """A job is over. Returns the resources to be applied again; tell the turns that do it with `await_turns`."""
        self._job = None
        job = over.job
        self._next_check = now + self._settings.check_every_s
        if over.error:
            self._give_up(job, over.error, now)
            return frozenset()
        if isinstance(over.result, Survey):
            return self._surveyed(job, over.result, now)
        _log.info("swept what nothing wants", objects=over.result)
        self._swept += over.result
        self._last["sweep"] = {"at": time.time(), "removed": over.result}
        self._settle(job, removed=over.result)
        return frozenset()

    def _give_up(self, job: Job, error: str, now: float) -> None:
        _log.warning("reconciling failed", stage=job.stage.value, error=error)
        self._last["failure"] = {"at": time.time(), "stage": job.stage.value, "error": error}
        if job.stage is not Stage.CHECK:
            self._next_survey = max(self._next_survey, now + _RETRY_S)
        if job.request is not None:
            self._unfinished.remove(job.request)
            job.request.future.set_exception(ReconcileRefused(error))

    def _surveyed(self, job: Job, survey: Survey, now: float) -> frozenset[Key]:
        only_looked = job.request is not None and job.request.mode is Mode.LOOK
        self._note(job.stage, survey)
        if not only_looked:
            self._count_drift(survey)
        if job.stage is Stage.CHECK:
            return survey.again
        self._next_survey = now + self._settings.survey_every_s
        request = job.request
        if request is not None:
            request.document = _describe(survey)
        refusal = self._why_kept(survey, request.mode if request is not None else Mode.REPAIR)
        if survey.leftovers and not refusal and not only_looked:
            leftovers = survey.leftovers
            self._start(Job(Stage.SWEEP, request), lambda: self._dataplane.sweep(leftovers))
        else:
            self._settle(job, removed=0, kept=refusal if survey.leftovers else "")
        return frozenset() if only_looked else survey.again

    def _count_drift(self, survey: Survey) -> None:
        wrong = survey.missing + survey.altered
        if wrong:
            self._drifted += wrong
            _log.warning(
                "what stands is not what was programmed; it is put back",
                missing=survey.missing,
                altered=survey.altered,
                examples=survey.examples,
            )

    def drifted(self, resources: int) -> None:
        """The data plane has noticed by itself that something of so many resources was changed."""
        self._drifted += resources

    def _note(self, stage: Stage, survey: Survey) -> None:
        self._last[stage.value] = {
            "at": time.time(),
            "standing": survey.standing,
            "missing": survey.missing,
            "altered": survey.altered,
            **({"leftovers": len(survey.leftovers)} if stage is Stage.SURVEY else {}),
        }

    def _why_kept(self, survey: Survey, mode: Mode) -> str:
        if mode is Mode.FORCE:
            self._alarm = ""
            return ""
        if not self._completeness.complete:
            return f"the desired state is not known to be complete: {self._completeness.why_not()}"
        alarm = why_not_sweep(survey, self._settings.sweep_limit)
        if alarm and alarm != self._alarm:
            _log.error("not swept", reason=alarm)
        self._alarm = alarm
        return alarm

    def _settle(self, job: Job, *, removed: int, kept: str = "") -> None:
        request = job.request
        if request is not None:
            request.document |= {"removed": removed, "kept_because": kept}
            request.swept = True

    def await_turns(self, over: JobOver, turns: Sequence[Turn]) -> None:
        """After `over`: these turns apply what the job found to be missing."""
        request = over.job.request
        if request is not None:
            request.turns.update(turns)
            self._finish(request)

    def turn_over(self, turn: Turn) -> None:
        for request in list(self._unfinished):
            request.turns.discard(turn)
            self._finish(request)

    def _finish(self, request: Request) -> None:
        if request.swept and not request.turns and request in self._unfinished:
            self._unfinished.remove(request)
            request.future.set_result(request.document)

    # -- the end, and what people see

    def close(self) -> None:
        """Requests in hand are refused. What the data plane is doing is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        for request in (*self._requests, *self._unfinished):
            if not request.future.done():
                request.future.set_exception(ReconcileRefused("the agent is shutting down"))

    def describe(self) -> Document:
        """JSON-ready, for the status."""
        return {
            "complete": self._completeness.complete,
            "waiting": self._completeness.why_not(),
            "in_work": self._job.stage.value if self._job is not None else "",
            "alarm": self._alarm,
            "put_back": self._drifted,
            "swept": self._swept,
            "last": self._last,
        }


def _describe(survey: Survey) -> Document:
    leftovers: Sequence[Leftover] = survey.leftovers
    return {
        "standing": survey.standing,
        "missing": survey.missing,
        "altered": survey.altered,
        "examples": list(survey.examples),
        "leftovers": [leftover.name for leftover in leftovers[:_MAX_SHOWN]],
        "leftovers_total": len(leftovers),
    }
