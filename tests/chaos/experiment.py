"""The experiment: a run that nobody disturbs, the same run in a storm, and what differs."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from envs_node.deploy.run_folder import RunFolder
from tests.chaos.audit import Found, judged_paths, look_into, misjudged
from tests.chaos.overseer import Overseer, tails
from tests.chaos.probe import Probe
from tests.chaos.recovery import Recovery, measure
from tests.chaos.residue import Residue
from tests.chaos.stage import Play, Stage
from tests.chaos.storm import Phase, Plan, Storm, draw

_SECONDS_A_FAULT = 40.0
"""How long a phase may take for each of its faults, beside five minutes, before it hangs."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What to do to a run."""

    seed: int
    faults: int
    fit_share: float = 0.5
    """Of the faults, those that fall into the fit, beside those that the search was too short
    for; 0 does no fit."""
    gap_s: float = 8.0
    """A fault waits no longer than this for the work to go on."""
    kill_share: float = 0.6
    """The rest is frozen for a while."""
    spare: tuple[str, ...] = ()
    """Services that are left alone."""
    play: Play = Play()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How the experiment went. It is passed when `findings` is empty."""

    settings: Settings
    folder: str
    undisturbed: Found
    found: Found | None
    findings: tuple[str, ...]
    """What must not be, a line each."""
    faults: tuple[str, ...]
    missed: int
    """Drawn and not counted: there was nothing to hit."""
    restarts: dict[str, int]
    """Of whole processes, by service; what a node restarts inside itself is not counted."""
    recovery: tuple[Recovery, ...]
    compared_paths: int
    """Paths driven in both runs, whose verdicts were compared."""
    wall_s: dict[str, float]

    def text(self) -> str:
        """For people."""
        lines = [f"seed {self.settings.seed}: {len(self.faults)} faults, {self.missed} missed"]
        lines += [f"  {line}" for line in self.faults]
        lines += [f"restarts: {self.restarts}", f"wall: {self.wall_s} s"]
        lines += [recovery.line() for recovery in self.recovery]
        lines += [f"undisturbed: {self.undisturbed}", f"in the storm: {self.found}"]
        is_same = (
            self.found is not None and self.found.paths_sha256 == self.undisturbed.paths_sha256
        )
        lines += [f"the same paths are certified: {'yes' if is_same else 'no'}"]
        lines += [f"paths compared: {self.compared_paths}", f"all is kept in {self.folder}"]
        lines += [f"FINDING {finding}" for finding in self.findings] or ["nothing was lost"]
        return "\n".join(lines)


def experiment(settings: Settings, folder: Path) -> Outcome:
    """Do both runs and compare them. What they leave, and `outcome.json`, lies in `folder`."""
    wall_s: dict[str, float] = {}
    calm = _undisturbed(settings, folder / "undisturbed", wall_s)
    outcome = _Stormy(settings, folder / "storm", wall_s).outcome(calm)
    data = msgspec.json.format(msgspec.json.encode(outcome), indent=2)
    (folder / "outcome.json").write_bytes(data)
    return outcome


def _undisturbed(settings: Settings, folder: Path, wall_s: dict[str, float]) -> RunFolder:
    with Overseer(folder) as overseer:
        stage = Stage(overseer, settings.play)
        with stage.open(fits=False).asking() as probe:
            stage.wait_open(probe)
            began_s = time.monotonic()
            status = stage.search().wait(timeout=1800)
            wall_s["search undisturbed"] = round(time.monotonic() - began_s, 1)
        if status != 0:
            raise AssertionError(f"undisturbed, the search ended with {status}:\n{tails(folder)}")
    overseer.forget()
    return stage.run


class _Stormy:
    """The run in a storm, from the first process to the last."""

    def __init__(self, settings: Settings, folder: Path, wall_s: dict[str, float]) -> None:
        self._settings = settings
        self._overseer = Overseer(folder)
        self._stage = Stage(self._overseer, settings.play)
        self._storm = Storm(self._overseer)
        self._wall_s = wall_s
        self._findings: list[str] = []
        self._began_s = time.monotonic()

    def outcome(self, calm: RunFolder) -> Outcome:
        """Run it, stop everything, and look what is left and what was found."""
        overseer = self._overseer
        with Residue(overseer.folder, overseer.temporary, overseer.state) as residue:
            with overseer, self._open().asking() as probe:
                self._stage.wait_open(probe)
                self._act(probe, look_into(calm).judged)
            self._findings += [f"left behind: {line}" for line in residue.left()]
        overseer.forget()
        self._findings += [
            f"{end.service} ended by itself with {end.status} "
            f"{end.at_s - self._began_s:.2f} s into the storm"
            for end in overseer.unexpected_ends()
        ]
        found, compared = self._compare(calm)
        starts = {name: s.starts_s for name, s in overseer.services.items()}
        return Outcome(
            settings=self._settings,
            folder=str(overseer.folder.parent),
            undisturbed=look_into(calm),
            found=found,
            findings=tuple(self._findings),
            faults=tuple(fault.line(self._began_s) for fault in self._storm.faults),
            missed=len(self._storm.missed),
            restarts={name: s.restarts for name, s in overseer.services.items()},
            recovery=measure(self._storm.faults, probe, starts),
            compared_paths=compared,
            wall_s=self._wall_s,
        )

    def _open(self) -> Probe:
        return self._stage.open(fits=self._settings.fit_share > 0)

    def _act(self, probe: Probe, judged: int) -> None:
        self._began_s = time.monotonic()
        stage = self._stage
        search = stage.search()
        share = self._settings.fit_share
        count = round(self._settings.faults * (1 - share))
        self._under_storm("search", count, search.poll, lambda: probe.judged, judged)
        if search.poll() is None:
            search.kill()
        if search.wait(timeout=10) != 0:
            self._findings.append(f"the search ended with {search.returncode}")
        if share and not self._findings:
            self._fit()

    def _fit(self) -> None:
        stage = self._stage
        fit = stage.fit()
        count = self._settings.faults - len(self._storm.faults)
        whole = float(stage.expected_steps())
        self._under_storm("fit", count, fit.poll, stage.fitted_steps, whole)
        if fit.poll() is None:
            fit.kill()
        if fit.wait(timeout=10) != 0:
            self._findings.append(f"the fit ended with {fit.returncode}")

    def _draw(self, phase: Phase, count: int) -> list[Plan]:
        settings = self._settings
        absent = set(settings.spare) | (set() if settings.fit_share else {"trainer"})
        return draw(
            settings.seed,
            phase,
            count,
            lease_s=settings.play.lease_ms / 1000,
            spare=frozenset(absent),
            kill_share=settings.kill_share,
        )

    def _under_storm(
        self,
        phase: Phase,
        count: int,
        poll: Callable[[], int | None],
        done: Callable[[], float],
        whole: float,
    ) -> None:
        began_s = time.monotonic()
        limit_s = 300.0 + _SECONDS_A_FAULT * count

        def is_over() -> bool:
            return poll() is not None or time.monotonic() - began_s > limit_s

        self._storm.blow(
            self._draw(phase, count + count // 5 + 5),
            count=count,
            done=done,
            whole=whole,
            gap_s=self._settings.gap_s,
            is_over=is_over,
        )
        self._wall_s[f"{phase} in the storm"] = round(time.monotonic() - began_s, 1)
        if poll() is None:
            self._findings.append(f"the {phase} did not end within {limit_s:g} s")

    def _compare(self, calm: RunFolder) -> tuple[Found | None, int]:
        stage, undisturbed = self._stage, look_into(calm)
        try:
            found = look_into(stage.run)
        except OSError as error:
            self._findings.append(f"the run has no end that can be read: {error}")
            return None, 0
        if found.solved != undisturbed.solved:
            self._findings.append(f"solved {found.solved}, undisturbed {undisturbed.solved}")
        self._findings += [f"doubled: {name}" for name in found.doubled]
        self._findings += [f"no picture: {name}" for name in found.without_pictures]
        if found.lost:
            self._findings.append(f"{found.lost} branches were lost")
        before, after = judged_paths(calm.journal), judged_paths(stage.run.journal)
        self._findings += [f"failed by a fault: {path}" for path in misjudged(before, after)]
        if (status := stage.replay()) != 0:
            self._findings.append(f"the journal does not replay: {status}")
        if stage.fitted.exists():
            self._compare_fits()
        return found, len(before.keys() & after.keys())

    def _compare_fits(self) -> None:
        out = self._overseer.folder / "fitted-undisturbed"
        self._stage.fit_undisturbed(out)
        digests = [_digest(folder / "model.safetensors") for folder in (out, self._stage.fitted)]
        if digests[0] != digests[1]:
            self._findings.append("the fitted policy differs from that of an undisturbed fit")


def _digest(path: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return f"no {path.name}"
