"""Judges, by reading it, what a task needs to run here: files, programs, accounts, live pages."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from envs_node.actors.desktop.errors import SetupFailedError
from envs_node.actors.desktop.setup import check_setup
from envs_node.deploy.tasks.cache import FileCache
from envs_node.messages.tasks import Task
from envs_node.policy.task_files import wanted_files
from envs_node.policy.task_lacks import Lack
from envs_node.policy.tasks import Inspection, is_infeasible, task_json

Status: TypeAlias = Literal[
    "offline", "files", "application", "web", "credentials", "infeasible", "unsupported"
]
"""`offline`: runs as it is. `files`: runs once its files are in the cache. `application`: wants a
program that is not here. `web`: wants live pages. `credentials`: wants somebody's account.
`infeasible`: the right answer is to give up. `unsupported`: cannot be judged, or not be set up."""
STATUSES: tuple[Status, ...] = (
    "offline", "files", "application", "web", "credentials", "infeasible", "unsupported"
)  # fmt: skip
_BY_KIND: dict[str, Status] = {
    "broken": "unsupported", "setup": "unsupported", "credentials": "credentials", "web": "web",
    "network": "web", "library": "unsupported", "application": "application", "file": "files",
}  # fmt: skip
"""What each kind of lack makes of a task; of several the first in this order counts."""
_WAYS_OUT = {
    "broken": "mend the task, or leave it out",
    "setup": "mend the task, or leave it out",
    "credentials": "leave it out: no account is used here",
    "web": "leave it out, or give it a machine with a network",
    "network": "leave it out: the checker has no network",
    "library": "leave it out, or install the package into the checker's environment",
    "file": "`envs-node tasks fetch`, or `envs-node tasks fetch --from FOLDER` without a network",
}


_SUDO = re.compile(r"(?:^|[\s;|&(`])sudo\s")


class _Program(NamedTuple):
    """An application of OSWorld's tasks."""

    command: str
    package: str
    """Debian's; empty when it has none."""


_APPLICATIONS = {
    "chrome": _Program("chromium", "chromium"),
    "browser": _Program("chromium", "chromium"),
    "google-chrome": _Program("chromium", "chromium"),
    "gimp": _Program("gimp", "gimp"),
    "vlc": _Program("vlc", "vlc"),
    "thunderbird": _Program("thunderbird", "thunderbird"),
    "libreoffice": _Program("soffice", "libreoffice-calc libreoffice-impress libreoffice-writer"),
    "libreoffice_calc": _Program("localc", "libreoffice-calc"),
    "libreoffice_impress": _Program("loimpress", "libreoffice-impress"),
    "libreoffice_writer": _Program("lowriter", "libreoffice-writer"),
    "calc": _Program("localc", "libreoffice-calc"),
    "writer": _Program("lowriter", "libreoffice-writer"),
    "vscode": _Program("code", ""),
    "vs_code": _Program("code", ""),
    "code": _Program("code", ""),
    "picard": _Program("picard", "picard"),
    "socat": _Program("socat", "socat"),
    "chromium": _Program("chromium", "chromium"),
    "eog": _Program("eog", "eog"),
    "galculator": _Program("galculator", "galculator"),
    "gedit": _Program("gedit", "gedit"),
    "mousepad": _Program("mousepad", "mousepad"),
    "thunar": _Program("thunar", "thunar"),
    "xterm": _Program("xterm", "xterm"),
}
"""By what `related_apps` and `launch` call it."""


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a task needs and that is not here."""

    kind: str
    field: str
    problem: str
    way_out: str


class TaskNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What one task needs."""

    id: str
    domain: str
    file: str
    status: Status
    missing: tuple[Missing, ...]
    """The worst first; empty when it runs as it is."""
    files: int
    """How many files it downloads."""
    cached: int
    """How many of them the cache has."""


