"""How late applications repaint, and what a quiet window misses: 40 actions each, watched on.

    python benchmarks/settling.py mousepad calc chromium --actions 40

After each action the picture and the programs' processor time are recorded for 3 s. The wait of
`actors/desktop/settle.py` is then played on the record with several quiet windows: what changes
after it would have ended was missed.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import sys
import time

from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.session import Session
from envs_node.actors.desktop.settle import Settling, Work
from envs_node.messages.actions import Action, Click, Key, Scroll, Type
from envs_node.messages.desktop import Observation
from envs_node.messages.tasks import Task
from tests.fakes_desktop import open_task

WATCH_S, SAMPLE_S = 3.0, 0.004
WINDOWS_MS = (60, 100, 150, 250, 400, 650, 800, 1000)
NOTES = b"alpha\nbravo charlie\n" * 20
OFFICE = ("soffice", "--norestore", "--nologo")
WARPED = (
    "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1 FAKETIME_DISABLE_SHM=1"
    " FAKETIME=\"@$(date '+%Y-%m-%d %H:%M:%S') x4\" exec soffice --norestore --nologo {}"
)
"""LibreOffice with a clock that starts at the right time and runs four times as fast."""
LAUNCHES: dict[str, tuple[str, ...]] = {
    "mousepad": ("mousepad", "/home/user/notes.txt"),
    "gedit": ("gedit", "/home/user/notes.txt"),
    "gnome-text-editor": ("gnome-text-editor", "/home/user/notes.txt"),
    "thunar": ("thunar", "/home/user"),
    "xterm": ("xterm",),
    "galculator": ("galculator",),
    "eog": ("eog", "/usr/share/pixmaps/debian-logo.png"),
    "gimp": ("gimp", "--no-splash"),
    "vlc": ("vlc",),
    "thunderbird": ("thunderbird",),
    "chromium": ("google-chrome",),
    "calc": (*OFFICE, "--calc"),
    "writer": (*OFFICE, "--writer", "/home/user/notes.txt"),
    "impress": (*OFFICE, "--impress"),
    "calc-x4": ("sh", "-c", WARPED.format("--calc")),
    "writer-x4": ("sh", "-c", WARPED.format("--writer /home/user/notes.txt")),
}
_AWAY = ("close", "quit", "exit", "minimi", "print", "open", "save", "new window")
_KEYS = (("tab",), ("down",), ("right",), ("esc",), ("ctrl", "a"), ("pagedown",), ("alt", "f"))

Sample = tuple[float, str, float, bool]
"""Time in ms, digest of the picture, processor time used in ms, whether a program runs."""


def choose(seen: Observation, chance: random.Random) -> Action:
    """Something that is likely to have an effect, drawn from what is on the screen."""
    usable = [
        element for element in seen.elements
        if element.role not in ("frame", "label", "dialog", "terminal")
        and not any(word in element.name.lower() for word in _AWAY)
    ]  # fmt: skip
    draw = chance.random() if usable else 0.55 + 0.45 * chance.random()
    top = next(iter(reversed(seen.windows)), None)
    if draw < 0.55:
        element = chance.choice(usable)
        return Click(x=element.x + element.width // 2, y=element.y + element.height // 2)
    if draw < 0.65:
        if top is None:
            return Click(x=chance.randrange(seen.width), y=chance.randrange(seen.height))
        x, y = top.x + chance.randrange(top.width), top.y + chance.randrange(top.height)
        return Click(x=min(max(x, 0), seen.width - 1), y=min(max(y, 0), seen.height - 1))
    if draw < 0.75:
        return Type(text=chance.choice(("hello", "7", "ls ", "word and word ")))
    if draw < 0.85:
        return Scroll(x=seen.width // 2, y=seen.height // 2, dy=chance.choice((-3, 3)))
    return Key(keys=chance.choice(_KEYS))


def watch(sandbox: Sandbox, action: Action) -> list[Sample]:
    """Perform an action and record what follows."""
    session = sandbox._living()
    session.input.perform(action)
    start_s, samples = time.monotonic(), []
    while (now_s := time.monotonic() - start_s) < WATCH_S:
        used_ms, is_running = session.work()
        samples.append((now_s * 1000, session.screen.digest(), used_ms, is_running))
        time.sleep(SAMPLE_S)
    return samples


def has_tooltip(session: Session) -> bool:
    """Whether a tooltip shows: it comes half a second after the pointer has come to rest."""
    connection = session.connection
    kind = connection._atom("_NET_WM_WINDOW_TYPE_TOOLTIP")
    for window in connection.root.query_tree().children:
        kinds = connection._property(window, "_NET_WM_WINDOW_TYPE") or ()
        if kind in tuple(kinds) and window.get_attributes().map_state:
            return True
    return False


def changes_ms(samples: list[Sample]) -> list[float]:
    """When the picture changed."""
    return [now[0] for before, now in itertools.pairwise(samples) if now[1] != before[1]]


def settle(samples: list[Sample], quiet_ms: float, *, is_guarded: bool) -> Sample:
    """The sample at which a wait with this window would have ended."""
    settling = Settling(samples[0][0], samples[0][1], samples[0][2])
    for sample in samples:
        now_ms, frame, used_ms, is_running = sample

        def work(told: Work = (used_ms, is_running)) -> Work:
            return told if is_guarded else (0.0, False)

        settling.see(now_ms, frame, work)
        if settling.is_still(now_ms, quiet_ms, work):
            return sample
    return samples[-1]


def report(name: str, traces: list[list[Sample]], classes: set[str], tooltips: int) -> None:
    """Print what was seen of one application."""
    moved = [changes for samples in traces if (changes := changes_ms(samples))]
    last = sorted(changes[-1] for changes in moved) or [0.0]
    gaps = [
        after - before
        for changes in moved for before, after in zip([0.0, *changes], changes, strict=False)
    ]  # fmt: skip
    say = sys.stdout.write
    say(f"{name}: {len(traces)} actions, {len(moved)} effective; classes {sorted(classes)}\n")
    say(f"  {tooltips} actions were followed by a tooltip, and are left out\n")
    say(
        f"  last change med/p90/max {statistics.median(last):.0f}/{last[int(0.9 * len(last))]:.0f}"
        f"/{last[-1]:.0f} ms; largest gaps {[round(gap) for gap in sorted(gaps)[-4:]]} ms\n"
    )
    for is_guarded in (False, True):
        missed = {
            window: sum(
                settle(samples, window, is_guarded=is_guarded)[1] != samples[-1][1]
                for samples in traces
            )
            for window in WINDOWS_MS
        }
        guard = "with" if is_guarded else "without"
        say(f"  late changes missed, {guard} the guard: {missed}\n")
    sys.stdout.flush()


def main() -> None:
    """Drive each application and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=LAUNCHES)
    parser.add_argument("--actions", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tell-ms", type=int, default=400, help="tell of later changes")
    options = parser.parse_args()
    with Launcher() as launcher:
        for name in options.names:
            sandbox = Sandbox(launcher, DesktopKind())
            task: Task = open_task(*LAUNCHES[name], files={"notes.txt": NOTES})
            chance = random.Random(options.seed)
            traces, classes, tooltips = [], set(), 0
            seen = sandbox.reset(task)
            for _ in range(options.actions):
                if not sandbox.windows():  # something has closed it
                    seen = sandbox.reset(task)
                action = choose(seen, chance)
                trace = watch(sandbox, action)
                if has_tooltip(sandbox._living()):
                    tooltips += 1
                    seen = sandbox.observe()
                    continue
                traces.append(trace)
                if len(late := changes_ms(trace)) and max(late) > options.tell_ms:
                    sys.stdout.write(f"  {action} at {list(map(round, late))[-5:]}\n")
                seen = sandbox.observe()
                classes |= {window.app_class for window in sandbox.windows()}
            report(name, traces, classes, tooltips)
            sandbox.close()


if __name__ == "__main__":
    main()
