"""Fidelity: do two fresh desktops, and three clones of one, show the same after the same actions?

For each application one desktop goes through a script (`fidelity_scripts.py`) until so many of its
actions have changed something; the others do not count. Half-way it is forked. A second fresh
desktop takes the same actions, three clones those after the fork, and each state that they come to
is compared with that of the first (`policy/compare.py`). What diverges is listed with its cause.

    PYTHONPATH=. python benchmarks/fidelity.py [--apps calc,gimp] [--json] [--folder DIR] [--anew]

Each application's figures are kept in a file of the folder, and not measured again unless asked to.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from desktops import quiet_logs
from fidelity_scripts import SCRIPTS, Script, aim
from timing import machine

from envs_node.actors.desktop.errors import ActionRefusedError, ForkRefusedError
from envs_node.actors.desktop.fork.forker import Forker
from envs_node.actors.desktop.fork.prefix import prefix_keys
from envs_node.actors.desktop.fork.sandbox import ForkableSandbox
from envs_node.actors.desktop.fork.store import ForkStore
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.deploy.criu import find_criu
from envs_node.messages.actions import Action
from envs_node.messages.base import EnvsError
from envs_node.messages.desktop import Observation
from envs_node.policy.compare import compare, differing_tiles
from envs_node.policy.fingerprint import fingerprint

CLONES = 3
_TRIES = 3
"""So many actions are performed at most for each that is to change something."""


class Odd(msgspec.Struct, frozen=True, kw_only=True):
    """A state that is not equal to the first desktop's."""

    who: str
    step: int
    """The action that led there, from 1; 0 is the start."""
    action: str
    outcome: str
    reason: str
    detail: str = ""


class Count(msgspec.Struct, kw_only=True):
    """How states compared."""

    equal: int = 0
    masked: int = 0
    diverged: int = 0

    def add(self, outcome: str) -> None:
        """One more."""
        setattr(self, outcome, getattr(self, outcome) + 1)


class Row(msgspec.Struct, kw_only=True):
    """One application."""

    app: str
    wanted: int
    performed: int = 0
    effective: int = 0
    idle: list[str] = []
    """Actions that changed nothing."""
    fresh: Count = msgspec.field(default_factory=Count)
    clones: Count = msgspec.field(default_factory=Count)
    odd: list[Odd] = []
    trouble: str = ""
    wall_s: float = 0.0


class Bench:
    """One application on five desktops."""

    def __init__(self, launcher: Launcher, store: ForkStore, row: Row, pictures: Path | None):
        self._script: Script = SCRIPTS[row.app]
        self._task = self._script.task()
        self._row, self._pictures = row, pictures
        self._desktops = [ForkableSandbox(launcher, DesktopKind(), store) for _ in range(5)]
        self._actions: list[Action] = []
        self._seen: list[Observation] = []
        self._counts: list[bool] = []
        self._kept_at = 0

    def run(self, at_once: int) -> None:
        """Drive all five."""
        self._drive_first()
        work: list[Callable[[], None]] = [self._drive_fresh]
        if self._kept_at:
            work += [lambda n=n: self._drive_clone(n) for n in range(CLONES)]  # type: ignore[misc]
        with ThreadPoolExecutor(at_once) as threads:
            for done in [threads.submit(one) for one in work]:
                done.result()

    def close(self) -> None:
        """Destroy them."""
        for desktop in self._desktops:
            desktop.close()

    def _drive_first(self) -> None:
        row, desktop = self._row, self._desktops[0]
        self._seen = [desktop.reset(self._task)]
        for line in itertools.cycle(self._script.lines):
            if row.effective == row.wanted or row.performed == _TRIES * row.wanted:
                return
            action = aim(line, self._seen[-1].elements)
            if action is None:
                row.idle.append(f"{line} is not there")
                if len(row.idle) > _TRIES * row.wanted:
                    return
                continue
            seen = desktop.act(action)
            is_effective = compare(self._seen[-1].signature, seen.signature)[0] != "equal"
            self._actions.append(action)
            self._seen.append(seen)
            self._counts.append(is_effective)
            row.performed += 1
            row.effective += is_effective
            if not is_effective:
                row.idle.append(fingerprint(action))
            if row.effective == row.wanted // 2 and is_effective:
                self._keep()

    def _keep(self) -> None:
        try:
            key = prefix_keys(self._task, self._actions)[-1]
            self._desktops[0].keep_fork(key, tuple(self._seen))
            self._kept_at = len(self._actions)
        except ForkRefusedError as error:
            self._row.trouble += f"not forked: {error}; "

    def _drive_fresh(self) -> None:
        desktop = self._desktops[1]
        self._hold("fresh", 0, desktop.reset(self._task), desktop)
        self._follow("fresh", 0, desktop)

    def _drive_clone(self, number: int) -> None:
        desktop, prefix = self._desktops[2 + number], self._actions[: self._kept_at]
        for _ in range(2):
            if desktop.reset_forked(self._task, prefix) is not None:
                self._follow(f"clone {number + 1}", self._kept_at, desktop)
                return
        self._row.trouble += f"clone {number + 1} is not what its origin was; "

    def _follow(self, who: str, done: int, desktop: ForkableSandbox) -> None:
        for step in range(done + 1, len(self._seen)):
            try:
                seen = desktop.act(self._actions[step - 1])
            except ActionRefusedError as error:
                self._row.trouble += f"{who}: step {step} is refused: {error}; "
                return
            self._hold(who, step, seen, desktop)

    def _hold(self, who: str, step: int, seen: Observation, desktop: ForkableSandbox) -> None:
        """Hold a state against the first desktop's; count it if its action was effective."""
        wanted = self._seen[step]
        outcome, reason = compare(wanted.signature, seen.signature)
        if step and self._counts[step - 1]:
            (self._row.fresh if who == "fresh" else self._row.clones).add(outcome)
        if outcome == "equal":
            return
        action = fingerprint(self._actions[step - 1]) if step else "start"
        found = Odd(
            who=who, step=step, action=action, outcome=outcome, reason=reason,
            detail=_detail(wanted, seen),
        )  # fmt: skip
        self._row.odd.append(found)
        if self._pictures is not None:
            for name, one, shown in (("then", self._desktops[0], wanted), ("now", desktop, seen)):
                png = one.frame_png(shown.signature.frame)
                path = self._pictures / f"{self._row.app}-{who.replace(' ', '')}-{step}-{name}.png"
                path.write_bytes(png or b"")


