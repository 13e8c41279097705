"""What applications ask, offer or warn of by themselves does not come up."""

from __future__ import annotations

import io
import json
import shlex

import pytest
from PIL import Image, ImageCms

from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.deploy.tasks.documents import letter, slides, workbook
from envs_node.messages.actions import Key, Type
from envs_node.messages.desktop import Observation
from tests.actors.desktop.looking import inside, shell, wait_until
from tests.fakes_desktop import make_task, open_task

pytestmark = [pytest.mark.live, pytest.mark.slow]
CHROME = ["google-chrome", "--remote-debugging-port=1337"]
PREFERENCES = "/home/user/.config/google-chrome/Default/Preferences"
SAVE = "import pyautogui; pyautogui.FAILSAFE = False; pyautogui.hotkey('ctrl', 's')"
FOREIGN = {
    "a.docx": letter(["first", "second"]),
    "a.xlsx": workbook([["a", 1], ["b", 2]]),
    "a.pptx": slides([["title"]]),
}


def titles(sandbox: Sandbox) -> list[str]:
    """The windows that are open once the picture is still."""
    return list(sandbox.observe().signature.windows)


@pytest.mark.parametrize("name", FOREIGN)
def test_a_document_of_a_foreign_format_is_saved_without_a_question(
    sandbox: Sandbox, name: str
) -> None:
    """As 132 of OSWorld's tasks do before they are judged: by pyautogui, from within."""
    sandbox.reset(open_task("libreoffice", f"/home/user/{name}", files={name: FOREIGN[name]}))
    if name.endswith(".pptx"):
        sandbox.act(Key(keys=("ctrl", "m")))
    else:
        sandbox.act(Type(text="changed\n"))

    shell(sandbox, f"python -c {shlex.quote(SAVE)}")

    assert wait_until(lambda: inside(sandbox, f"/home/user/{name}").read_bytes() != FOREIGN[name])
    assert len(titles(sandbox)) == 1


def turned_picture() -> bytes:
    """A picture that says that it lies on its side, and whose colours are of another space."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    where = profile.index(b"rXYZ", 128)
    offset = int.from_bytes(profile[where + 4 : where + 8], "big")
    profile[offset + 8 : offset + 12] = (0x00007000).to_bytes(4, "big")
    picture, exif, sink = Image.new("RGB", (200, 100), "red"), Image.Exif(), io.BytesIO()
    exif[0x0112] = 6
    picture.save(sink, "JPEG", exif=exif, icc_profile=bytes(profile))
    return sink.getvalue()


def test_gimp_opens_a_picture_without_asking_how_it_lies_or_what_its_colours_are(
    sandbox: Sandbox,
) -> None:
    task = open_task("gimp", "/home/user/a.jpg", files={"a.jpg": turned_picture()})

    seen = sandbox.reset(task)

    assert len(seen.signature.windows) == 1
    assert seen.signature.windows[0].startswith("[a] (imported)")


def test_chrome_that_is_ended_as_osworld_does_it_has_written_its_preferences(
    sandbox: Sandbox,
) -> None:
    sandbox.reset(make_task(("launch", {"command": CHROME})))
    sandbox.act(Key(keys=("ctrl", "shift", "b")))

    assert shell(sandbox, "pkill chrome; pgrep chrome; pidof chromium") == ""

    preferences = json.loads(inside(sandbox, PREFERENCES).read_text())
    assert preferences["bookmark_bar"]["show_on_all_tabs"] is True
    assert preferences["profile"]["exit_type"] != "Crashed"


@pytest.mark.parametrize("signal", ["TERM", "KILL"])
def test_chrome_that_is_started_again_offers_nothing(sandbox: Sandbox, signal: str) -> None:
    start = sandbox.reset(make_task(("launch", {"command": CHROME})))

    again = sandbox.reset(
        make_task(
            ("launch", {"command": CHROME}),
            ("launch", {"command": ["pkill", f"-{signal}", "chrome"]}),
            ("launch", {"command": CHROME}),
        )
    )

    assert again.signature.windows == start.signature.windows
    assert told(again) == told(start)


def told(seen: Observation) -> set[tuple[str, str]]:
    """What the screen offers; after a restart the window lies some pixels elsewhere."""
    return {(element.role, element.name) for element in seen.elements}


def test_vlc_that_was_ended_starts_again_without_a_question(sandbox: Sandbox) -> None:
    vlc = {"command": "VLC_VERBOSE=-1 vlc --no-audio --no-video-title-show", "shell": True}
    pkill = {"command": ["pkill", "vlc"]}

    seen = sandbox.reset(make_task(("launch", vlc), ("launch", pkill), ("launch", vlc)))

    assert seen.signature.windows == ("VLC media player",)


def test_a_key_that_osworlds_tasks_press_opens_a_terminal(sandbox: Sandbox) -> None:
    terminal = SAVE.replace("'ctrl', 's'", "'ctrl', 'alt', 't'")

    sandbox.reset(make_task(("execute", {"command": ["python", "-c", terminal]})))

    assert wait_until(lambda: [window.title for window in sandbox.windows()] == ["Terminal"])
