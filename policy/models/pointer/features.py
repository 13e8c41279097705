"""A state as numbers. One path for generated and for real screens."""

from __future__ import annotations

import msgspec

from envs_node.messages.actions import Action, Click, Finish, Key, Type
from envs_node.messages.desktop import Element
from envs_node.messages.propose import State
from envs_node.policy.models.pointer import vocabulary
from envs_node.policy.models.pointer.spans import Span, find_spans
from envs_node.policy.models.pointer.text import Word, find_phrase, split_words, trigrams

ELEMENTS_MAX = 170
HISTORY_MAX = 8
OPERATION, WORD, PAST, ELEMENT, PADDING = range(5)
"""Types of tokens."""
_ROW_PX = 12
"""Elements whose tops differ by less stand in one row."""


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """One state, token by token: [operation], words, past actions, elements."""

    types: list[int]
    grams: list[tuple[int, ...]]
    kinds: list[int]
    """Operation of a past action, kind of an element, 0 elsewhere."""
    positions: list[int]
    """Of a word in the instruction; of a past action counted from the newest, 1."""
    matches: list[int]
    """1 + the word where a past action's or element's name stands in the instruction, or 0."""
    attributes: list[tuple[float, ...]]
    """Of an element: centre and size as shares of the frame, then its states, 0 or 1."""
    same_case: list[int]
    """1 where an element's name stands in the instruction in its very spelling."""
    used: list[int]
    """1 for an element or span that a past action took."""
    spans: tuple[Span, ...]
    span_used: list[int]
    chord_matches: list[int]
    """Of each chord: 1 + the word that names it, or 0."""
    chord_used: list[int]
    elements: tuple[Element, ...]
    """In the order of their tokens."""
    first_element: int
    """Token of the first element."""


def featurize(state: State, buckets: int) -> Features:
    """Turn a state into tokens, for a model with that many trigram buckets."""
    words = split_words(state.instruction)
    spans = find_spans(state.instruction, words)
    past = state.history[-HISTORY_MAX:]
    elements = _choose_elements(state, words)
    past_texts = [_text_of(action) for action in past]
    names = {
        (a.target.role, a.target.name) for a in state.history if isinstance(a, Click) and a.target
    }
    pressed = {"+".join(action.keys) for action in state.history if isinstance(action, Key)}
    typed = {action.text for action in state.history if isinstance(action, Type)}
    flat = 1 + len(words)
    count = len(past)
    blank = (0.0,) * (4 + len(vocabulary.STATES))
    size = (max(1, state.observation.width), max(1, state.observation.height))
    texts = [""] + [word.text for word in words] + past_texts
    texts += [_shown(element) for element in elements]
    return Features(
        types=[OPERATION] + [WORD] * len(words) + [PAST] * count + [ELEMENT] * len(elements),
        grams=[trigrams(text, buckets) for text in texts],
        kinds=[0] * flat
        + [operation_of(action) for action in past]
        + [vocabulary.kind_of(element.role) for element in elements],
        positions=[0, *range(len(words))] + [count - i for i in range(count)] + [0] * len(elements),
        matches=[0] * flat
        + [1 + find_phrase(text, words) for text in past_texts]
        + [1 + find_phrase(element.name, words) for element in elements],
        same_case=[0] * (flat + count)
        + [int(bool(e.name) and e.name.rstrip(".") in state.instruction) for e in elements],
        attributes=[blank] * (flat + count) + [_attributes(e, size) for e in elements],
        used=[0] * (flat + count) + [int((e.role, e.name) in names) for e in elements],
        spans=spans,
        span_used=[int(span.text in typed) for span in spans],
        chord_matches=[1 + find_phrase(chord, words) for chord in vocabulary.CHORDS],
        chord_used=[int(chord in pressed) for chord in vocabulary.CHORDS],
        elements=elements,
        first_element=flat + count,
    )


def operation_of(action: Action) -> int:
    """Index in `OPERATIONS` of a canonical action; `OTHER` for what cannot be proposed."""
    match action:
        case Click(keys=(), button=1, count=1):
            return 0
        case Click(keys=(), button=1, count=2):
            return 1
        case Click(keys=(), button=3, count=1):
            return 2
        case Type():
            return vocabulary.TYPE
        case Key(count=1, hold_ms=0):
            return vocabulary.KEY
        case Finish():
            return vocabulary.FINISH
        case _:
            return vocabulary.OTHER


def choice_of(action: Action, features: Features) -> tuple[int, int] | None:
    """The operation and argument that say this action here; None when nothing does.

    The argument is an element's token, a span's index or a chord's index; 0 for `finish`.
    """
    operation = operation_of(action)
    argument: int | None = None
    match action:
        case Click() if operation < vocabulary.CLICKS:
            argument = _element_hit(action, features)
        case Type(text=text):
            texts = [span.text for span in features.spans]
            argument = texts.index(text) if text in texts else None
        case Key(keys=keys):
            chord = "+".join(keys)
            argument = vocabulary.CHORDS.index(chord) if chord in vocabulary.CHORDS else None
        case Finish():
            argument = 0
    return None if argument is None else (operation, argument)


def _element_hit(click: Click, features: Features) -> int | None:
    hits = [
        (element.width * element.height, index)
        for index, element in enumerate(features.elements)
        if vocabulary.is_clickable(vocabulary.kind_of(element.role))
        and element.x <= click.x < element.x + element.width
        and element.y <= click.y < element.y + element.height
        and (
            click.target is None
            or (element.role, element.name) == (click.target.role, click.target.name)
        )
    ]
    return features.first_element + min(hits)[1] if hits else None


def _choose_elements(state: State, words: tuple[Word, ...]) -> tuple[Element, ...]:
    """Drop what cannot be seen or is nameless scaffolding; keep reading order."""
    frame_width, frame_height = state.observation.width, state.observation.height
    seen = {
        element: None
        for element in state.observation.elements
        if element.width > 1
        and element.height > 1
        and 0 <= element.x < frame_width
        and 0 <= element.y < frame_height
        and (vocabulary.kind_of(element.role) or element.name)
    }
    ordered = sorted(seen, key=lambda e: (e.y // _ROW_PX, e.x, -e.width * e.height))
    if len(ordered) > ELEMENTS_MAX:
        named = [e for e in ordered if e.name and find_phrase(e.name, words) >= 0]
        kept = set((named + [e for e in ordered if e not in set(named)])[:ELEMENTS_MAX])
        ordered = [e for e in ordered if e in kept]
    return tuple(ordered)


def _shown(element: Element) -> str:
    return " ".join([element.name, *element.value[:80].split()[:4]]).strip()


def _text_of(action: Action) -> str:
    match action:
        case Click(target=target) if target is not None:
            return target.name
        case Type(text=text):
            return text
        case Key(keys=keys):
            return "+".join(keys)
        case _:
            return ""


def _attributes(element: Element, size: tuple[int, int]) -> tuple[float, ...]:
    return (
        (element.x + element.width / 2) / size[0],
        (element.y + element.height / 2) / size[1],
        element.width / size[0],
        element.height / size[1],
        *(float(state in element.states) for state in vocabulary.STATES),
    )
