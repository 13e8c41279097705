"""`envs-node verdict`: what was judged, and what that is worth."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import tyro

from envs_node.deploy.cli.console import show
from envs_node.deploy.cli.verb import Verb
from envs_node.deploy.run_folder import RunFolder
from envs_node.deploy.verdicts import (
    FoundVerdict,
    explain_phase,
    find_verdict,
    latest_run,
    reproduced,
    verdicts_of,
)
from envs_node.messages.verify import Evidence, Exchange, Verdict

_DIGEST = 12


class Ls(Verb, frozen=True, kw_only=True):
    """List the verdicts of a run."""

    folder: tyro.conf.Positional[Path]
    """The run's folder, or a desktop node's."""
    json: bool = False

    def run(self) -> int:
        """Print one line a verdict."""
        found = verdicts_of(RunFolder(self.folder))
        lines = [
            f"{one.id[:_DIGEST]}  {one.branch_id:<36} {one.kind:<8} {one.verdict.verdict:<13} "
            f"{_score(one.verdict):<6} {one.verdict.reason}".rstrip()
            for one in found
        ]
        show(found, "\n".join(lines) or "nothing was judged", as_json=self.json)
        return 0


class Show(Verb, frozen=True, kw_only=True):
    """Explain one verdict in plain words."""

    id: tyro.conf.Positional[str]
    """The verdict's id or how it begins, or a branch that was judged once."""
    folder: Annotated[Path | None, tyro.conf.arg(name="run", metavar="RUN")] = None
    """The run's folder, or a desktop node's; the latest below `runs` unless given."""
    json: bool = False

    def run(self) -> int:
        """Print it."""
        folder = latest_run() if self.folder is None else RunFolder(self.folder)
        found = find_verdict(folder, self.id)
        show(found, "\n".join(_lines(found)), as_json=self.json)
        return 0


class Flips(Verb, frozen=True, kw_only=True):
    """Tell by task how often a success, replayed on a fresh desktop, was judged one again."""

    folder: tyro.conf.Positional[Path]
    """The run's folder."""
    json: bool = False

    def run(self) -> int:
        """Print one line a task, those that changed their verdict most often first."""
        rows = reproduced(verdicts_of(RunFolder(self.folder)))
        same, replays = sum(row.same for row in rows), sum(row.replays for row in rows)
        lines = [
            f"{row.task_id:<36} {row.same}/{row.replays} the same, {row.flip_rate:.0%} another"
            for row in rows
        ]
        lines.append(f"{'all':<36} {same}/{replays} the same")
        show(rows, "\n".join(lines), as_json=self.json)
        return 0


def _lines(found: FoundVerdict) -> Iterator[str]:
    verdict = found.verdict
    yield f"{found.id}  {found.branch_id}, lease {found.lease}"
    yield f"verdict      {verdict.verdict}: {found.meaning}"
    yield f"score        {_score(verdict)}"
    if verdict.reason:
        yield f"reason       {verdict.reason}"
    if phase := explain_phase(verdict):
        yield f"decided      {phase}"
    yield f"then         {found.consequence}"
    yield f"task         {found.task_id}, digest {verdict.task_sha256[:_DIGEST] or 'not told'}"
    yield f"branch       {found.kind}, ended by {found.reason}"
    yield f"judged by    {verdict.checker or 'no checker: nothing had to be looked at'}"
    yield f"             digest of its files {verdict.checker_sha256[:_DIGEST] or 'not told'}"
    yield f"took         {verdict.wall_ms} ms{_when(verdict)}"
    yield from _table(
        "files of the checker", [f"{s.sha256[:_DIGEST]}  {s.module}" for s in verdict.sources]
    )
    yield from _table("requests", [_request(exchange) for exchange in verdict.exchanges])
    evidence = [_evidence(file, is_told=bool(verdict.judged_ns)) for file in verdict.evidence]
    yield from _table("evidence", evidence)


def _table(title: str, rows: list[str]) -> Iterator[str]:
    yield f"{title}{'' if rows else ': none'}"
    yield from (f"  {row}" for row in rows)


def _request(exchange: Exchange) -> str:
    answer = f"no answer ({exchange.error})" if exchange.error else str(exchange.status)
    return (
        f"{exchange.phase or '?':<10} {exchange.method:<4} {exchange.path:<28} {answer}, "
        f"{exchange.size_bytes} bytes"
    )


def _evidence(file: Evidence, *, is_told: bool) -> str:
    kind = ("gold" if file.is_gold else "result") if is_told else "file"
    return f"{file.sha256[:_DIGEST]}  {file.size_bytes:>9} bytes  {kind:<6}  {file.name}"


def _score(verdict: Verdict) -> str:
    return "none" if verdict.score is None else f"{verdict.score:g}"


def _when(verdict: Verdict) -> str:
    if not verdict.judged_ns:
        return ""
    then = datetime.fromtimestamp(verdict.judged_ns // 10**9, tz=UTC)
    return f", until {then:%Y-%m-%d %H:%M:%S} UTC"


VerdictVerbs = (
    Annotated[Ls, tyro.conf.subcommand("ls")]
    | Annotated[Show, tyro.conf.subcommand("show")]
    | Annotated[Flips, tyro.conf.subcommand("flips")]
)