def judge_needs(
    inspection: Inspection,
    cache: FileCache,
    find_program: Callable[[str], str | None] = shutil.which,
) -> TaskNeeds:
    """Tell what a task needs.

    Args:
        inspection: the task, read with the files that the cache has.
        cache: where its files would be.
        find_program: where a program is; None when it is not here.
    """
    path = Path(inspection.file)
    task = inspection.task
    value: Any = {} if task is None else task_json(task)
    wanted = wanted_files(value)
    missing = tuple(_missing(inspection, value, find_program))
    order = list(_BY_KIND)
    missing = tuple(sorted(missing, key=lambda item: order.index(item.kind)))
    status: Status = _BY_KIND[missing[0].kind] if missing else "offline"
    if task is not None and is_infeasible(task):
        status = "infeasible"
    return TaskNeeds(
        id=path.stem if task is None else task.id,
        domain=path.absolute().parent.name,
        file=inspection.file,
        status=status,
        missing=missing,
        files=len(wanted),
        cached=sum(1 for file in wanted if cache.find(file.url) is not None),
    )


def missing_applications(
    task: Task, find_program: Callable[[str], str | None] = shutil.which
) -> tuple[Missing, ...]:
    """The applications of a task that are not here.

    Args:
        find_program: where a program is; None when it is not here.
    """
    return tuple(_of_programs(task_json(task), find_program))


def count_needs(needs: Iterable[TaskNeeds]) -> dict[str, Counter[Status]]:
    """How many tasks of each domain have each status."""
    counts: dict[str, Counter[Status]] = {}
    for item in needs:
        counts.setdefault(item.domain, Counter())[item.status] += 1
    return counts


def _missing(
    inspection: Inspection, value: Any, find_program: Callable[[str], str | None]
) -> Iterator[Missing]:
    for lack in inspection.lacks:
        yield _of_lack(lack)
    task = inspection.task
    if task is None:
        return
    yield from _of_programs(value, find_program)
    yield from _of_rights(value)
    if not any(lack.kind in ("file", "web", "credentials") for lack in inspection.lacks):
        try:
            check_setup(task)
        except SetupFailedError as error:
            yield Missing(
                kind="setup", field="config", problem=str(error), way_out=_WAYS_OUT["setup"]
            )


def _of_rights(value: Any) -> Iterator[Missing]:
    evaluator = value.get("evaluator") or {}
    lists = {"config": value.get("config"), "evaluator.postconfig": evaluator.get("postconfig")}
    for name, steps in lists.items():
        for index, step in enumerate(steps or []):
            command = step["parameters"].get("command") or ""
            text = command if isinstance(command, str) else " ".join(map(str, command))
            if _SUDO.search(text):
                yield Missing(
                    kind="setup",
                    field=f"{name}[{index}]",
                    problem="runs sudo, and a desktop's user has no such right",
                    way_out="leave it out, or drive it on a machine of OSWorld's",
                )


def _of_lack(lack: Lack) -> Missing:
    return Missing(
        kind=lack.kind, field=lack.field, problem=lack.problem, way_out=_WAYS_OUT[lack.kind]
    )


def _of_programs(value: Any, find_program: Callable[[str], str | None]) -> Iterator[Missing]:
    apps = value.get("related_apps") or ()
    named = {str(app).lower().replace(" ", "_"): "related_apps" for app in apps}
    for index, step in enumerate(value.get("config") or []):
        if step["type"] == "launch":
            command = step["parameters"]["command"]
            words = command.split() if isinstance(command, str) else command
            named.setdefault(Path(words[0]).name, f"config[{index}]")
    lacking = {
        _APPLICATIONS[name]: field
        for name, field in named.items()
        if name in _APPLICATIONS and find_program(_APPLICATIONS[name].command) is None
    }
    for program, field in lacking.items():
        if program.package:
            problem, way_out = (
                f"{program.command} is not here",
                f"apt-get install {program.package}",
            )
        else:
            problem = f"{program.command} is not here, and Debian has no package of it"
            way_out = "leave it out"
        yield Missing(kind="application", field=field, problem=problem, way_out=way_out)
