"""Words, spans that may be typed, trigrams."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs_node.policy.models.pointer.spans import SPANS_MAX, find_spans
from envs_node.policy.models.pointer.text import (
    GRAMS,
    WORDS_MAX,
    find_phrase,
    split_words,
    trigrams,
)


@settings(deadline=None)
@given(st.text(max_size=400))
def test_words_stand_where_they_say(instruction: str) -> None:
    words = split_words(instruction)

    assert len(words) <= WORDS_MAX
    assert all(instruction[word.start : word.end] == word.text for word in words)
    assert all(one.end <= other.start for one, other in pairwise(words))


@settings(deadline=None)
@given(st.text(max_size=400))
def test_spans_are_distinct_stretches_of_the_instruction(instruction: str) -> None:
    spans = find_spans(instruction, split_words(instruction))

    assert len(spans) <= SPANS_MAX
    assert len({span.text for span in spans}) == len(spans)
    assert all(span.text in instruction for span in spans)
    assert all(span.first <= span.last for span in spans)


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        ("Put 'two old kettles' below", "two old kettles"),
        ('Put "a, b: c!" below', "a, b: c!"),
        ("Put \u2018one\u2019 below", "one"),
        ("Record 12.5 in C4, then save", "12.5"),
        ("Record 12.5 in C4, then save", "C4"),
        ("Name it tea_3.log.", "tea_3.log"),
        ("Run 'knit -p a.dat > b.dat' there", "knit -p a.dat > b.dat"),
        ("Write warm green ladle here", "warm green ladle"),
    ],
)
def test_what_is_to_be_typed_is_among_the_spans(instruction: str, text: str) -> None:
    assert text in [span.text for span in find_spans(instruction, split_words(instruction))]


def test_a_menu_item_is_found_with_and_without_its_ellipsis() -> None:
    words = split_words("Go through Lyre > Old Harp..., then stop")

    assert find_phrase("Old Harp...", words) == find_phrase("old harp", words) == 4
    assert find_phrase("Harp Lyre", words) == -1
    assert find_phrase("", words) == -1


@settings(deadline=None)
@given(st.text(max_size=100), st.integers(16, 4096))
def test_trigrams_are_padded_buckets(text: str, buckets: int) -> None:
    grams = trigrams(text, buckets)

    assert len(grams) == GRAMS
    assert all(0 <= gram <= buckets for gram in grams)
