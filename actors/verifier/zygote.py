"""Runs in the checker's own Python: imports OSWorld's evaluators once, forks one child a verdict.

A plain single-threaded script that knows nothing of envs_node. It reads one JSON object a line from
standard input and answers with one line on standard output. The owner's death is seen as the end of
standard input, and nothing started here survives it.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import select
import shutil
import signal
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_METRICS = "desktop_env.evaluators.metrics"
_GETTERS = "desktop_env.evaluators.getters"
_ALWAYS = tuple(
    f"desktop_env.{name}" for name in ("desktop_env", "controllers.python", "controllers.setup")
)
"""What every verdict goes through."""
_OUTCOME_BYTES_MAX = 4 * 1024**2


class AbsentPackageError(BaseException):
    """A package that is not installed was used. No `except Exception` of a metric may hide it."""


class _AbsentMeta(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AbsentPackageError(f"{cls.__module__}.{cls.__qualname__}.{name}")

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        raise AbsentPackageError(f"{cls.__module__}.{cls.__qualname__}")


class _AbsentModule(types.ModuleType):
    """Stands for a package that is not installed: it can be imported, and not used."""

    __path__: list[str] = []  # noqa: RUF012 - a package needs one; it stays empty

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _AbsentMeta(name, (), {"__module__": self.__name__})


class _AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the absent packages and whatever is imported from inside them."""

    def __init__(self, names: list[str]) -> None:
        self._names = frozenset(names)

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] not in self._names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _AbsentModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


class _LazyPackage(types.ModuleType):
    """OSWorld's `metrics` or `getters`, importing only the submodule that a name lies in."""

    def __init__(self, name: str, folder: Path, modules: dict[str, str]) -> None:
        super().__init__(name)
        self.__path__ = [str(folder)]
        self._modules = modules

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self._modules:
            raise AttributeError(f"{self.__name__} has no {name}")
        value = getattr(importlib.import_module(self._modules[name]), name)
        setattr(self, name, value)
        return value


class _Caught:
    """Ends whatever is raised inside it, and keeps it."""

    error: dict[str, str] | None = None

    def __enter__(self) -> _Caught:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, _: Any) -> bool:
        if kind is not None:
            self.error = {"kind": kind.__name__, "text": str(error)[:500], "phase": "enter"}
        return True


def _child(order: dict[str, Any], answer_fd: int, setup: dict[str, Any]) -> None:
    """Judge in namespaces of its own and write the outcome to a pipe. Never returns.

    The first process, still the owner's, enters the namespaces and waits; the second judges, as the
    namespace's process 1, so that nothing it starts outlives it.
    """
    try:
        setup["jail"].die_with_parent()
        os.setsid()
        _close_all_but(answer_fd)
        entered = _Caught()
        with entered:
            _enter(order, answer_fd, setup)
            judging = os.fork()
            if judging == 0:
                _judging_child(order, answer_fd, setup)
            os.waitpid(judging, 0)
        if entered.error is not None:
            _write(answer_fd, {"alive_before": False, "error": entered.error})
    finally:
        os._exit(0)


def _enter(order: dict[str, Any], answer_fd: int, setup: dict[str, Any]) -> None:
    """Move to where the desktop is, and nothing else."""
    jail, bridge, machine = setup["jail"], setup["bridge"], order["machine"]
    if machine is None:
        jail.enter(order["guest_pid"], setup["uid"])
        return
    relay = bridge.start(machine, setup["uid"], jail, answer_fd)
    jail.enter_nowhere(setup["uid"])
    bridge.open_door(relay)


def _judging_child(order: dict[str, Any], answer_fd: int, setup: dict[str, Any]) -> None:
    try:
        caught = _Caught()
        outcome: dict[str, Any] = {}
        with caught:
            setup["jail"].confine(order["work"], setup["uid"])
            setup["jail"].die_with_parent()
            outcome = setup["judge"].judge(order, setup["guard"])
        if caught.error is not None:
            outcome = {"alive_before": False, "error": caught.error}
        _write(answer_fd, outcome)
    finally:
        os._exit(0)


def _write(answer_fd: int, outcome: dict[str, Any]) -> None:
    # A file's name, or what was raised, may hold what is no Unicode.
    data = json.dumps(outcome, ensure_ascii=False).encode(errors="replace") + b"\n"
    while data:
        data = data[os.write(answer_fd, data) :]


