"""Every outcome has one verdict, and a broken desktop is never a failure of the policy."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.actors.verifier.classify import (
    SUCCESS_MIN,
    File,
    Outcome,
    Raised,
    Request,
    classify,
)

ASKED = Request(phase="result", method="POST", path="/file", status=200, bytes=3, error="")
SOUND = Outcome(alive_before=True, alive_after=True, score=0.0, exchanges=(ASKED,))
requests = st.builds(
    Request,
    phase=st.sampled_from(["probe", "postconfig", "result", "gold", "metric"]),
    method=st.sampled_from(["GET", "POST"]),
    path=st.sampled_from(["/file", "/terminal", "/setup/activate_window", "/setup/execute"]),
    status=st.sampled_from([0, 200, 400, 404, 500, 503]),
    bytes=st.integers(0, 9),
    error=st.sampled_from(["", "refused", "ReadTimeout", "ConnectionError"]),
)
errors = st.none() | st.builds(
    Raised,
    kind=st.sampled_from(["KeyError", "SystemExit", "FileNotFoundError"]),
    text=st.text(max_size=5),
    phase=st.sampled_from(["enter", "prepare", "postconfig", "result", "gold", "metric", "score"]),
    file=st.sampled_from(["", "/c/gold.txt", "/c/a.txt"]),
)
outcomes = st.builds(
    Outcome,
    alive_before=st.booleans(),
    alive_after=st.booleans(),
    error=errors,
    score=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    exchanges=st.lists(requests, max_size=4).map(tuple),
)


def _verdict(**changes: object) -> tuple[str, str]:
    said = classify(msgspec.structs.replace(SOUND, **changes), frozenset({"gold.txt"}))
    return said.verdict, said.reason


@given(outcomes)
def test_a_score_counts_only_on_a_sound_desktop_and_without_an_exception(outcome: Outcome):
    said = classify(outcome, frozenset({"gold.txt"}))

    is_broken = any(r.status >= 500 or r.error not in ("", "refused") for r in outcome.exchanges)
    if is_broken or not (outcome.alive_before and outcome.alive_after):
        assert said.verdict == "infra"
    if said.verdict == "success":
        assert outcome.error is None
        assert outcome.score is not None
        assert outcome.score >= SUCCESS_MIN
    if said.score is not None:
        assert math.isfinite(said.score)
        assert said.verdict in ("success", "failure")
    assert said.reason or said.verdict in ("success", "failure")


@given(outcomes)
def test_the_same_outcome_has_the_same_verdict_after_a_round_trip(outcome: Outcome):
    again = msgspec.json.decode(msgspec.json.encode(outcome), type=Outcome)

    assert classify(again, frozenset()) == classify(outcome, frozenset())


@pytest.mark.parametrize(
    ("score", "verdict"),
    [(1.0, "success"), (SUCCESS_MIN, "success"), (0.99, "failure"), (-0.03, "failure")],
)
def test_partial_credit_is_never_a_success(score: float, verdict: str):
    assert _verdict(score=score) == (verdict, "")


@pytest.mark.parametrize(
    ("phase", "verdict"),
    [
        ("enter", "infra"),
        ("prepare", "checker_error"),
        ("postconfig", "infra"),
        ("result", "failure"),
        ("gold", "checker_error"),
        ("metric", "failure"),
        ("score", "failure"),
    ],
)
def test_an_exception_is_laid_at_the_door_it_came_through(phase: str, verdict: str):
    assert _verdict(error=Raised(kind="KeyError", text="x", phase=phase))[0] == verdict


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [("MemoryError", "infra"), ("ImportError", "checker_error"), ("KeyError", "failure")],
)
def test_what_this_host_lacks_is_not_the_policys_failure(kind: str, verdict: str):
    assert _verdict(error=Raised(kind=kind, text="x", phase="metric"))[0] == verdict


def test_the_closed_window_is_an_answer_and_a_refused_command_is_not():
    window = msgspec.structs.replace(
        ASKED, phase="postconfig", path="/setup/close_window", status=404
    )
    command = msgspec.structs.replace(window, path="/setup/execute")

    assert _verdict(exchanges=(window,)) == ("failure", "")
    assert _verdict(exchanges=(command,))[0] == "infra"


def test_evidence_and_exchanges_are_kept():
    said = classify(
        msgspec.structs.replace(SOUND, evidence=(File(name="a", sha256="0", bytes=1),)),
        frozenset(),
    )

    assert [(e.name, e.size_bytes) for e in said.evidence] == [("a", 1)]
    assert [(e.path, e.status) for e in said.exchanges] == [("/file", 200)]


def test_a_lost_desktop_is_infra_whatever_was_scored():
    lost = "POST /file got no answer: ReadTimeout"

    assert _verdict(score=1.0, lost=lost) == ("infra", lost)


def test_a_closed_application_is_no_fault_and_a_connection_past_the_guard_no_result():
    row = {"phase": "result", "method": "GET", "path": "/x", "status": 0, "bytes": 0}

    closed = Request(**row, error="closed")
    stray = Request(**row, error="unwatched")

    assert _verdict(score=1.0, exchanges=(closed,)) == ("success", "")
    assert _verdict(score=1.0, exchanges=(stray,))[0] == "unsupported"
