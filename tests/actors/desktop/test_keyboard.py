"""Which key types which character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.actors.desktop.errors import ActionRefusedError
from envs_node.actors.desktop.keyboard import keysym_of_character, keysyms_of_chord


@given(st.characters(min_codepoint=0x20, exclude_categories=["Cc", "Cs"]))
def test_every_printable_character_has_a_keysym_of_its_own(character: str) -> None:
    keysym = keysym_of_character(character)

    assert chr(keysym & 0xFFFFFF) == character


@pytest.mark.parametrize("character", ["\x00", "\x08", "\x1b", "\x7f", "\x9f"])
def test_a_control_character_is_refused(character: str) -> None:
    with pytest.raises(ActionRefusedError, match="control character"):
        keysym_of_character(character)


def test_names_of_keys_are_the_canonical_ones_in_any_spelling() -> None:
    assert keysyms_of_chord(("enter", "f2", "s", "Page_Down")) == [0xFF0D, 0xFFBF, 0x73, 0xFF56]


def test_a_capital_letter_counts_alone_and_not_beside_a_command_key() -> None:
    assert keysyms_of_chord(("S",)) == [ord("S")]
    assert keysyms_of_chord(("ctrl", "S")) == keysyms_of_chord(("ctrl", "s"))


def test_an_unknown_key_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ActionRefusedError, match="no key is named 'hyper'; known are ctrl"):
        keysyms_of_chord(("hyper",))
