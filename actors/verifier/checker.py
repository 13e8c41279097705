"""Owns the checker's zygote process and asks it for verdicts."""

from __future__ import annotations

import hashlib
import os
import selectors
import shutil
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from envs_node.actors.verifier.classify import Outcome, classify
from envs_node.actors.verifier.installed import InstalledFiles
from envs_node.actors.verifier.vocabulary import CheckerSource
from envs_node.messages.base import EnvsError
from envs_node.messages.tasks import Task
from envs_node.messages.verify import Source, Verdict
from envs_node.policy.task_files import BUNDLE_SCHEME, stored_name
from envs_node.policy.task_reader import listed
from envs_node.policy.tasks import (
    is_infeasible,
    postconfig_sleep_s,
    task_json,
    unsupported_reason,
)

START_TIMEOUT_S = 60.0
_VERDICT_S, _READ_S = 60.0, 30.0
_MARGIN_S = 15.0
"""For the zygote to import a metric's packages, to kill and to answer."""
_STOP_S = 2.0
_UID_FIRST, _UID_COUNT = 61184, 4336
"""The range systemd keeps for dynamic users: nobody's files, no login."""
_LOG = "zygote.log"
_SCRIPT = Path(__file__).resolve().parent / "zygote.py"


class CheckerLostError(EnvsError):
    """The zygote died or fell silent. It is started again with the next verdict."""


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the zygote."""

    ready: int = 0
    late: bool = False
    outcome: str = ""
    load_error: str = ""
    sources: dict[str, str] = {}
    """Module and digest of the files that the task's metrics and getters were loaded from."""


class Door(NamedTuple):
    """Where a desktop is that has no process on this host."""

    host: str
    port: int
    token: str = ""
    """What its server wants as `Authorization: Bearer`, if it wants one."""


