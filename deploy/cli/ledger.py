"""`envs-node ledger`: what was found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import tyro

from envs_node.actors.ledger.errors import BlobMismatchError
from envs_node.actors.ledger.store import LedgerStore
from envs_node.deploy.cli.console import show
from envs_node.deploy.cli.verb import Verb
from envs_node.deploy.run_folder import RunFolder, RunFolderError
from envs_node.messages.ledger import Trajectory
from envs_node.messages.search import Step


class _NoTrajectoryError(RunFolderError):
    """No trajectory of that id, or more than one."""


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """A trajectory in one line."""

    id: str
    task_id: str
    steps: int
    score: float | None
    is_certified: bool
    success_rate: float
    path: tuple[str, ...]


class _ShownStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step as shown: what was done, and the picture it was done on."""

    fingerprint: str
    text: str
    log_prob: float
    changed: bool
    screenshot: str
    """Its file; empty when the desktop could not give one."""
    screenshot_lack: str = ""
    """`missing` or `altered`, when the file is not what was kept."""


class _Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A trajectory in full, without its element lists."""

    id: str
    task_id: str
    instruction: str
    branch_id: str
    policy: str
    is_certified: bool
    score: float | None
    checker: str
    steps: tuple[_ShownStep, ...]


class Ls(Verb, frozen=True, kw_only=True):
    """List the distinct successes of a run."""

    folder: tyro.conf.Positional[Path]
    """The run's folder, or its ledger.sqlite."""
    certified_only: bool = False
    json: bool = False

    def run(self) -> int:
        """Print one line a trajectory."""
        with open_ledger(self.folder) as store:
            found = store.trajectories(certified_only=self.certified_only)
        rows = [_row(trajectory) for trajectory in found]
        lines = [
            f"{row.id[:12]}  {row.task_id:<32} {'certified' if row.is_certified else 'once':<9} "
            f"{' > '.join(row.path)}"
            for row in rows
        ]
        show(rows, "\n".join(lines) or "the ledger is empty", as_json=self.json)
        return 0


class Show(Verb, frozen=True, kw_only=True):
    """Show one success step by step, with the files of its screenshots."""

    folder: tyro.conf.Positional[Path]
    """The run's folder, or its ledger.sqlite."""
    id: tyro.conf.Positional[str]
    """The trajectory's id, or how it begins."""
    json: bool = False

    def run(self) -> int:
        """Print it."""
        with open_ledger(self.folder) as store:
            shown = self._shown(store)
        lines = [
            f"{shown.id}  {shown.task_id}",
            f"instruction  {shown.instruction}",
            f"judged       {shown.score} by {shown.checker}; "
            f"{'certified' if shown.is_certified else 'not reproduced'}",
            f"found by     {shown.policy} in {shown.branch_id}",
            *(
                f"  {number}. {step.fingerprint:<44} {_where(step)}"
                for number, step in enumerate(shown.steps, 1)
            ),
        ]
        show(shown, "\n".join(lines), as_json=self.json)
        return 0

    def _shown(self, store: LedgerStore) -> _Shown:
        found = [t for t in store.trajectories(certified_only=False) if t.id.startswith(self.id)]
        if len(found) != 1:
            count = "no trajectory begins" if not found else f"{len(found)} trajectories begin"
            raise _NoTrajectoryError(f"{count} with {self.id}; see `envs-node ledger ls`")
        (trajectory,) = found
        return _Shown(
            id=trajectory.id,
            task_id=trajectory.task_id,
            instruction=trajectory.instruction,
            branch_id=trajectory.branch_id,
            policy=trajectory.policy,
            is_certified=trajectory.is_certified,
            score=trajectory.verdict.score,
            checker=trajectory.verdict.checker,
            steps=tuple(_shown_step(step, store) for step in trajectory.steps),
        )


def _shown_step(step: Step, store: LedgerStore) -> _ShownStep:
    frame = step.observation.signature.frame
    lack = ""
    try:
        store.read_blob(frame)
    except FileNotFoundError:
        lack = "missing"
    except BlobMismatchError:
        lack = "altered"
    return _ShownStep(
        fingerprint=step.fingerprint,
        text=step.text,
        log_prob=step.log_prob,
        changed=step.changed,
        screenshot=str(store.blob_path(frame) or ""),
        screenshot_lack=lack,
    )


def _where(step: _ShownStep) -> str:
    return (
        f"{step.screenshot} ({step.screenshot_lack})" if step.screenshot_lack else step.screenshot
    )


class Stats(Verb, frozen=True, kw_only=True):
    """Count what the ledger holds."""

    folder: tyro.conf.Positional[Path]
    """The run's folder, or its ledger.sqlite."""
    json: bool = False

    def run(self) -> int:
        """Print the counts."""
        with open_ledger(self.folder) as store:
            stats = store.stats()
        fields = msgspec.structs.asdict(stats)
        text = "\n".join(f"{name.replace('_', ' '):<16} {value}" for name, value in fields.items())
        show(fields, text, as_json=self.json)
        return 0


def open_ledger(path: Path) -> LedgerStore:
    """Open the ledger of a run to read.

    Raises:
        EnvsError: there is none.
    """
    return LedgerStore(path if path.is_file() else RunFolder(path).ledger, is_read_only=True)


def _row(trajectory: Trajectory) -> _Row:
    return _Row(
        id=trajectory.id,
        task_id=trajectory.task_id,
        steps=len(trajectory.steps),
        score=trajectory.verdict.score,
        is_certified=trajectory.is_certified,
        success_rate=trajectory.success_rate,
        path=trajectory.path,
    )


LedgerVerbs = (
    Annotated[Ls, tyro.conf.subcommand("ls")]
    | Annotated[Show, tyro.conf.subcommand("show")]
    | Annotated[Stats, tyro.conf.subcommand("stats")]
)
