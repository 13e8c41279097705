"""What verbs share: their base, and the checks made before anything is started."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from envs_node.actors.verifier.vocabulary import CheckerSource, read_checker
from envs_node.deploy.checker import checker_folder, list_checkers
from envs_node.deploy.checker_origin import CheckerOriginError
from envs_node.deploy.config import DesktopSettings, PolicySettings
from envs_node.deploy.doctor import Needs, check_host
from envs_node.deploy.run_folder import require_writable
from envs_node.deploy.wishes import check_wishes
from envs_node.messages.base import EnvsError
from envs_node.policy.backend import Policy
from envs_node.policy.models.load import load_policy


class HostError(EnvsError):
    """This host lacks something that a run needs."""


class Verb(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all verbs: data from the command line, and `run`."""

    def run(self) -> int:
        """Do it; the exit status."""
        raise NotImplementedError


def require_host(folder: Path, desktop: DesktopSettings) -> None:
    """Refuse a host that cannot run such desktops, or keep runs in this folder, made yet or not.

    Args:
        desktop: which desktops; where they are other machines, no programs are needed here.

    Raises:
        EnvsError: naming the first lack and the command that mends it.
    """
    require_writable(folder, "no run can be kept")
    has_machines = desktop.backend != "sandbox"
    needs = Needs(programs={}, memory_bytes=1 << 30) if has_machines else None
    wishes = () if has_machines else check_wishes(desktop)
    for check in (*check_host(folder, needs, is_quick=True), *wishes):
        if check.is_needed and not check.ok:
            raise HostError(f"{check.name}: {check.detail}; {check.mend} (see `envs-node doctor`)")


def require_checker(name: str = "") -> CheckerSource:
    """An installed checker: the one that ships with us, or one of this name.

    Raises:
        EnvsError: it is not installed, or cannot be read.
    """
    if name and not checker_folder(name).is_dir():
        known = ", ".join(row.name for row in list_checkers() if row.name) or "none has a name"
        raise CheckerOriginError(
            f"no checker is called {name!r}; known: {known}; see `envs-node checker install --name`"
        )
    return read_checker(checker_folder(name))


def load_configured(settings: PolicySettings) -> Policy:
    """Load a policy, and give its proposals the threads that are configured.

    Raises:
        PolicyError: the folder holds none.
    """
    import torch  # takes seconds, which most verbs need not spend

    policy = load_policy(settings.path())
    torch.set_num_threads(settings.threads)
    return policy


def run_path(given: Path | None, kind: str) -> Path:
    """Where a run goes: as given, or `runs/<kind>-<time>`."""
    return given or Path("runs") / f"{kind}-{time.strftime('%Y%m%d-%H%M%S')}"