class Checker:
    """OSWorld's checker, warm. Blocking; one verdict at a time."""

    def __init__(
        self,
        source: CheckerSource,
        *,
        verdict_s: float = _VERDICT_S,
        read_s: float = _READ_S,
        label: Mapping[str, str] | None = None,
        overlay: dict[str, Path] | None = None,
        find_door: Callable[[], Door] | None = None,
    ) -> None:
        """Take an installed checker.

        Args:
            source: what `read_checker` found.
            verdict_s: deadline of a verdict; the sleeps of its postconfig come on top.
            read_s: how long one answer of a desktop may stay away.
            label: variables that mark its process, and what that starts, as the caller's.
            overlay: metrics of one's own by name, and the file each is defined in.
            find_door: where the desktop is, which then is another machine; its server's port is
                all that is reached of it.
        """
        self._source = source
        self._verdict_s = verdict_s
        self._read_s = read_s
        self._label = dict(label or {})
        self._overlay = {name: str(path) for name, path in (overlay or {}).items()}
        self._find_door = find_door
        self._installed = InstalledFiles(source.python, self._overlay)
        self._lock = threading.Lock()
        self._zygote: subprocess.Popen[bytes] | None = None
        self._root: Path | None = None
        self._uid = 0
        self._starts = 0

    @property
    def starts(self) -> int:
        """How often the zygote was started; above 1, it had died."""
        return self._starts

    @property
    def zygote_pid(self) -> int:
        """Process id of the zygote; 0 when none runs."""
        return 0 if self._zygote is None else self._zygote.pid

    @property
    def folder(self) -> Path:
        """Where the folder of each verdict is made, and removed; each zygote has its own."""
        assert self._root is not None, "a checker has a folder once it was started"
        return self._root

    def start(self) -> None:
        """Start the zygote and wait until it has imported the checker.

        Raises:
            CheckerLostError: it did not come up.
        """
        with self._lock:
            try:
                self._start()
            except CheckerLostError:
                self._stop()
                raise

    def verify(self, task: Task, guest_pid: int, last_action: Literal["DONE", "FAIL"]) -> Verdict:
        """Judge a desktop. Whatever goes wrong is a verdict, too."""
        began = time.monotonic()
        with self._lock:
            verdict = self._verify(task, guest_pid, last_action)
        return msgspec.structs.replace(
            verdict,
            wall_ms=round((time.monotonic() - began) * 1000),
            judged_ns=time.time_ns(),
            task_sha256=task.sha256,
            checker=self._source.version,
        )

    def close(self) -> None:
        """End the zygote and remove the working folder. May be called twice."""
        with self._lock:
            self._stop()

    def _verify(self, task: Task, guest_pid: int, last_action: str) -> Verdict:
        if is_infeasible(task):
            gave_up = last_action == "FAIL"
            said = "gave up, which is right" if gave_up else "did not give up"
            return Verdict(verdict="infeasible", score=float(gave_up), reason=f"the policy {said}")
        if last_action == "FAIL":
            return Verdict(verdict="failure", score=0.0, reason="the policy gave up")
        reason = unsupported_reason(task, self._source.vocabulary)
        if reason:
            return Verdict(verdict="unsupported", reason=reason)
        try:
            self._start()
            return self._order(task, guest_pid, last_action)
        except CheckerLostError as error:
            self._stop()
            return Verdict(verdict="infra", reason=str(error))
        except OSError as error:
            reason = f"the task's files cannot be laid out: {error}; see `df {self._root}`"
            return Verdict(verdict="infra", reason=reason)

    def _order(self, task: Task, guest_pid: int, last_action: str) -> Verdict:
        """Give the zygote one order in a folder of its own, which is removed in any case."""
        deadline_s = self._verdict_s + postconfig_sleep_s(task)
        work = self.folder / uuid.uuid4().hex
        try:
            gold = self._furnish(work, task)
            order = {
                "task": str(work / "task.json"),
                "work": str(work),
                "cache": str(work / "cache"),
                "guest_pid": guest_pid,
                "machine": self._find_door()._asdict() if self._find_door else None,
                "last_action": last_action,
                "deadline_s": deadline_s,
                "read_s": self._read_s,
            }
            answer = self._ask(order, deadline_s + _MARGIN_S)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        verdict = self._read(answer, gold, deadline_s)
        sources = sorted(answer.sources.items())
        lines = "\n".join(f"{module} {sha256}" for module, sha256 in sources)
        return msgspec.structs.replace(
            verdict,
            sources=tuple(Source(module=module, sha256=sha256) for module, sha256 in sources),
            checker_sha256=hashlib.sha256(lines.encode()).hexdigest() if sources else "",
        )

    def _read(self, answer: _Answer, gold: frozenset[str], deadline_s: float) -> Verdict:
        """What the answer comes to; void if other files judged than were installed."""
        if answer.load_error:
            reason = f"not importable: {answer.load_error}"
            return Verdict(verdict="checker_error", reason=reason, phase="prepare")
        if altered := self._installed.altered(answer.sources):
            reason = (
                f"the checker's files are not those that were installed: {', '.join(altered)}; "
                "see `envs-node checker install`"
            )
            return Verdict(verdict="infra", reason=reason, phase="sources")
        if answer.late:
            return Verdict(verdict="infra", reason=f"no verdict within {deadline_s:g} s")
        try:
            outcome = msgspec.json.decode(answer.outcome, type=Outcome)
        except msgspec.DecodeError as error:
            reason = f"the check ended without an answer ({error})"
            return Verdict(verdict="infra", reason=reason)
        return classify(outcome, gold)

    def _furnish(self, work: Path, task: Task) -> frozenset[str]:
        """Lay out cache, home and gold files for the unprivileged child; return the gold names."""
        work.mkdir(mode=0o711)
        for name in ("cache", "home", "tmp"):
            (work / name).mkdir(mode=0o700)
        (work / "root").mkdir()
        path = work / "task.json"
        path.write_bytes(task.json)
        path.chmod(0o644)
        files = {file.name: file.data for file in task.files}
        gold = dict(_cloud_files(task, "expected", "gold"))
        for dest, name in (gold | dict(_cloud_files(task, "result", "files"))).items():
            _lay(work / "cache" / dest, files[name])
        for dest, name in _step_files(task):
            _lay(work / dest, files[name])
        return frozenset(gold)

    def _start(self) -> None:
        if self._zygote is not None and self._zygote.poll() is None:
            return
        self._stop()
        self._root = Path(tempfile.mkdtemp(prefix="envs-node-checker-"))
        self._root.chmod(0o711)
        with (self._root / _LOG).open("wb") as log:
            self._zygote = subprocess.Popen(
                [str(self._source.python), "-I", "-W", "ignore", str(_SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._root,
                env=_environment(self._root) | self._label,
                bufsize=0,
                start_new_session=True,
            )
        self._starts += 1
        self._uid = _UID_FIRST + self._zygote.pid % _UID_COUNT
        setup = {
            "metrics": self._source.metric_modules,
            "getters": self._source.getter_modules,
            "absent": self._source.absent,
            "overlay": self._overlay,
            "uid": self._uid,
            "root": str(self._root),
        }
        self._ask(setup, START_TIMEOUT_S)

    def _stop(self) -> None:
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            assert zygote.stdin is not None, "its stdin is a pipe"
            assert zygote.stdout is not None, "its stdout is a pipe"
            zygote.stdin.close()
            try:
                zygote.wait(timeout=_STOP_S)
            except subprocess.TimeoutExpired:
                zygote.kill()
                zygote.wait()
            zygote.stdout.close()
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None

    def _ask(self, order: dict[str, Any], timeout_s: float) -> _Answer:
        zygote = self._zygote
        assert zygote is not None, "asked before it was started"
        assert zygote.stdin is not None, "its stdin is a pipe"
        assert zygote.stdout is not None, "its stdout is a pipe"
        try:
            zygote.stdin.write(msgspec.json.encode(order) + b"\n")
            data = b"".join(_until_newline(zygote.stdout.fileno(), timeout_s))
            return msgspec.json.decode(data, type=_Answer)
        except (BrokenPipeError, EOFError) as error:
            raise CheckerLostError(f"the checker's process has died{self._last_words()}") from error
        except TimeoutError as error:
            raise CheckerLostError(f"the checker was silent for {timeout_s:g} s") from error
        except msgspec.DecodeError as error:
            raise CheckerLostError(f"the checker answered nonsense: {error}") from error

    def _last_words(self) -> str:
        lines = (self.folder / _LOG).read_text("utf-8", "replace").strip().splitlines()
        return f": {lines[-1][:300]}" if lines else ""


def _until_newline(descriptor: int, timeout_s: float) -> Iterator[bytes]:
    """Read up to a newline. Raises `TimeoutError`, or `EOFError` when the other side is gone."""
    deadline = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            if not selector.select(max(deadline - time.monotonic(), 0)):
                raise TimeoutError
            piece = os.read(descriptor, 65536)
            if not piece:
                raise EOFError
            yield piece
            if piece.endswith(b"\n"):
                return


def _environment(root: Path) -> dict[str, str]:
    """One thread, so that the zygote may fork; no proxy, so that requests stay on the desktop."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return {
        **dict.fromkeys(threads, "1"),
        "HOME": str(root),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _cloud_files(
    task: Task, field: str, part: Literal["files", "gold"]
) -> Iterator[tuple[str, str]]:
    """Name in the checker's cache and in the task of every file that OSWorld would download."""
    for config in listed(task_json(task)["evaluator"].get(field)):
        if config and config.get("type") == "cloud_file":
            for path, dest in zip(listed(config["path"]), listed(config["dest"]), strict=True):
                yield dest, stored_name(path, part)


def _lay(target: Path, data: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


def _step_files(task: Task) -> Iterator[tuple[str, str]]:
    """Place in the verdict's folder and name in the task of each file a postconfig step sends."""
    for step in task_json(task)["evaluator"].get("postconfig") or []:
        for file in step["parameters"].get("files") or []:
            if step["type"] == "upload_file":
                yield f"home/{file['local_path']}", file["local_path"].removeprefix(BUNDLE_SCHEME)
            elif step["type"] == "download":
                cached = f"{uuid.uuid5(uuid.NAMESPACE_URL, file['url'])}_{Path(file['path']).name}"
                yield f"cache/{cached}", stored_name(file["url"], "files")
