"""Which key types which character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.actors.desktop.errors import ActionRefusedError
from envs_node.actors.desktop.keyboard import keysym_of_character, keysym_of_name


@given(st.characters(min_codepoint=0x20, exclude_categories=["Cc", "Cs"]))
def test_every_printable_character_has_a_keysym_of_its_own(character: str) -> None:
    keysym = keysym_of_character(character)

    assert chr(keysym & 0xFFFFFF) == character


@pytest.mark.parametrize("character", ["\x00", "\x08", "\x1b", "\x7f", "\x9f"])
def test_a_control_character_is_refused(character: str) -> None:
    with pytest.raises(ActionRefusedError, match="control character"):
        keysym_of_character(character)


def test_names_of_keys_are_the_canonical_ones() -> None:
    assert keysym_of_name("enter") == 0xFF0D
    assert keysym_of_name("f2") == 0xFFBF
    assert keysym_of_name("s") == ord("s")


def test_an_unknown_key_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ActionRefusedError, match="no key is named 'hyper'; known are ctrl"):
        keysym_of_name("hyper")
