"""Judges one desktop inside a forked child of the zygote, with OSWorld's own `evaluate`.

Loaded by file in the checker's own Python; knows nothing of envs_node. It keeps what `evaluate`
would hide: in whose part an exception arose, and through its guard every request with its answer.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import json
import math
import sys
from pathlib import Path
from typing import Any

_EVIDENCE_MAX = 200
_CAUSES_MAX = 16


class _Env:
    """The attributes of OSWorld's DesktopEnv that `evaluate` and the getters use."""

    vm_ip = "127.0.0.1"
    server_port = 5000
    chromium_port = 9222
    vlc_port = 8080
    vm_platform = "Linux"
    vm_machine = "x86_64"
    current_use_proxy = False
    enable_proxy = False
    is_environment_used = True
    client_password = "password"

    evaluator: dict[str, Any]
    result_getter: Any
    expected_getter: Any
    metric: Any

    def __init__(self, cache_dir: str, last_action: str, guard: Any) -> None:
        controllers = importlib.import_module("desktop_env.controllers.python")
        setups = importlib.import_module("desktop_env.controllers.setup")
        vars(setups)["MAX_RETRIES"] = 1
        guard.pace(controllers)
        guard.pace(setups)
        self.cache_dir = cache_dir
        self.action_history = [last_action]
        self.controller = controllers.PythonController(self.vm_ip, self.server_port)
        self.controller.retry_times = 1
        self.controller.retry_interval = 0
        self.setup_controller = setups.SetupController(
            self.vm_ip,
            self.server_port,
            self.chromium_port,
            self.vlc_port,
            cache_dir=cache_dir,
            client_password=self.client_password,
        )


class NoNumberError(Exception):
    """A metric returned what is no finite number. OSWorld's mean of several would hide it."""


class _Judgement:
    """One verdict in the making: how far it came, and what ended it."""

    def __init__(self, guard: Any) -> None:
        self.guard = guard
        self.value: Any = None
        self.error: dict[str, str] | None = None

    def __enter__(self) -> _Judgement:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, _: Any) -> bool:
        """Keep whatever was raised, SystemExit and the like included, and end it here."""
        if kind is not None:
            kinds = _kinds(error)
            self.error = {
                "kind": kind.__name__,
                "text": str(error)[:500],
                "phase": self.guard.phase,
                "file": str(getattr(error, "filename", "") or ""),
                "is_absent": str("AbsentPackageError" in kinds),
                "is_refused": str(not kinds.isdisjoint(("RefusedError", "UnwatchedError"))),
            }
        return True

    def enter(self, phase: str, function: Any) -> Any:
        """Wrap a getter or metric so that it is known in which one an exception arose."""
        if isinstance(function, list):
            return [self.enter(phase, one) for one in function]
        if function is None:
            return None

        def call(*arguments: Any, **named: Any) -> Any:
            self.guard.phase = phase
            value = function(*arguments, **named)
            if phase == "metric" and _number(value) is None:
                raise NoNumberError(type(value).__name__)
            return value

        return call


def _kinds(error: BaseException | None) -> set[str]:
    """Names of what was raised and of what it was raised from, for OSWorld wraps some."""
    kinds: set[str] = set()
    while error is not None and len(kinds) < _CAUSES_MAX:
        kinds.add(type(error).__name__)
        error = error.__cause__
    return kinds


def _number(value: Any) -> float | None:
    """The score as a finite float; None for anything that is not one."""
    if not hasattr(value, "__float__") or isinstance(value, str):
        return None
    with contextlib.suppress(TypeError, ValueError, ArithmeticError):
        number = float(value)
        return number if math.isfinite(number) else None
    return None


def _evidence(cache: Path) -> list[dict[str, Any]]:
    """Name, digest and size of the files that the checker had before it."""
    rows: list[dict[str, Any]] = []
    for path in sorted(cache.rglob("*"))[:_EVIDENCE_MAX]:
        if path.is_file() and not path.is_symlink():
            name, size_bytes, digest = str(path.relative_to(cache)), path.stat().st_size, ""
            with contextlib.suppress(PermissionError):  # the metric may have closed it
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
            rows.append({"name": name, "sha256": digest, "bytes": size_bytes})
    return rows


def _take_literally() -> None:
    """Have OSWorld's `eval` of what a desktop says read literals, and run nothing."""
    for name in [name for name in sys.modules if name.startswith("desktop_env.evaluators.")]:
        vars(sys.modules[name])["eval"] = ast.literal_eval


def judge(order: dict[str, Any], guards: Any) -> dict[str, Any]:
    """Evaluate one task, with OSWorld's own functions, in this process.

    Args:
        order: what the checker's owner wants.
        guards: the module of that name.
    """
    desktop = importlib.import_module("desktop_env.desktop_env").DesktopEnv
    guard = guards.Guard((order["machine"] or {}).get("token", ""), order["read_s"])
    guard.install()
    if not guard.probe():
        return {"alive_before": False, "exchanges": guard.exchanges}
    judgement = _Judgement(guard)
    guard.phase = "prepare"
    score: float | None = None
    with judgement:
        env = _Env(order["cache"], order["last_action"], guard)
        desktop._set_evaluator_info(env, json.loads(Path(order["task"]).read_bytes()))
        _take_literally()
        env.result_getter = judgement.enter("result", env.result_getter)
        env.expected_getter = judgement.enter("gold", env.expected_getter)
        env.metric = judgement.enter("metric", env.metric)
        guard.phase = "postconfig"
        judgement.value = desktop.evaluate(env)
        guard.phase = "score"
        score = _number(judgement.value)
    return {
        "alive_before": True,
        "alive_after": not guard.lost and guard.probe(),
        "lost": guard.lost,
        "error": judgement.error,
        "score": score,
        "value": type(judgement.value).__name__,
        "exchanges": guard.exchanges,
        "evidence": _evidence(Path(order["cache"])),
    }
