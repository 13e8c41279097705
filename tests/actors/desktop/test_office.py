"""Office applications on desktops that start at once, and after one of them was killed."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docx
import pytest

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.messages.actions import Key, Type
from envs_node.messages.tasks import Task
from tests.fakes_desktop import open_task

pytestmark = [pytest.mark.live, pytest.mark.slow]
HOME = "/home/user"


@pytest.fixture
def sandboxes() -> Iterator[list[Sandbox]]:
    """Two desktops of one launcher: one user, and homes of one name."""
    with Launcher() as launcher:
        made = [Sandbox(launcher), Sandbox(launcher)]
        yield made
        for sandbox in made:
            sandbox.close()


def writer_task(name: str) -> Task:
    """Open a document whose only paragraph is its name."""
    document, file = docx.Document(), io.BytesIO()
    document.add_paragraph(name)
    document.save(file)
    argv = ("soffice", "--norestore", "--nologo", "--writer", f"{HOME}/{name}")
    return open_task(*argv, files={name: file.getvalue()})


def titles(sandbox: Sandbox) -> list[str]:
    return [window.title for window in sandbox.windows() if window.title]


def home(sandbox: Sandbox) -> Path:
    return Path(f"/proc/{sandbox.guest_pid}/root{HOME}")


def kill_office(sandbox: Sandbox) -> None:
    """Kill the program itself, as the host sees it."""
    space = os.readlink(f"/proc/{sandbox.guest_pid}/ns/pid")
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            is_inside = os.readlink(f"/proc/{name}/ns/pid") == space
            if is_inside and Path(f"/proc/{name}/comm").read_text().strip() == "soffice.bin":
                os.kill(int(name), signal.SIGKILL)
        except OSError:
            continue  # it has ended


def test_office_programs_that_start_at_once_each_show_their_own_document(
    sandboxes: list[Sandbox],
) -> None:
    """Row D8."""
    names = ["one.docx", "two.docx"]

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda s, name: s.reset(writer_task(name)), sandboxes, names))

    shown = [titles(sandbox) for sandbox in sandboxes]
    assert shown == [[f"{name} - LibreOffice Writer"] for name in names]


def test_an_office_program_that_was_killed_leaves_no_recovery_and_no_lock(
    sandboxes: list[Sandbox],
) -> None:
    """Row D9."""
    sandbox, task = sandboxes[0], writer_task("one.docx")
    sandbox.reset(task)
    files = sorted(os.listdir(home(sandbox)))
    sandbox.act(Type(text="lost "))
    kill_office(sandbox)

    sandbox.reset(task)

    assert titles(sandbox) == ["one.docx - LibreOffice Writer"]
    assert sorted(os.listdir(home(sandbox))) == files
    for action in (Type(text="Kept "), Key(keys=("ctrl", "s")), Key(keys=("enter",))):
        sandbox.act(action)
    saved = docx.Document(str(home(sandbox) / "one.docx"))
    assert [paragraph.text for paragraph in saved.paragraphs] == ["Kept one.docx"]
