"""The desktop's own pyautogui: scripts of OSWorld's tasks make input with it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Key, Type
from tests.actors.desktop.looking import inside, shell, wait_until
from tests.fakes_desktop import open_task

pytestmark = pytest.mark.live
LINES = b"\n".join(b"line %d" % number for number in range(200))


@pytest.fixture(scope="module")
def editor(launcher: Launcher) -> Iterator[Sandbox]:
    """A desktop with an editor."""
    sandbox = Sandbox(launcher)
    sandbox.reset(open_task("mousepad", "/home/user/a.txt", files={"a.txt": LINES}))
    yield sandbox
    sandbox.close()


def run(sandbox: Sandbox, code: str) -> str:
    """What a script says that begins as OSWorld's do."""
    script = f"import pyautogui; import time; pyautogui.FAILSAFE = False; {code}"
    return shell(sandbox, f"python -c {shlex.quote(script)}")


def text_of(sandbox: Sandbox) -> str:
    """What the editor saves."""
    return inside(sandbox, "/home/user/a.txt").read_text().rstrip("\n")


def holds(sandbox: Sandbox, text: str) -> bool:
    return wait_until(lambda: text_of(sandbox) == text)


def test_text_of_any_alphabet_is_written_exactly_and_saved(editor: Sandbox) -> None:
    text = (
        "".join(map(chr, range(0x20, 0x7F)))
        + "\n\tSträße, Ελλάδα, 漢字 😀\n"
        + "".join(map(chr, range(0x430, 0x44A)))
    )

    said = run(
        editor,
        "pyautogui.hotkey('ctrl', 'a'); pyautogui.press('delete');"
        f" pyautogui.write({text!r}); pyautogui.hotkey(['ctrl', 's'])",
    )

    assert said == ""
    assert holds(editor, text), text_of(editor)


def test_the_host_types_exactly_after_a_script_has_borrowed_its_keys(editor: Sandbox) -> None:
    run(editor, "pyautogui.hotkey('ctrl', 'a'); pyautogui.write('жя')")

    editor.act(Type(text="漢ж"))
    editor.act(Key(keys=("ctrl", "s")))

    assert holds(editor, "жя漢ж"), text_of(editor)


def test_keys_are_held_and_repeated(editor: Sandbox) -> None:
    run(
        editor,
        "pyautogui.hotkey('ctrl', 'a'); pyautogui.write('abcdef'); pyautogui.press('home');"
        "pyautogui.press('right', presses=2, interval=0.01); pyautogui.keyDown('shift');"
        "pyautogui.press(['right', 'right']); pyautogui.keyUp('shift'); pyautogui.press('X');"
        "pyautogui.hotkey('ctrl', 's')",
    )

    assert holds(editor, "abXef"), text_of(editor)


def test_the_pointer_goes_clicks_drags_and_scrolls(editor: Sandbox) -> None:
    said = run(
        editor,
        "pyautogui.moveTo(100, 200); pyautogui.move(5, -5, duration=0.2);"
        "print(tuple(pyautogui.position()), tuple(pyautogui.size()), pyautogui.onScreen(9, 9999));"
        "pyautogui.rightClick(640, 400)",
    )
    menu = editor.observe()
    run(editor, "pyautogui.press('esc'); pyautogui.hotkey('ctrl', 'a'); pyautogui.write('one two')")
    run(
        editor, "pyautogui.doubleClick(12, 55); pyautogui.write('1'); pyautogui.hotkey('ctrl', 's')"
    )
    is_double = holds(editor, "1 two")
    run(
        editor,
        "pyautogui.moveTo(2, 55); pyautogui.dragTo(900, 55, duration=0.2);"
        "pyautogui.write('all'); pyautogui.hotkey('ctrl', 's')",
    )

    assert said == "(105, 195) (1280, 720) False\n"
    assert "Paste" in [element.name for element in menu.elements]
    assert is_double, text_of(editor)
    assert holds(editor, "all"), text_of(editor)


def test_a_turn_of_the_wheel_moves_the_text(editor: Sandbox) -> None:
    editor.reset(open_task("mousepad", "/home/user/a.txt", files={"a.txt": LINES}))
    run(editor, "pyautogui.moveTo(640, 400)")
    start = editor.observe()

    run(editor, "pyautogui.scroll(-5)")
    down = editor.observe()
    run(editor, "pyautogui.scroll(5)")

    assert down.signature.frame != start.signature.frame
    assert editor.observe().signature.frame == start.signature.frame


def test_what_is_not_here_says_so_and_an_unknown_key_is_passed_over_aloud(editor: Sandbox) -> None:
    assert "pyautogui.screenshot is not on this desktop" in run(editor, "pyautogui.screenshot()")
    assert run(editor, "pyautogui.press('hyper')") == "pyautogui: there is no key 'hyper'\n"


def test_the_corner_stops_a_script_that_has_not_turned_it_off(editor: Sandbox) -> None:
    said = run(
        editor, "pyautogui.moveTo(0, 0); pyautogui.FAILSAFE = True; pyautogui.press('enter')"
    )

    assert "FailSafeException" in said


def test_scripts_pause_after_each_call_unless_told_otherwise(editor: Sandbox) -> None:
    code = "a = time.monotonic(); pyautogui.moveTo(9, 9); print(time.monotonic() - a)"

    paused, not_paused = (
        float(run(editor, code)),
        float(run(editor, f"pyautogui.PAUSE = 0; {code}")),
    )

    assert paused >= 0.1 > not_paused
