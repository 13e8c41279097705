"""`envs-node tasks import`, `check`, `cache`: OSWorld's own task trees, and what they need here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import tyro

from envs_node.deploy.cli.console import show, tell
from envs_node.deploy.cli.verb import Verb, require_checker
from envs_node.deploy.tasks.bundle import write_tasks
from envs_node.deploy.tasks.cache import FileCache, cache_folder
from envs_node.deploy.tasks.load import inspect_each
from envs_node.deploy.tasks.needs import STATUSES, TaskNeeds, count_needs, judge_needs
from envs_node.messages.base import EnvsError


class SeedError(EnvsError):
    """A file that was to be put into the cache is not there."""


class Import(Verb, frozen=True, kw_only=True):
    """Say what each task of an OSWorld tree needs here, and copy out those that run as they are."""

    tree: tyro.conf.Positional[Path]
    """An OSWorld checkout, its evaluation_examples, a list (test_*.json) in it, or any folder."""
    folder: tyro.conf.Positional[Path | None] = None
    """Where to write the tasks that can run, with their files beside them; nowhere unless given."""
    cache: Path | None = None
    """The cache of task files; the user's unless given."""
    json: bool = False

    def run(self) -> int:
        """Print a table by domain, or all needs as JSON."""
        cache = FileCache(self.cache)
        needs, written = [], 0
        for inspection in inspect_each(self.tree, require_checker().vocabulary, cache):
            item = judge_needs(inspection, cache)
            needs.append(item)
            if self.folder is not None and inspection.task is not None and not item.missing:
                write_tasks(self.folder, (inspection.task,))
                written += 1
        show(needs, _table(needs), as_json=self.json)
        if self.folder is not None:
            tell(f"{written} tasks in {self.folder}")
        return 0


class Check(Verb, frozen=True, kw_only=True):
    """Say per task what is missing here, and the way out; status 1 if anything is."""

    tree: tyro.conf.Positional[Path]
    """As for `tasks import`."""
    cache: Path | None = None
    """The cache of task files; the user's unless given."""
    json: bool = False

    def run(self) -> int:
        """Print what is missing."""
        cache = FileCache(self.cache)
        needs = [
            judge_needs(inspection, cache)
            for inspection in inspect_each(self.tree, require_checker().vocabulary, cache)
        ]
        lacking = [item for item in needs if item.missing]
        lines = [line for item in lacking for line in _lines(item)]
        lines.append(f"{len(needs) - len(lacking)} of {len(needs)} tasks lack nothing")
        show(needs, "\n".join(lines), as_json=self.json)
        return 1 if lacking else 0


class Cached(msgspec.Struct, frozen=True, kw_only=True):
    """What `tasks cache` did."""

    folder: Path
    url: str
    sha256: str
    size_bytes: int


class Add(Verb, frozen=True, kw_only=True):
    """Put a file that you have into the cache, as what an address would give."""

    url: tyro.conf.Positional[str]
    """The address that tasks name."""
    file: tyro.conf.Positional[Path]
    """What it would give."""
    cache: Path | None = None
    """The cache of task files; the user's unless given."""
    json: bool = False

    def run(self) -> int:
        """Copy it in."""
        if not (self.url.isprintable() and self.url.startswith(("http://", "https://"))):
            raise SeedError(f"{self.url!r} is no address: give it as the task writes it, https://…")
        cache = FileCache(self.cache)
        try:
            entry = cache.put_file(self.url, self.file)
        except OSError as error:
            said = f"{self.file} cannot be read ({error.strerror}); give a file"
            raise SeedError(said) from error
        result = Cached(
            folder=cache.root, url=entry.url, sha256=entry.sha256, size_bytes=entry.size_bytes
        )
        show(result, f"{entry.size_bytes} bytes, {entry.sha256}", as_json=self.json)
        return 0


class Where(Verb, frozen=True, kw_only=True):
    """Print the folder of the cache."""

    json: bool = False

    def run(self) -> int:
        """Print it."""
        show(str(cache_folder()), str(cache_folder()), as_json=self.json)
        return 0


CacheVerbs = (
    Annotated[Add, tyro.conf.subcommand("add")] | Annotated[Where, tyro.conf.subcommand("where")]
)


def _table(needs: list[TaskNeeds]) -> str:
    counts = count_needs(needs)
    heads = ["domain", "all", *STATUSES]
    rows = [
        [domain, str(counts[domain].total()), *(str(counts[domain][status]) for status in STATUSES)]
        for domain in sorted(counts)
    ]
    if len(rows) > 1:
        sums = [sum(int(row[column]) for row in rows) for column in range(1, len(heads))]
        rows.append(["sum", *map(str, sums)])
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [heads, *rows]
    )


def _lines(item: TaskNeeds) -> list[str]:
    return [
        f"{item.domain}/{item.id}: {item.status}",
        *(f"  {lack.field}: {lack.problem}; {lack.way_out}" for lack in item.missing),
    ]
