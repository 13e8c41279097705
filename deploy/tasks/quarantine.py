"""What the admission gate wrote down: all it looked at, and the tasks that no run should take.

Beside the tasks lie `admission.jsonl`, a line a task as it is done, so that a gate that was stopped
goes on; `admission.md` for people; and `quarantine.jsonl`, which searches and evals obey. A task is
known by its digest: one that was changed is looked at anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from envs_node.deploy.tasks.admission import Admission
from envs_node.deploy.tasks.load import is_of_a_task
from envs_node.messages.base import EnvsError

RECORDS, REPORT, QUARANTINE = "admission.jsonl", "admission.md", "quarantine.jsonl"


class QuarantineError(EnvsError):
    """A file of the gate cannot be read."""


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    """A task that is kept out, and why."""

    task_id: str
    task_sha256: str
    reason: str


def read_records(folder: Path) -> dict[str, Admission]:
    """What a gate has found so far, by the digest of the task; a line cut short is left out.

    Raises:
        QuarantineError: naming the file.
    """
    found = {}
    for line in _lines(folder / RECORDS):
        try:
            record = msgspec.json.decode(line, type=Admission)
        except msgspec.DecodeError:
            continue
        found[record.task_sha256] = record
    return found


def append_record(folder: Path, record: Admission) -> None:
    """Write down one more.

    Raises:
        QuarantineError: the folder cannot be written.
    """
    with _writing(folder), (folder / RECORDS).open("ab") as out:
        if out.tell() and not (folder / RECORDS).read_bytes().endswith(b"\n"):
            out.write(b"\n")
        out.write(msgspec.json.encode(record) + b"\n")


def write_lists(folder: Path, records: Iterable[Admission], unread: Sequence[str]) -> None:
    """Write the quarantine list and the report anew.

    Of a task that was tried before, and was not now, what was found then stands.

    Args:
        records: what was found now.
        unread: why files could not be read; they have no digest to be known by.

    Raises:
        QuarantineError: the folder cannot be written.
    """
    known = (*read_records(folder).values(), *records)
    looks = {record.task_sha256: record for record in known}.values()
    latest = {record.task_id: record for record in known}.values()
    records = sorted(latest, key=lambda record: (record.is_admitted, record.task_id))
    out = [
        Quarantined(task_id=r.task_id, task_sha256=r.task_sha256, reason=r.reason)
        for r in looks
        if not (r.is_admitted or r.is_undecided)
    ]
    data = b"".join(msgspec.json.encode(one) + b"\n" for one in out)
    with _writing(folder):
        for name, content in ((QUARANTINE, data), (REPORT, _report(records, unread).encode())):
            new = folder / f"{name}.{os.getpid()}.new"
            new.write_bytes(content)
            new.replace(folder / name)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = f"{error.filename or folder} cannot be written: {error.strerror}"
        raise QuarantineError(
            f"{problem}; mend that, or name another folder by --report"
        ) from error


def read_quarantine(path: Path) -> dict[str, Quarantined]:
    """Tasks that are kept out, by their digest; none where there is no such file.

    Raises:
        QuarantineError: it cannot be read.
    """
    found = {}
    for number, line in enumerate(_lines(path), 1):
        try:
            item = msgspec.json.decode(line, type=Quarantined)
        except msgspec.DecodeError as error:
            raise QuarantineError(
                f"{path}:{number}: {error}; write it anew with `envs-node tasks admit`"
            ) from error
        found[item.task_sha256] = item
    return found


def quarantine_of(folder: Path) -> dict[str, Quarantined]:
    """Tasks that are kept out by a list in this folder, above it or below: all may have been tried.

    Raises:
        QuarantineError: a list cannot be read.
    """
    found: dict[str, Quarantined] = {}
    for start in {folder.absolute(), folder.resolve()}:
        for above in start.parents:
            found |= read_quarantine(above / QUARANTINE)
    seen: set[str] = set()
    for here, folders, files in os.walk(folder.absolute(), followlinks=True):
        real = os.path.realpath(here)
        if real in seen or is_of_a_task(Path(here)):
            folders.clear()
            continue
        seen.add(real)
        if QUARANTINE in files:
            found |= read_quarantine(Path(here) / QUARANTINE)
    return found


def _report(records: Iterable[Admission], unread: Sequence[str] = ()) -> str:
    """A page for people: first what is kept out and why, then everything."""
    records = list(records)
    bad = [r for r in records if not (r.is_admitted or r.is_undecided)]
    undecided = [record for record in records if record.is_undecided]
    admitted = len(records) - len(bad) - len(undecided)
    solved = sum(record.has_solution for record in records)
    lines = [
        "# Admission",
        "",
        f"{admitted} of {len(records)} tasks are admitted; {solved} of them were "
        "driven to their solution.",
        "",
    ]
    if bad:
        lines += ["## Kept out", "", "| task | why |", "|---|---|"]
        lines += [f"| {record.task_id} | {_cell(record.reason)} |" for record in bad] + [""]
    if undecided:
        lines += ["## This host could not tell", "", "| task | why |", "|---|---|"]
        lines += [f"| {r.task_id} | {_cell(r.reason)} |" for r in undecided] + [""]
    if unread:
        lines += ["## Cannot be read", "", *(f"- {_cell(line)}" for line in unread), ""]
    lines += ["## All", "", "| task | checks | seconds | judged by |", "|---|---|---|---|"]
    for record in records:
        checks = "; ".join(f"{f.check}: {f.said}" for f in record.findings if f.check != "reading")
        lines.append(
            f"| {record.task_id} | {_cell(checks)} | {record.wall_s:g} | {record.checker} |"
        )
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise QuarantineError(f"{path} cannot be read: {error.strerror}") from error
