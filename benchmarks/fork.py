"""A branch by fork, against a branch by a fresh start and a replay of the same nine steps.

Each round stands at the same state twice: once by resetting a desktop and acting nine times, and
once by a clone of a desktop that was kept there. Rounds alternate, in the same run. Then four
clones at once, and six further steps of origin and clone, frame by frame.

    python benchmarks/fork.py [--rounds 20] [--apps calc,writer,chrome,gimp] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from timing import describe

from envs_node.actors.desktop.fork.forker import Forker
from envs_node.actors.desktop.fork.prefix import prefix_keys
from envs_node.actors.desktop.fork.sandbox import ForkableSandbox
from envs_node.actors.desktop.fork.store import ForkStore
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.deploy.criu import find_criu
from envs_node.messages.actions import Action, Click, Key, Type
from envs_node.messages.base import TaskId
from envs_node.messages.desktop import Observation
from envs_node.messages.tasks import Task

OFFICE = ("libreoffice",)
STEPS: tuple[Action, ...] = (
    Type(text="7"), Key(keys=("enter",)), Type(text="hello"), Key(keys=("enter",)),
    Type(text="=1+2"), Key(keys=("enter",)), Key(keys=("ctrl", "a")), Key(keys=("ctrl", "c")),
    Key(keys=("right",)),
)  # fmt: skip
AFTER: tuple[Action, ...] = (
    Type(text="x"), Key(keys=("enter",)), Type(text="Größe"), Key(keys=("ctrl", "z")),
    Key(keys=("ctrl", "a")), Key(keys=("right",)),
)  # fmt: skip
_PAGE = ("data:text/html,<title>form</title><input id=a autofocus><textarea rows=20 cols=80>"
         "</textarea>")  # fmt: skip
_NEW_IMAGE: tuple[Action, ...] = (
    Key(keys=("ctrl", "n")), Key(keys=("enter",)), Key(keys=("ctrl", "n")), Key(keys=("enter",)),
    Key(keys=("ctrl", "i")), Key(keys=("shift", "c")), Key(keys=("p",)), Key(keys=("t",)),
    Key(keys=("x",)),
)  # fmt: skip
APPS: dict[str, tuple[tuple[str, ...], tuple[Action, ...], tuple[Action, ...]]] = {
    "mousepad": (("mousepad",), STEPS, AFTER),
    "calc": ((*OFFICE, "--calc"), STEPS, AFTER),
    "writer": ((*OFFICE, "--writer"), STEPS, AFTER),
    "chrome": (
        ("google-chrome", _PAGE),
        (Click(x=300, y=400), *STEPS[:8]), AFTER,
    ),
    "gimp": (("gimp",), _NEW_IMAGE, (*_NEW_IMAGE[4:], Key(keys=("z",)))),
    "thunderbird": (("thunderbird",), (Key(keys=("ctrl", "n")), *STEPS[:8]), AFTER),
}  # fmt: skip


class Bench:
    """One application: a desktop that replays, and one that forks."""

    def __init__(self, launcher: Launcher, store: ForkStore, app: str) -> None:
        argv, self._steps, self._after = APPS[app]
        config = [{"type": "launch", "parameters": {"command": list(argv)}}]
        self._task = Task(
            id=TaskId(app), instruction="", template=app, split="train", apps=(), sha256="",
            json=json.dumps({"config": config}).encode(),
        )  # fmt: skip
        self._store = store
        self.desktops = [ForkableSandbox(launcher, DesktopKind(), store) for _ in range(6)]

    def replay(self) -> tuple[Observation, ...]:
        """A fresh start, and every step anew."""
        desktop = self.desktops[0]
        seen = (desktop.reset(self._task),)
        return seen + tuple(desktop.act(step) for step in self._steps)

    def keep(self, seen: tuple[Observation, ...]) -> int:
        """Keep the desktop that replayed; its bytes."""
        return self.desktops[0].keep_fork(prefix_keys(self._task, self._steps)[-1], seen)

    def dump_ms(self) -> list[int]:
        """What each fork point took to write out."""
        return [point.dump.wall_ms for point in self._store.points()]

    def fork(self, number: int = 1) -> bool:
        """A clone; whether it came up and is what its origin was."""
        return self.desktops[number].reset_forked(self._task, self._steps) is not None

    def compare(self) -> int:
        """Of six further steps, how many lead origin and clone to the same frame."""
        origin, clone = self.desktops[0], self.desktops[1]
        wanted = [origin.act(step).signature.frame for step in self._after]
        return sum(
            clone.act(step).signature.frame == frame
            for step, frame in zip(self._after, wanted, strict=True)
        )

    def close(self) -> None:
        """Destroy all."""
        for desktop in self.desktops:
            desktop.close()


def measure(bench: Bench, rounds: int) -> dict[str, Any]:
    """All figures of one application."""
    replays, forks, dumps, equal, failed = [], [], [], 0, 0
    size = 0
    for number in range(rounds):
        start = time.perf_counter()
        seen = bench.replay()
        replays.append((time.perf_counter() - start) * 1000)
        if number == 0:
            size = bench.keep(seen)
            dumps = bench.dump_ms()
        start = time.perf_counter()
        ok = bench.fork()
        forks.append((time.perf_counter() - start) * 1000)
        failed += not ok
        if number == 0 and ok:
            equal = bench.compare()
    for desktop in bench.desktops[:2]:
        desktop.close()
    start = time.perf_counter()
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(bench.fork, range(2, 6)))
    return {
        "replay_ms": replays, "fork_ms": forks, "dump_ms": dumps, "bytes": size,
        "failed": failed, "equal_of_6": equal, "four_at_once": sum(together),
        "four_at_once_ms": (time.perf_counter() - start) * 1000,
        "ratio": statistics.median(replays) / statistics.median(forks),
    }  # fmt: skip


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--apps", default="calc,writer,chrome,gimp")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    criu, why = find_criu()
    if criu is None:
        sys.exit(why)
    report = {}
    with Launcher() as launcher:
        for app in options.apps.split(","):
            store = ForkStore(Forker(launcher, criu.command), bytes_max=4 << 30)
            store.is_offered = True
            bench = Bench(launcher, store, app)
            try:
                report[app] = found = measure(bench, options.rounds)
            finally:
                bench.close()
                store.close()
            if not options.json:
                sys.stdout.write(
                    f"{app}\n{describe('fresh start + 9 steps', found['replay_ms'])}\n"
                    f"{describe('fork', found['fork_ms'])}\n"
                    f"ratio {found['ratio']:.1f}, kept in {found['dump_ms']} ms and "
                    f"{found['bytes'] >> 20} MiB, {found['failed']} of {options.rounds} failed, "
                    f"{found['equal_of_6']}/6 further frames equal, "
                    f"{found['four_at_once']}/4 at once in {found['four_at_once_ms']:.0f} ms\n"
                )
                sys.stdout.flush()
    if options.json:
        sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
