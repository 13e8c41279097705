"""A desktop without a screen, for tests of what drives one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from envs_node.actors.desktop.errors import (
    ActionRefusedError,
    DesktopLostError,
    ForkRefusedError,
    SetupFailedError,
)
from envs_node.actors.desktop.fork.prefix import prefix_keys
from envs_node.messages.actions import Action, Type, Wait
from envs_node.messages.base import TaskId
from envs_node.messages.desktop import Observation, Signature
from envs_node.messages.tasks import Task, TaskFile


class Clone(NamedTuple):
    """What a fake desktop says when it has become a clone."""

    seen: tuple[Observation, ...]


class FakeDesktop:
    """Remembers what was typed. Refuses waits over a minute; breaks when it reads `boom`."""

    guest_pid = 4321

    def __init__(self, store: dict[str, tuple[Observation, ...]] | None = None) -> None:
        """With a store it is one that forks: those of one store are of one node."""
        self.calls: list[str] = []
        self.text = ""
        self._store = store

    @property
    def can_fork(self) -> bool:
        return self._store is not None

    def keep_fork(self, key: str, seen: tuple[Observation, ...]) -> int:
        if self._store is None or "secret" in self.text:
            raise ForkRefusedError("there is no room")
        self.calls.append("keep_fork")
        self._store[key] = seen
        return 1 << 20

    def reset_forked(self, task: Task, prefix: Sequence[Action]) -> Clone | None:
        for key in reversed(prefix_keys(task, prefix)):
            if self._store is not None and key in self._store:
                self.calls.append("reset_forked")
                seen = self._store[key]
                self.text = seen[-1].signature.frame
                return Clone(seen=seen)
        return None

    def check(self, task: Task, branch: str = "") -> None:
        if task.template == "unknown":
            raise SetupFailedError(0, "dance", "unknown type")

    def reset(self, task: Task) -> Observation:
        self.calls.append("reset")
        if task.template == "broken":
            raise SetupFailedError(1, "launch", "no new window")
        self.text = ""
        return self.observe()

    def act(self, action: Action) -> Observation:
        if isinstance(action, Wait) and action.wait_ms > 60_000:
            raise ActionRefusedError("too long a wait")
        self.calls.append(type(action).__name__)
        if isinstance(action, Type):
            if action.text == "boom":
                raise DesktopLostError("the X server is gone")
            self.text += action.text
        return self.observe()

    def observe(self) -> Observation:
        return Observation(
            width=1280, height=720, elements=(), time_ns=0,
            signature=make_signature(frame=self.text),
        )  # fmt: skip

    def frame_png(self, digest: str) -> bytes | None:
        return b"png of " + digest.encode() if digest == self.text else None

    def close(self) -> None:
        self.calls.append("close")


def make_signature(
    *, frame: str = "f", tiles: bytes = b"\0" * 400, windows: tuple[str, ...] = ("Notes",),
    focus: str = "Notes", elements: str = "e", files: str = "h", columns: int = 10,
) -> Signature:  # fmt: skip
    """A signature; what is not given is the same every time."""
    return Signature(
        frame=frame, tiles=tiles, columns=columns, windows=windows, focus=focus,
        elements=elements, files=files,
    )  # fmt: skip


def make_task(
    *steps: tuple[str, dict[str, object]], files: dict[str, bytes] | None = None,
    template: str = "t",
) -> Task:  # fmt: skip
    """A task whose set-up has these steps and whose folder has these files."""
    config = [{"type": kind, "parameters": parameters} for kind, parameters in steps]
    return Task(
        id=TaskId("t-1"), instruction="", template=template, split="train", apps=(), sha256="",
        json=json.dumps({"config": config}).encode(),
        files=tuple(
            TaskFile(name=name, sha256="", data=data) for name, data in (files or {}).items()
        ),
    )  # fmt: skip


def open_task(*argv: str, files: dict[str, bytes] | None = None) -> Task:
    """A task that uploads files to the user's home and launches a program."""
    files = files or {}
    uploads = [{"local_path": name, "path": f"/home/user/{name}"} for name in files]
    return make_task(
        ("upload_file", {"files": uploads}), ("launch", {"command": list(argv)}), files=files
    )
