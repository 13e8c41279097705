"""The checks of the fuzzing hold for what it starts from and, drawn by Hypothesis, near it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs_node.messages import codec
from tests.fuzz import __main__ as by_command
from tests.fuzz.__main__ import ROOT, TARGETS, Outcome
from tests.fuzz.marks import Check, shape
from tests.fuzz.seeds import KINDS, envelopes, words

MODULES = {target: importlib.import_module(f"tests.fuzz.{target}") for target in TARGETS}


@pytest.fixture(params=TARGETS, scope="module")
def opened(request: pytest.FixtureRequest) -> Iterator[tuple[list[bytes], Check]]:
    module = MODULES[request.param]
    with module.opened() as check:
        yield module.seeds(), check


@st.composite
def near(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A seed with a stretch of it replaced, and perhaps another's end."""
    data = draw(st.sampled_from(seeds))
    start = draw(st.integers(0, len(data)))
    end = draw(st.integers(start, len(data)))
    put = draw(st.binary(max_size=12) | st.sampled_from(sorted(words())))
    tail = draw(st.just(data) | st.sampled_from(seeds))
    return data[:start] + put + tail[end:]


def test_every_check_takes_what_the_fuzzing_starts_from(opened: tuple[list[bytes], Check]) -> None:
    seeds, check = opened

    seen = [list(check(data)) for data in seeds]

    assert sum(map(bool, seen)) > 0.9 * len(seen)


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_what_is_near_is_read_or_refused(
    opened: tuple[list[bytes], Check], data: st.DataObject
) -> None:
    seeds, check = opened

    list(check(data.draw(near(seeds) | st.binary(max_size=100))))


def test_there_are_two_envelopes_of_each_message_and_all_are_read() -> None:
    read = [type(codec.decode(data).message) for data in envelopes()]

    assert read == [kind for kind in KINDS for _ in range(2)]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Invalid value 'x`y' - at `$.type`", "Invalid value # - at `$.type`"),
        ('Invalid enum value "a\'b" - at c', "Invalid enum value # - at c"),
        ("it starts with b'\\xff\"'", "it starts with #"),
        ("a record of 17 bytes", "a record of # bytes"),
        ("contains unknown field `a` - at b", "contains # b"),
    ],
)
def test_what_an_input_says_makes_no_mark(said: str, kept: str) -> None:
    assert shape(said) == kept


def test_what_libfuzzer_counted_is_read() -> None:
    outcome = Outcome(target="codec", seconds=1)
    lines = [
        "INFO: seed corpus: files: 142 min: 1b max: 2009b total: 33562b rss: 47Mb",
        "#143\tINITED cov: 633 ft: 700 corp: 140/33Kb exec/s: 0 rss: 47Mb",
        "#4096\tpulse  cov: 700 ft: 859 corp: 150/31Kb lim: 481 exec/s: 1024 rss: 50Mb",
        "#8000\tDONE   cov: 701 ft: 910 corp: 151/31Kb lim: 481 exec/s: 1515 rss: 49Mb",
    ]

    by_command.read_log(outcome, lines)

    assert outcome.line() == "| codec | 1 s | 8,000 | 633 → 701 | 140 → 151 | 50 MB | none |"


def test_an_unknown_target_is_refused_by_name() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "nothing"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 2
    assert "no target nothing: choose from codec, journal, enrolment, server" in done.stderr


def test_a_cut_message_is_marked_by_why_it_is_refused() -> None:
    data = next(envelopes())

    with MODULES["codec"].opened() as check:
        assert list(check(data[:-1])) == ["not an envelope: Input data was truncated"]