def _detail(then: Observation, now: Observation) -> str:
    """The tiles and the elements that differ, the first of them, and whether both were settled."""
    one, other = then.signature, now.signature
    said = [] if then.settled and now.settled else ["not settled"]
    if len(one.tiles) == len(other.tiles):
        tiles = differing_tiles(one.tiles, other.tiles)
        places = [f"{t % one.columns * 80},{t // one.columns * 80}" for t in tiles[:8]]
        if tiles:
            said.append(f"{len(tiles)} tiles at {' '.join(places)}")
    told = [{(e.role, e.name, e.value, e.states) for e in seen.elements} for seen in (then, now)]
    said += [f"then only: {row}" for row in sorted(told[0] - told[1])[:3]]
    said += [f"now only: {row}" for row in sorted(told[1] - told[0])[:3]]
    return "; ".join(said)[:1000]


def measure(launcher: Launcher, criu: Sequence[str], row: Row, options: argparse.Namespace) -> None:
    """Fill in one application's row."""
    store = ForkStore(Forker(launcher, criu), bytes_max=4 << 30)
    store.is_offered = True
    bench = Bench(launcher, store, row, options.pictures)
    start = time.perf_counter()
    try:
        bench.run(options.at_once)
    except EnvsError as error:
        row.trouble += f"{type(error).__name__}: {error}"
    finally:
        bench.close()
        store.close()
    row.wall_s = round(time.perf_counter() - start, 1)


def as_table(rows: Sequence[Row]) -> str:
    """The table of docs/results.md."""
    lines = [
        "| application | actions, effective | fresh: equal/masked/diverged "
        "| clones: equal/masked/diverged | what came first where they differ |",
        "|---|---|---|---|---|",
    ]
    total = Count()
    for row in rows:
        for count in (row.fresh, row.clones):
            total.equal += count.equal
            total.masked += count.masked
            total.diverged += count.diverged
        lines.append(
            f"| {row.app} | {row.performed}, {row.effective} | {_counts(row.fresh)} "
            f"| {_counts(row.clones)} | {_causes(row)} |"
        )
    states = total.equal + total.masked + total.diverged
    share = (total.equal + total.masked) / states if states else 0.0
    lines.append(
        f"\n{states} states after effective actions: {total.equal} equal, {total.masked} masked, "
        f"{total.diverged} diverged: {share:.1%} equal or masked."
    )
    return "\n".join(lines)


def _counts(count: Count) -> str:
    return f"{count.equal}/{count.masked}/{count.diverged}"


def _causes(row: Row) -> str:
    """How each desktop first strayed, and how often that was."""
    first: dict[str, str] = {}
    for odd in row.odd:
        if odd.outcome == "diverged":
            first.setdefault(odd.who, f"`{odd.action}` ({odd.step}): {odd.reason}")
    told = [f"{count} x {why}" for why, count in Counter(first.values()).items()]
    return "; ".join([*told, row.trouble] if row.trouble else told)


def main() -> None:
    """Measure what is not measured yet, and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--apps", default=",".join(SCRIPTS))
    parser.add_argument("--actions", type=int, default=40, help="effective ones")
    parser.add_argument("--at-once", type=int, default=2, help="desktops that follow at once")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "fidelity"))
    parser.add_argument("--pictures", type=Path, help="where to keep the pictures that differ")
    parser.add_argument("--anew", action="store_true", help="measure again what is measured")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    criu, why = find_criu()
    if criu is None:
        sys.exit(why)
    quiet_logs()
    for folder in filter(None, (options.folder, options.pictures)):
        folder.mkdir(parents=True, exist_ok=True)
    rows = []
    with Launcher() as launcher:
        for app in options.apps.split(","):
            kept = options.folder / f"{app}.json"
            if kept.exists() and not options.anew:
                rows.append(msgspec.json.decode(kept.read_bytes(), type=Row))
                continue
            sys.stderr.write(f"{app}: ")
            row = Row(app=app, wanted=options.actions)
            measure(launcher, criu.command, row, options)
            kept.write_bytes(msgspec.json.format(msgspec.json.encode(row)))
            sys.stderr.write(
                f"{row.effective} of {row.performed} actions, fresh {_counts(row.fresh)}, clones "
                f"{_counts(row.clones)}, {row.wall_s:.0f} s {row.trouble}\n"
            )
            rows.append(row)
    report = msgspec.json.encode(rows).decode() if options.json else as_table(rows)
    sys.stdout.write(f"{report}\n" if options.json else f"{machine()}\n{report}\n")


if __name__ == "__main__":
    main()
