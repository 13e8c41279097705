"""The stage: the roles of a run as commands, on this host, and the run that they do."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import msgspec

from envs_node.actors.ledger.store import LedgerStore
from envs_node.deploy.run_folder import RunFolder
from envs_node.deploy.tasks.bundle import bundled_tasks, write_tasks
from envs_node.deploy.tokens import ENVIRONMENT
from envs_node.messages.tasks import Task
from tests.chaos.overseer import Overseer, tails, wait_for
from tests.chaos.probe import Probe

UP_S = 90.0
LIGHT = (
    "mousepad-append-line",
    "xterm-make-folder",
    "thunar-create-folder",
    "mousepad-replace-text",
    "xterm-write-file",
    "mousepad-duplicate-line",
    "thunar-rename-file",
    "gedit-append-line",
)
"""Templates of light applications that the built-in policy solves, quick ones first."""
DESKTOPS = ("desktops-a", "desktops-b")


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched and fitted, the same with and without faults."""

    tasks: int = 4
    desktops: int = 1
    """Of each of the two desktop nodes."""
    lease_ms: int = 4000
    leaves_task_max: int = 3
    successes_task_max: int = 2
    steps_max: int = 6
    infra_retries_max: int = 100
    """Faults are many: a branch is not given up for them."""
    epochs: int = 60
    seed: int = 0

    def make_tasks(self) -> tuple[Task, ...]:
        """The tasks: the light templates in turn, then their next instances."""
        instances = -(-self.tasks // len(LIGHT))
        bundled = {str(task.id): task for task in bundled_tasks("train", instances)}
        names = [f"{name}-{n:03d}" for n in range(instances) for name in LIGHT]
        return tuple(bundled[name] for name in names[: self.tasks])

    def search_flags(self) -> tuple[str, ...]:
        """Of `envs-node search`."""
        return (
            "--search.lease-ms", str(self.lease_ms),
            "--search.leaves-task-max", str(self.leaves_task_max),
            "--search.successes-task-max", str(self.successes_task_max),
            "--search.steps-max", str(self.steps_max),
            "--search.infra-retries-max", str(self.infra_retries_max),
            "--search.seed", str(self.seed),
        )  # fmt: skip

    def fit_flags(self) -> tuple[str, ...]:
        """Of `envs-node fit`."""
        return (
            "--fit.epochs", str(self.epochs),
            "--fit.batch-size", "1",
            "--fit.checkpoint-steps", "20",
        )  # fmt: skip


def play_for(faults: int, tasks: int = 0) -> Play:
    """A play long enough that so many faults fall into it: about 40 optimizer steps for each."""
    tasks = tasks or min(48, max(3, faults // 3))
    return Play(tasks=tasks, epochs=min(100, max(10, 10 * faults // tasks)))


class Stage:
    """Head, policy, two desktop nodes and a trainer, each at an address that it keeps."""

    def __init__(self, overseer: Overseer, play: Play) -> None:
        self.overseer = overseer
        self.play = play
        self.runs = overseer.folder / "runs"
        self.run = RunFolder(self.runs / "run")
        self.fitted = overseer.folder / "fitted"
        self.head_url = _free_address()
        write_tasks(overseer.folder / "tasks", play.make_tasks())

    def open(self, *, fits: bool = True) -> Probe:
        """Start every role; the probe that watches them. The trainer only for a stage that fits."""
        nodes = str(self.overseer.folder / "nodes")
        start = self.overseer.start
        runs = ("--folder", str(self.runs))
        self.overseer.environment[ENVIRONMENT] = self._token(runs)
        head = start("head", *_role("head"), *runs, "--listen", self.head_url, "--resume")
        if not wait_for(lambda: "head listens at" in head.story(), UP_S):
            raise AssertionError(f"no head within {UP_S:g} s:\n{head.story()}")
        joining = ("--head", self.head_url, "--folder", nodes)
        for role in ("policy", "trainer")[: 1 + fits]:
            start(role, *_role(role), *joining, "--listen", _free_address())
        for name in DESKTOPS:
            count = ("--desktop.count", str(self.play.desktops))
            start(name, *_role("desktop"), *joining, *count, "--link.node", name)
        return Probe(self.head_url, self.runs)

    def _token(self, runs: tuple[str, ...]) -> str:
        """A join token for all nodes; those that have a certificate do not spend it."""
        making = ("token", "create", *runs, "--uses", "10")
        if self.overseer.client("token", *making).wait(timeout=UP_S) != 0:
            raise AssertionError(f"no join token:\n{tails(self.overseer.folder)}")
        return (self.overseer.folder / "token.stdout").read_text().strip()

    def wait_open(self, probe: Probe) -> None:
        """Wait until the head knows every role."""
        names = set(self.overseer.services) - {"head"}
        if not wait_for(lambda: probe.has_nodes(names), UP_S):
            latest = probe.latest()
            known = [n.node for n in latest.status.nodes] if latest else "no answer"
            raise AssertionError(f"not within {UP_S:g} s: {sorted(names)}; known: {known}")

    def search(self) -> subprocess.Popen[bytes]:
        """Begin the search."""
        where = ("--head", self.head_url, "--run", str(self.run.path), "--json")
        tasks = str(self.overseer.folder / "tasks")
        return self.overseer.client("search", "search", tasks, *where, *self.play.search_flags())

    def fit(self) -> subprocess.Popen[bytes]:
        """Begin the fit."""
        where = ("--head", self.head_url, "--out", str(self.fitted), "--json")
        return self.overseer.client(
            "fit", "fit", str(self.run.path), *where, *self.play.fit_flags()
        )

    def fit_undisturbed(self, out: Path) -> None:
        """Fit on the same ledger in one process that nobody disturbs."""
        flags = ("--out", str(out), *self.play.fit_flags())
        fit = self.overseer.client("fit-undisturbed", "fit", str(self.run.path), *flags)
        if fit.wait(timeout=600) != 0:
            raise AssertionError(f"the undisturbed fit ended with {fit.returncode}")

    def replay(self) -> int:
        """Replay the run's journal; 0 when every decision is the same."""
        replay = self.overseer.client("replay", "replay", str(self.run.path))
        return replay.wait(timeout=600)

    def expected_steps(self) -> int:
        """How many optimizer steps the fit will take: one an example, as the batch is one."""
        with LedgerStore(self.run.ledger, is_read_only=True) as store:
            return store.stats().distinct_steps * self.play.epochs

    def fitted_steps(self) -> float:
        """Up to which step the fit is safe."""
        names = (path.name for path in (self.fitted / "checkpoints").glob("checkpoint-*"))
        return float(max((int(name.rpartition("-")[2]) for name in names), default=0))


def _role(role: str) -> tuple[str, ...]:
    name = () if role == "desktop" else ("--link.node", role)
    return ("start", "--role", role, *name)


def _free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return f"tls+tcp://127.0.0.1:{port}"
