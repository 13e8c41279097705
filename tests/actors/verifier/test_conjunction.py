"""What OSWorld makes of several metrics is what we believe that it does."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import envs_node.actors.verifier as verifier
from envs_node.actors.verifier.vocabulary import CheckerSource
from tests.actors.verifier.conjunction import Score, join

Ask = Callable[[dict[str, Any]], dict[str, Any]]
ZYGOTE = Path(verifier.__path__[0]) / "zygote.py"
ERRORS = {"FileNotFoundError": FileNotFoundError, "ValueError": ValueError, "KeyError": KeyError}

values = st.sampled_from([0, 0.0, -0.0, 1, 1.0, 0.5, 0.75, 7.0, -0.0267, None, True, False])
values |= st.floats(-2, 8) | st.just(0.9999999999923)
finds = st.builds(lambda value: {"value": value}, values)
finds |= st.builds(lambda name: {"raises": name}, st.sampled_from(sorted(ERRORS)))


@pytest.fixture(scope="module")
def ask(source: CheckerSource) -> Iterator[Ask]:
    """OSWorld's `evaluate`, in the checker's Python."""
    script = str(Path(__file__).with_name("osworld_evaluate.py"))
    command = [str(source.python), "-I", "-W", "ignore", script, str(ZYGOTE)]
    process = subprocess.Popen(
        [*command, ",".join(source.absent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def ask(case: dict[str, Any]) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(case) + "\n")
        process.stdin.flush()
        answer: dict[str, Any] = json.loads(process.stdout.readline())
        return answer

    yield ask
    process.communicate()


def _find(config: dict[str, Any]) -> Score:
    if "raises" in config:
        raise ERRORS[config["raises"]]
    value: Score = config["value"]
    return value


def _believed(results: Any, conjunction: str, last_action: str) -> dict[str, Any]:
    each = [partial(_find, config) for config in results] if isinstance(results, list) else None
    try:
        return {"value": join(each or partial(_find, results), conjunction, last_action)}
    except (OSError, ValueError, KeyError, TypeError, NameError) as error:
        return {"raises": type(error).__name__}


def _case(results: Any, conjunction: str, expected: bool, options: bool, last: str) -> Any:
    many = isinstance(results, list)
    count = len(results) if many else 1
    typed = [{"type": "given", **config} for config in (results if many else [results])]
    evaluator: dict[str, Any] = {"func": ["metric"] * count, "result": typed}
    if expected:
        evaluator["expected"] = [{"type": "given", "value": "gold"}] * count
    if options:
        evaluator["options"] = [{"option": 1}] * count
    if not many:
        evaluator = {key: value[0] for key, value in evaluator.items()}
    else:
        evaluator["conj"] = conjunction
    return {"evaluator": evaluator, "last_action": last}


@settings(max_examples=400, deadline=None)
@given(
    st.lists(finds, min_size=1, max_size=4) | finds,
    st.sampled_from(["and", "or"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["DONE", "DONE", "DONE", "FAIL"]),
)
@example([{"raises": "FileNotFoundError"}, {"value": 1.0}], "or", True, False, "DONE")
@example([{"value": 0.75}, {"raises": "FileNotFoundError"}], "or", False, False, "DONE")
@example([{"value": 0.75}, {"value": 1.0}], "and", True, True, "DONE")
@example([{"value": 7.0}, {"value": -0.5}], "and", False, True, "DONE")
@example([{"value": 0.5}, {"value": None}], "or", False, False, "DONE")
@example({"value": None}, "and", True, True, "DONE")
def test_osworld_joins_metrics_as_we_believe(
    ask: Ask, results, conjunction, expected, options, last
):
    osworlds = ask(_case(results, conjunction, expected, options, last))

    assert osworlds == _believed(results, conjunction, last)
