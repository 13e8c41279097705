"""`envs-node simulate`: thousands of desktops on a laptop, and faults from one seed."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Literal

import msgspec

from envs_node.deploy.cli.console import show, tell
from envs_node.deploy.cli.verb import Verb
from envs_node.deploy.sim.command import SimulateError, check_settings, read_settings
from envs_node.deploy.sim.faults import CALM, HARSH, MILD
from envs_node.deploy.sim.report import as_text, make_report
from envs_node.deploy.sim.simulation import SimSettings
from envs_node.deploy.sim.trial import FREE, Laboratory, memory_folder
from envs_node.deploy.sim.world import WorldSettings
from envs_node.deploy.sweep import owning
from envs_node.messages.lifecycle import SearchSettings
from envs_node.messages.search import Progress

_FAULTS = {"none": CALM, "mild": MILD, "harsh": HARSH}
_TELL_EVERY_S = 20.0
_DESKTOPS_NODE = 16
_DESKTOPS_POLICY = 64
_PATIENT = SearchSettings(infra_retries_max=100)
"""To give a branch up is right when faults strike it again and again, and would count as wrong."""
_SEEDS = re.compile(r"(\d+)\.\.(\d+)")


class Simulate(Verb, frozen=True, kw_only=True):
    """Simulate a head, policies and desktops in virtual time; exit 1 when an invariant breaks.

    The searches, leases, supervisors, journals and ledger are the real ones; desktops, model and
    network are made from the seed. The same arguments give the same run, message for message.
    """

    desktops: int = 64
    """Desktops in all."""
    tasks: int = 16
    """Tasks of the run."""
    seed: int = 1
    """Of the world, the faults and the order of everything."""
    seeds: str = ""
    """`A..B`: one simulation after the other, instead of `--seed`."""
    faults: Literal["none", "mild", "harsh"] = "mild"
    """What befalls the run."""
    nodes: int = 0
    """Nodes that the desktops are spread over; 16 desktops a node unless given."""
    is_free: bool = False
    """Let no budget bind, and hold the ledger against that of the undisturbed run."""
    search: SearchSettings = _PATIENT
    """How to search, and how much may be spent."""
    settings: str = ""
    """All of the above in JSON, as a simulation that went wrong prints it to be repeated."""
    json: bool = False
    """Print a JSON list of reports."""

    def run(self) -> int:
        """Simulate; 1 when something is wrong."""
        reports = []
        with owning("simulate", scratch_in=memory_folder()):
            laboratory = Laboratory(Path(tempfile.gettempdir()))
            for settings in self._given() if self.settings else map(self._drawn, self._seeds()):
                trial = laboratory.attempt(settings, tell=_Story(settings.seed).tell)
                reports.append(make_report(trial))
                if not self.json:
                    show(reports[-1], as_text(reports[-1]), as_json=False)
        if self.json:
            show(reports, "", as_json=True)
        return int(any(report.wrong for report in reports))

    def _seeds(self) -> range:
        if not self.seeds:
            return range(self.seed, self.seed + 1)
        match = _SEEDS.fullmatch(self.seeds)
        if match is None or int(match[1]) > int(match[2]):
            raise SimulateError(f"--seeds is {self.seeds!r}; it must be A..B, such as 1..300")
        return range(int(match[1]), int(match[2]) + 1)

    def _given(self) -> list[SimSettings]:
        if msgspec.structs.replace(self, settings="", json=False) != Simulate():
            raise SimulateError("--settings holds all of a simulation: leave the others out")
        return [read_settings(self.settings)]

    def _drawn(self, seed: int) -> SimSettings:
        nodes = self.nodes or -(-self.desktops // _DESKTOPS_NODE)
        world = WorldSettings(seed=seed, tasks=self.tasks)
        if self.is_free:  # one path to each screen, as a comparison needs
            world = msgspec.structs.replace(world, idle_rate=0.0, depth=4)
        settings = SimSettings(
            seed=seed,
            desktops=self.desktops,
            nodes=nodes,
            policies=-(-self.desktops // _DESKTOPS_POLICY),
            world=world,
            search=FREE if self.is_free else self.search,
            faults=_FAULTS[self.faults],
        )
        check_settings(settings)
        return settings


class _Story:
    """Tells how far a simulation is, not too often."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._told_s = 0.0

    def tell(self, progress: Progress, time_s: float) -> None:
        """Hears of the run's progress in virtual time."""
        if time_s < self._told_s + _TELL_EVERY_S:
            return
        self._told_s = time_s
        over = sum(task.state not in ("waiting", "running") for task in progress.tasks)
        distinct = sum(task.distinct for task in progress.tasks)
        tell(
            f"seed {self._seed}, {time_s:.0f} s: {over} of {len(progress.tasks)} tasks over, "
            f"{distinct} distinct successes"
        )
