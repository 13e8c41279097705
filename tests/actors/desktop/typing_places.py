"""Where text is typed, and how it is read back from the application that took it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, islice

import msgspec

from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Key, Type
from tests.actors.desktop.looking import inside, shell, wait_until
from tests.fakes_desktop import open_task

ASCII = "".join(map(chr, range(0x20, 0x7F)))
TRAPS = 'if a<b && c>d {x|y} "q" \\ ~ ^ ` <html> 998. żółw / 北京天气 / naïve — “q” €5 ñ'
SCRIPTS = (
    "שלום עולם", "مرحبا بالعالم", "e\u0301a\u0308o\u0302n\u0303",
    "👩\u200d👩\u200d👧 🏳\ufe0f\u200d🌈 😀🎉",
    "Съешь ещё", "かな カナ", "한글", "ไทย", "हिन्दी",
)  # fmt: skip
_RANGES = ((0xC0, 0x250), (0x391, 0x3CA), (0x410, 0x450), (0x3041, 0x3091), (0x4E00, 0x4E80))


def distinct(number: int) -> str:
    """So many different characters that no key of a US keyboard has."""
    letters = (chr(code) for start, end in _RANGES for code in range(start, end))
    return "".join(islice((letter for letter in letters if letter.isalpha()), number))


def whole_set() -> str:
    """Every kind of text, on lines that no terminal cuts."""
    return "\n".join(["A" + ASCII, TRAPS, *SCRIPTS, distinct(300)])


def long_text() -> str:
    """5,000 characters on lines."""
    words = "The quick brown fox über die Straße прыгает через 你好, 42 times; "
    line = "".join(islice(cycle(words), 99))
    return "\n".join([line] * 50)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """An application, and how text is typed into it afresh and read back."""

    argv: tuple[str, ...]
    program: str
    """The process that reads the keyboard."""
    read: Callable[[Sandbox], str]
    prepare: Callable[[Sandbox], None] = lambda sandbox: None
    """Empty what was typed before and put the caret there."""
    has_lines: bool = True
    files: tuple[tuple[str, bytes], ...] = ()

    def shows(self, text: str) -> str:
        """The text as it fits: a cell has one line."""
        return text if self.has_lines else text.replace("\n", " ")


def open_place(sandbox: Sandbox, name: str) -> Place:
    """Start over with an application."""
    place = PLACES[name]
    sandbox.reset(open_task(*place.argv, files=dict(place.files)))
    return place


def type_into(sandbox: Sandbox, place: Place, text: str) -> str:
    """Type a text into an application; returns what it then has."""
    place.prepare(sandbox)
    sandbox.act(Type(text=place.shows(text)))
    return place.read(sandbox).removesuffix("\n")


def clipboard(sandbox: Sandbox) -> str:
    """What an application has copied, as soon as it has."""
    copied = ""

    def is_there() -> bool:
        nonlocal copied
        copied = shell(sandbox, "xclip -selection clipboard -o -t UTF8_STRING")
        return not copied.startswith("Error: target")

    assert wait_until(is_there), copied
    return copied


def press(sandbox: Sandbox, *keys: str) -> None:
    """Press a chord, and wait until the application has done what it does over it; do not look."""
    inner = sandbox._living().input
    inner.perform(Key(keys=keys))
    inner._delivery.wait_rested()


def _save_notes(sandbox: Sandbox) -> str:
    saved = inside(sandbox, "/home/user/notes.txt")
    before = saved.stat().st_mtime_ns
    sandbox.act(Key(keys=("ctrl", "s")))
    assert wait_until(lambda: saved.stat().st_mtime_ns != before)
    return saved.read_text()


def _clear(sandbox: Sandbox) -> None:
    press(sandbox, "ctrl", "a")
    press(sandbox, "delete")


def _search(sandbox: Sandbox) -> None:
    sandbox.act(Key(keys=("ctrl", "k")))
    _clear(sandbox)


def _copy_all(sandbox: Sandbox) -> str:
    press(sandbox, "ctrl", "a")
    sandbox.act(Key(keys=("ctrl", "c")))
    return clipboard(sandbox)


def _start_cat(sandbox: Sandbox) -> None:
    sandbox.act(Type(text="cat > notes.txt\n"))


def _end_cat(sandbox: Sandbox) -> str:
    sandbox.act(Key(keys=("enter",)))
    sandbox.act(Key(keys=("ctrl", "d")))
    return inside(sandbox, "/home/user/notes.txt").read_text()


def _to_first_cell(sandbox: Sandbox) -> None:
    press(sandbox, "escape")
    press(sandbox, "ctrl", "home")
    press(sandbox, "delete")


def _copy_cell(sandbox: Sandbox) -> str:
    press(sandbox, "enter")
    press(sandbox, "ctrl", "home")
    sandbox.act(Key(keys=("ctrl", "c")))
    return clipboard(sandbox)


def _empty_sheet(sandbox: Sandbox) -> None:
    press(sandbox, "ctrl", "a")
    press(sandbox, "delete")
    press(sandbox, "ctrl", "home")


def _copy_sheet(sandbox: Sandbox) -> str:
    press(sandbox, "ctrl", "home")
    press(sandbox, "ctrl", "shift", "end")
    sandbox.act(Key(keys=("ctrl", "c")))
    return clipboard(sandbox)


_OFFICE = ("libreoffice",)
_PAGE = (
    b"<!doctype html><meta charset=utf-8><title>Page</title><textarea autofocus rows=20 cols=80>"
)
_NOTES = (("notes.txt", b""),)
PLACES = {
    "mousepad": Place(
        argv=("mousepad", "/home/user/notes.txt"), program="mousepad", files=_NOTES,
        prepare=_clear, read=_save_notes,
    ),
    "xterm": Place(argv=("xterm",), program="xterm", prepare=_start_cat, read=_end_cat),
    "gedit": Place(
        argv=("gedit", "/home/user/notes.txt"), program="gedit", files=_NOTES,
        prepare=_clear, read=_save_notes,
    ),
    "writer": Place(
        argv=(*_OFFICE, "--writer"), program="soffice.bin", prepare=_clear, read=_copy_all
    ),
    "calc": Place(
        argv=(*_OFFICE, "--calc"), program="soffice.bin", has_lines=False,
        prepare=_to_first_cell, read=_copy_cell,
    ),
    "cells": Place(
        argv=(*_OFFICE, "--calc"), program="soffice.bin",
        prepare=_empty_sheet, read=_copy_sheet,
    ),
    "chromium": Place(
        argv=("google-chrome", "file:///home/user/page.html"), program="chromium",
        files=(("page.html", _PAGE),), prepare=_clear, read=_copy_all,
    ),
    "thunderbird": Place(
        argv=("/usr/bin/thunderbird",), program="thunderbird", has_lines=False,
        prepare=_search, read=_copy_all,
    ),
}  # fmt: skip
