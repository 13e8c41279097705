"""Where a fit stands: its checkpoints, and whose they are."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from envs_node.fit.examples import Example
from envs_node.messages.fit import FitReport, FitSettings

_OWNER = "fit.txt"
_LAST_WRITTEN = ("trainer_state.json", "rng_state.pth", "optimizer.pt", "model.safetensors")
_REPORT = "fit-report.json"


class _Done(msgspec.Struct, frozen=True, kw_only=True):
    fit: str
    report: FitReport


def digest_fit(base: str, examples: Sequence[Example], settings: FitSettings) -> str:
    """Names a fit by what goes into it: the base policy, the examples and the settings."""
    digest = hashlib.sha256(base.encode())
    digest.update(msgspec.json.encode(settings))
    for example in examples:
        digest.update(msgspec.msgpack.encode(example))
    return digest.hexdigest()


def open_checkpoints(folder: Path, fit: str) -> Path | None:
    """The last whole checkpoint of this fit, if any; another fit's are removed."""
    owner = folder / _OWNER
    if folder.is_dir() and (not owner.is_file() or owner.read_text() != fit):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    owner.write_text(fit)
    whole = [
        one
        for one in folder.glob("checkpoint-*")
        if all((one / name).is_file() for name in _LAST_WRITTEN)
    ]
    return max(whole, key=lambda one: int(one.name.rpartition("-")[2]), default=None)


def read_report(out: Path, fit: str) -> FitReport | None:
    """The report of this very fit, when it is done."""
    file = out / _REPORT
    if not file.is_file():
        return None
    try:
        done = msgspec.json.decode(file.read_bytes(), type=_Done)
    except msgspec.MsgspecError:
        return None
    return done.report if done.fit == fit else None


def write_report(out: Path, fit: str, report: FitReport) -> None:
    """Say that this fit is done. The last thing a fit writes."""
    data = msgspec.json.format(msgspec.json.encode(_Done(fit=fit, report=report)))
    partial = out / (_REPORT + ".partial")
    partial.write_bytes(data)
    partial.replace(out / _REPORT)
