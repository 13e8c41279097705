"""Takes `docs/pictures/<app>.png`: each application, on a real desktop.

Needs root and the applications: `python docs/make_screenshots.py [APPLICATION ...]`. Those of the
bundled tasks are shown at the start of their first task, the others as they start.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

from PIL import Image

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.deploy.tasks.bundle import bundled_tasks
from envs_node.messages.base import TaskId
from envs_node.messages.tasks import Task

PICTURES = Path(__file__).with_name("pictures")
BYTES_MAX = 60 * 1024
FURTHER = {
    "galculator": "galculator", "eog": "eog", "gimp": "gimp", "vlc": "vlc",
    "thunderbird": "thunderbird", "chromium": "google-chrome",
}  # fmt: skip
COLOURS = (256, 128, 64, 32, 16)


def main() -> None:
    """Reset a desktop to the first task of each application and keep what it shows."""
    PICTURES.mkdir(exist_ok=True)
    with Launcher() as launcher:
        sandbox = Sandbox(launcher)
        try:
            for app, task in (_first_of_each_app() | _further()).items():
                if sys.argv[1:] and app not in sys.argv[1:]:
                    continue
                seen = sandbox.reset(task)
                png = sandbox.frame_png(seen.signature.frame)
                assert png is not None, "the frame was seen a moment ago"
                (PICTURES / f"{app}.png").write_bytes(_small(png))
        finally:
            sandbox.close()


def _first_of_each_app() -> dict[str, Task]:
    tasks: dict[str, Task] = {}
    for task in bundled_tasks("train", 1):
        tasks.setdefault(task.apps[0], task)
    return tasks


def _further() -> dict[str, Task]:
    return {
        app: Task(
            id=TaskId(app), instruction="", template="", split="", apps=(app,), sha256="",
            json=json.dumps(
                {"config": [{"type": "launch", "parameters": {"command": [command]}}]}
            ).encode(),
        )
        for app, command in FURTHER.items()
    }  # fmt: skip


def _small(png: bytes) -> bytes:
    """The same picture in as many colours as fit the limit."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    for colours in COLOURS:
        sink = io.BytesIO()
        picture.quantize(colours).save(sink, "PNG", optimize=True)
        if sink.tell() <= BYTES_MAX:
            break
    return sink.getvalue()


if __name__ == "__main__":
    main()
