"""Every spelling of a key that models use is one key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.messages.keys import KEYSYMS, UnknownKeyError, canonical_key, parse_chord

SPELLINGS = {
    "pagedown": "pagedown page_down PgDn Next Page-Down XK_Next PAGEDOWN",
    "pageup": "pageup page_up PgUp Prior",
    "esc": "esc escape Escape ESC",
    "enter": "return enter Return RETURN",
    "delete": "del delete Delete",
    "super": "win super meta cmd command windows Super_L",
    "alt": "option alt Alt_L altleft",
    "ctrl": "ctrl_l ctrl control Control_L ctrlleft CTRL",
    "left": "ArrowLeft left Left leftarrow",
    "kp_enter": "kp_enter KP_Enter NumpadEnter",
    "space": "space spacebar",
    "backspace": "BackSpace bksp backspace",
    "printscreen": "Print prtsc printscreen",
    "f11": "F11 f11",
    "+": "plus +",
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_all_spellings_of_a_key_are_one(name: str) -> None:
    assert {canonical_key(spelling) for spelling in SPELLINGS[name].split()} == {name}


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("ctrl c", ("ctrl", "c")),
        ("ctrl+c", ("ctrl", "c")),
        ("CTRL-C", ("ctrl", "c")),
        ("ctrl + shift + S", ("ctrl", "shift", "s")),
        ("+", ("+",)),
        ("-", ("-",)),
        (" ", ("space",)),
        ("ctrl++", ("ctrl", "+")),
        ("ctrl+-", ("ctrl", "-")),
        ("ctrl +", ("ctrl", "+")),
        ("Page Down", ("pagedown",)),
        ("ctrl page down", ("ctrl", "pagedown")),
        ("ctrl+Page_Down", ("ctrl", "pagedown")),
        ("S", ("S",)),
        ("shift+s", ("shift", "s")),
        ("alt-F4", ("alt", "f4")),
    ],
)
def test_a_chord_is_read_however_it_is_written(text: str, keys: tuple[str, ...]) -> None:
    assert parse_chord(text) == keys


@pytest.mark.parametrize("text", ["", "hyper", "ctrl+hyper", "page", "ctrl+pagedn+bogus"])
def test_an_unknown_key_is_refused_by_name(text: str) -> None:
    with pytest.raises(UnknownKeyError, match="no key is named"):
        parse_chord(text)


@given(st.lists(st.sampled_from(sorted(KEYSYMS)), min_size=1, max_size=4))
def test_a_chord_of_canonical_names_reads_back(keys: list[str]) -> None:
    assert parse_chord("+".join(keys)) == tuple(keys)


@given(st.text(max_size=20))
def test_any_text_is_a_chord_or_is_refused(text: str) -> None:
    try:
        keys = parse_chord(text)
    except UnknownKeyError:
        return

    assert all(len(key) == 1 or key in KEYSYMS for key in keys)
