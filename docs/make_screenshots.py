"""Takes `docs/pictures/<app>.png`: each application of the bundled tasks, on a real desktop.

Needs root and the applications: `python docs/make_screenshots.py`.
"""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.deploy.tasks.bundle import bundled_tasks
from envs_node.messages.tasks import Task

PICTURES = Path(__file__).with_name("pictures")
BYTES_MAX = 60 * 1024
COLOURS = (256, 128, 64, 32, 16)


def main() -> None:
    """Reset a desktop to the first task of each application and keep what it shows."""
    PICTURES.mkdir(exist_ok=True)
    with Launcher() as launcher:
        sandbox = Sandbox(launcher)
        try:
            for app, task in _first_of_each_app().items():
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
