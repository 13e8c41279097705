"""`envs-node tasks fetch`: fill the cache of task files, from the network or from a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import tyro

from envs_node.deploy.cli.console import run_until_interrupted, show, tell
from envs_node.deploy.cli.verb import Verb, require_checker
from envs_node.deploy.tasks.cache import FileCache
from envs_node.deploy.tasks.fetch import Fetched, FetchLimits, fetch_files
from envs_node.deploy.tasks.load import inspect_tasks
from envs_node.deploy.tasks.seed import find_seeds
from envs_node.messages.base import EnvsError
from envs_node.policy.task_files import wanted_files
from envs_node.policy.tasks import task_json


class FetchError(EnvsError):
    """A fetch was asked for in a way that cannot be."""


class FetchReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a fetch did."""

    folder: Path
    kept: int
    """Files that were in the cache."""
    fetched: int
    failed: int
    files: tuple[Fetched, ...]


class Fetch(Verb, frozen=True, kw_only=True):
    """Fill the cache with what tasks download. What is there stays; so it can be run again."""

    tree: tyro.conf.Positional[Path]
    """An OSWorld checkout, its evaluation_examples, a list (test_*.json) in it, or any folder."""
    source: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """A folder to copy from instead, without a network: another cache, a copy of the hub's files,
    or OSWorld's own `cache`."""
    jobs: int = 4
    """Files at once."""
    tries: int = 3
    """For each file."""
    file_mb: int = 512
    """A larger file is refused."""
    file_s: float = 600.0
    """How long one try of a file may take."""
    cache: Path | None = None
    """The cache of task files; the user's unless given."""
    json: bool = False

    def run(self) -> int:
        """Fetch; status 1 if a file is missing in the end."""
        for name in ("jobs", "tries", "file_mb", "file_s"):
            if not getattr(self, name) >= 1:
                flag = name.replace("_", "-")
                raise FetchError(f"--{flag} is {getattr(self, name):g}; it must be at least 1")
        cache = FileCache(self.cache)
        inspections = inspect_tasks(self.tree, require_checker().vocabulary)
        tasks = [
            (inspection.task.id, task_json(inspection.task))
            for inspection in inspections
            if inspection.task is not None
        ]
        if self.source is not None:
            files = _copy(tasks, self.source, cache)
        else:
            urls = [file.url for _, task in tasks for file in wanted_files(task)]
            limits = FetchLimits(
                jobs=self.jobs,
                tries=self.tries,
                file_bytes=self.file_mb << 20,
                file_s=self.file_s,
            )
            files = run_until_interrupted(
                lambda: fetch_files(urls, cache, limits, _tell),
                "run it again to fetch the rest",
                closing="",
            )
        report = FetchReport(
            folder=cache.root,
            kept=sum(file.how == "kept" for file in files),
            fetched=sum(file.how == "fetched" for file in files),
            failed=sum(file.how == "failed" for file in files),
            files=files,
        )
        text = f"{report.fetched} fetched, {report.kept} were there, {report.failed} failed"
        show(report, f"{text}; they are in {cache.root}", as_json=self.json)
        return 1 if report.failed else 0


def _tell(file: Fetched, done: int, total: int) -> None:
    if file.how == "failed":
        tell(f"[{done}/{total}] {file.url} {file.problem}")
    elif file.how == "fetched":
        tell(f"[{done}/{total}] {file.url} {file.size_bytes} bytes")


def _copy(tasks: list[tuple[Any, Any]], source: Path, cache: FileCache) -> tuple[Fetched, ...]:
    """Copy from a folder what the cache lacks.

    Raises:
        FetchError: there is no such folder.
    """
    if not source.is_dir():
        raise FetchError(f"{source} is no folder: give one with copies of the files")
    done: dict[str, Fetched] = {}
    for task_id, task in tasks:
        for seed in find_seeds(str(task_id), task, source):
            before = done.get(seed.url)
            if before is None or before.how == "failed":
                done[seed.url] = _copy_one(seed.url, seed.file, source, cache)
    for number, file in enumerate(done.values(), 1):
        _tell(file, number, len(done))
    return tuple(done.values())


def _copy_one(url: str, file: Path | None, source: Path, cache: FileCache) -> Fetched:
    entry = cache.find(url)
    if entry is not None and not cache.is_damaged(url):
        return Fetched(url=url, how="kept", size_bytes=entry.size_bytes)
    if file is None:
        return Fetched(url=url, how="failed", problem=f"has no copy in {source}")
    try:
        entry = cache.put_file(url, file)
    except OSError as error:
        problem = f"has a copy that cannot be read, {file} ({error.strerror})"
        return Fetched(url=url, how="failed", problem=problem)
    return Fetched(url=url, how="fetched", size_bytes=entry.size_bytes, tries=1)