def _close_all_but(answer_fd: int) -> None:
    """Leave a child nothing of the zygote's: not its standard streams, not the owner's pipe."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.closerange(3, answer_fd)
    os.closerange(answer_fd + 1, 4096)


def _kill_children() -> None:
    """Kill every descendant: orphans come to us, for we are their subreaper."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while pids := children.read_text().split():
        for pid in pids:
            os.kill(int(pid), signal.SIGKILL)
        os.waitpid(-1, 0)


def _load(order: dict[str, Any], prints: Any) -> dict[str, str]:
    """Import, before the fork, what this task's evaluator names; children then share it.

    Returns the digest of every file of the checker that these functions rest on.
    """
    evaluator = json.loads(Path(order["task"]).read_bytes())["evaluator"]
    funcs = evaluator["func"] if isinstance(evaluator["func"], list) else [evaluator["func"]]
    functions = [getattr(sys.modules[_METRICS], name) for name in funcs]
    for field in ("result", "expected"):
        configs = evaluator.get(field) or []
        for config in configs if isinstance(configs, list) else [configs]:
            if config:
                functions.append(getattr(sys.modules[_GETTERS], f"get_{config['type']}"))
    digests: dict[str, str] = prints.of(functions, _ALWAYS)
    return digests


def _serve(order: dict[str, Any], setup: dict[str, Any]) -> dict[str, Any]:
    """Fork a child for one order, wait for it under the deadline, and leave nothing behind."""
    loaded = _Caught()
    sources: dict[str, str] = {}
    with loaded:
        sources = _load(order, setup["prints"])
    if loaded.error is not None:
        return {"load_error": "{kind}: {text:.300}".format(**loaded.error)}
    read_fd, write_fd = os.pipe()
    if os.fork() == 0:
        os.close(read_fd)
        _child(order, write_fd, setup)
    os.close(write_fd)
    deadline = time.monotonic() + order["deadline_s"]
    data = b""
    is_late = False
    while True:
        left_s = deadline - time.monotonic()
        ready = select.select([read_fd, 0], [], [], max(left_s, 0))[0]
        if 0 in ready:
            _kill_children()
            sys.exit("the owner left in the middle of a verdict")
        if read_fd not in ready:
            is_late = True
            break
        piece = os.read(read_fd, 65536)
        data += piece
        if not piece or piece.endswith(b"\n") or len(data) > _OUTCOME_BYTES_MAX:
            break
    os.close(read_fd)
    _kill_children()
    return {"late": is_late, "outcome": data.decode(errors="replace"), "sources": sources}


def _load_file(name: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, f"{path} is no Python file"
    assert spec.loader is not None, f"{path} is no Python file"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _prepare(setup: dict[str, Any]) -> None:
    """Make OSWorld importable as it is installed here, and import what every verdict needs."""
    sys.meta_path.append(_AbsentFinder(setup["absent"]))
    evaluators = importlib.import_module("desktop_env.evaluators")
    folder = Path(next(iter(evaluators.__path__)))
    for name, key in ((_METRICS, "metrics"), (_GETTERS, "getters")):
        package = _LazyPackage(name, folder / key, setup[key])
        sys.modules[name] = package
        setattr(evaluators, key, package)
    for name, path in setup["overlay"].items():
        overlaid = _load_file(f"overlay_{name}", path)
        sys.modules[overlaid.__name__] = overlaid
        setattr(sys.modules[_METRICS], name, getattr(overlaid, name))
    importlib.import_module("desktop_env.desktop_env")
    importlib.import_module(f"{_GETTERS}.file")
    for name in ("judge", "guard", "jail", "bridge", "prints"):
        setup[name] = _load_file(name, str(Path(__file__).with_name(f"{name}.py")))
    setup["jail"].adopt_orphans()


def _read_lines() -> Iterator[dict[str, Any]]:
    """Read the owner's orders until it closes standard input or ends."""
    pending = b""
    while piece := os.read(0, 65536):
        pending += piece
        *lines, pending = pending.split(b"\n")
        for line in lines:
            yield json.loads(line)


def main() -> None:
    """Serve orders until standard input ends, then remove the working folder."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.umask(0o022)  # folders of the root that it makes are entered by another user
    orders = _read_lines()
    setup = next(orders)
    try:
        _prepare(setup)
        answers.write(json.dumps({"ready": os.getpid()}) + "\n")
        answers.flush()
        for order in orders:
            answers.write(json.dumps(_serve(order, setup)) + "\n")
            answers.flush()
    finally:
        shutil.rmtree(setup["root"], ignore_errors=True)


if __name__ == "__main__":
    main()
