"""Turns what happened during a check into a verdict. Pure: the same outcome, the same verdict."""

from __future__ import annotations

import msgspec

from envs_node.messages.verify import Evidence, Exchange, Verdict, VerdictClass

SUCCESS_MIN = 1 - 1e-6
"""OSWorld's metrics reach 1 only up to rounding: 0.9999999999923 was seen for a right answer."""
_ANSWERS_OF_POSTCONFIG = ("/setup/activate_window", "/setup/close_window")
"""Steps that a desktop may answer with 404: the window is gone, which the policy could do."""

_NO_FAULTS = ("refused", "closed", "unwatched")
"""Requests without an answer that are no fault of the desktop's: to elsewhere, to an application
that is closed, and past the guard."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request as the zygote's guard wrote it down."""

    phase: str
    method: str
    path: str
    status: int
    bytes: int
    error: str


class Raised(msgspec.Struct, frozen=True, kw_only=True):
    """An exception that ended the check."""

    kind: str
    text: str
    phase: str
    """`enter`, `prepare`, `postconfig`, `result`, `gold`, `metric` or `score`."""
    file: str = ""
    is_absent: str = "False"
    is_refused: str = "False"


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file that lay in the checker's cache."""

    name: str
    sha256: str
    bytes: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the zygote's child reported."""

    alive_before: bool
    alive_after: bool = False
    lost: str = ""
    """How the desktop failed the checker, which ended the check."""
    error: Raised | None = None
    score: float | None = None
    value: str = ""
    """Type of what the metric returned."""
    exchanges: tuple[Request, ...] = ()
    evidence: tuple[File, ...] = ()


def classify(outcome: Outcome, gold: frozenset[str]) -> Verdict:
    """Judge an outcome.

    Args:
        outcome: what the child reported.
        gold: names of the gold files in the checker's cache; an exception about one of them is the
            task's fault, not the policy's.
    """
    verdict, reason = _decide(outcome, gold)
    return Verdict(
        verdict=verdict,
        score=outcome.score if verdict in ("success", "failure") else None,
        reason=reason,
        phase=_phase(outcome),
        evidence=tuple(
            Evidence(name=f.name, sha256=f.sha256, size_bytes=f.bytes, is_gold=f.name in gold)
            for f in outcome.evidence
        ),
        exchanges=tuple(
            Exchange(
                method=r.method,
                path=r.path,
                status=r.status,
                size_bytes=r.bytes,
                error=r.error,
                phase=r.phase,
            )
            for r in outcome.exchanges
        ),
    )


_Decision = tuple[VerdictClass, str]


def _decide(outcome: Outcome, gold: frozenset[str]) -> _Decision:
    error = outcome.error
    stray = next((r.path for r in outcome.exchanges if r.error == "unwatched"), "")
    if error is not None and error.phase == "enter":
        return "infra", f"the checker could not enter the desktop: {error.kind}: {error.text}"
    broken = _broken_transport(outcome)
    if broken:
        return "infra", broken
    if stray:
        return "unsupported", f"the checker connects to {stray} past its guard"
    if error is not None:
        return _decide_error(error, gold)
    if outcome.score is None:
        return "checker_error", f"the metric returned no finite number but a {outcome.value}"
    if outcome.score >= SUCCESS_MIN:
        return "success", ""
    return "failure", ""


def _phase(outcome: Outcome) -> str:
    """In which part of the check it was decided."""
    if outcome.error is not None:
        return outcome.error.phase
    for request in outcome.exchanges:
        if _fault_of(request) or request.error == "unwatched":
            return request.phase
    if outcome.lost and outcome.exchanges:
        return outcome.exchanges[-1].phase
    return "score" if outcome.alive_before and outcome.alive_after else "probe"


def _broken_transport(outcome: Outcome) -> str:
    """Say how the desktop failed the checker; empty when every request got its answer."""
    if outcome.lost:
        return outcome.lost
    for request in outcome.exchanges:
        if fault := _fault_of(request):
            return fault
    if not outcome.alive_before:
        return "the desktop did not answer before the check"
    if not outcome.alive_after:
        return "the desktop did not answer after the check"
    return ""


def _fault_of(request: Request) -> str:
    """Say how the desktop failed this request; empty when it got its answer."""
    here = f"{request.method} {request.path}"
    if request.error and request.error not in _NO_FAULTS:
        return f"{here} got no answer: {request.error}"
    if request.status >= 500:
        return f"{here} was answered with {request.status}"
    if request.phase == "postconfig" and not _is_step_done(request):
        return f"{here}, a step before the check, was answered with {request.status}"
    return ""


def _is_step_done(request: Request) -> bool:
    is_answer = request.status == 404 and request.path in _ANSWERS_OF_POSTCONFIG
    return request.status in (0, 200) or is_answer


def _decide_error(error: Raised, gold: frozenset[str]) -> _Decision:
    said = f"checker raised {error.kind}: {error.text}"
    if error.is_absent == "True":
        return "unsupported", f"the checker needs {error.text}, which is not installed"
    if error.is_refused == "True":
        return "unsupported", f"the checker needs the network: {error.text}"
    if error.kind == "NoNumberError":
        return "checker_error", f"the metric returned no finite number but a {error.text}"
    if error.kind == "MemoryError":
        return "infra", said
    if error.kind in ("ImportError", "ModuleNotFoundError"):
        return "checker_error", said
    if error.phase == "postconfig":
        return "infra", f"a step before the check failed: {error.kind}: {error.text}"
    if error.phase in ("prepare", "gold"):
        return "checker_error", said
    if any(name and name in (error.file.rsplit("/", 1)[-1], error.file) for name in gold):
        return "checker_error", f"{said} (a gold file)"
    return "failure", said
