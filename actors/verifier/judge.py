"""Judges one desktop inside a forked child of the zygote, with OSWorld's own `evaluate`.

Loaded by file in the checker's own Python; knows nothing of envs_node. It keeps what `evaluate`
would hide: every request with its answer, and in whose part an exception arose.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_DESKTOP_PORT = 5000
_DESKTOP_PORTS = (_DESKTOP_PORT, 9222, 1337, 8080)
"""OSWorld's server, Chrome's debugging port twice, VLC's HTTP face."""
_CONNECT_S, _READ_S, _PROBE_S = 5.0, 30.0, 5.0
_RETRY_S = 0.05
_EXCHANGES_MAX = 500
_EVIDENCE_MAX = 200


class _Env:
    """The attributes of OSWorld's DesktopEnv that `evaluate` and the getters use."""

    vm_ip = "127.0.0.1"
    server_port = _DESKTOP_PORT
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

    def __init__(self, cache_dir: str, last_action: str) -> None:
        controllers = importlib.import_module("desktop_env.controllers.python")
        setups = importlib.import_module("desktop_env.controllers.setup")
        vars(setups)["MAX_RETRIES"] = 1
        self.cache_dir = cache_dir
        self.action_history = [last_action]
        self.controller = controllers.PythonController(self.vm_ip, self.server_port)
        self.controller.retry_interval = _RETRY_S
        self.setup_controller = setups.SetupController(
            self.vm_ip,
            self.server_port,
            self.chromium_port,
            self.vlc_port,
            cache_dir=cache_dir,
            client_password=self.client_password,
        )


class _Judgement:
    """One verdict in the making: what was done, what was said, how far it came."""

    def __init__(self) -> None:
        self.phase = "prepare"
        self.exchanges: list[dict[str, Any]] = []
        self.value: Any = None
        self.error: dict[str, str] | None = None

    def __enter__(self) -> _Judgement:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, _: Any) -> bool:
        """Keep whatever was raised, SystemExit and the like included, and end it here."""
        if kind is not None:
            self.error = {
                "kind": kind.__name__,
                "text": str(error)[:500],
                "phase": self.phase,
                "file": str(getattr(error, "filename", "") or ""),
                "is_absent": str(kind.__name__ == "AbsentPackageError"),
                "is_refused": str(kind.__name__ == "RefusedError"),
            }
        return True

    def enter(self, phase: str, function: Any) -> Any:
        """Wrap a getter or metric so that it is known in which one an exception arose."""
        if isinstance(function, list):
            return [self.enter(phase, one) for one in function]
        if function is None:
            return None

        def call(*arguments: Any, **named: Any) -> Any:
            self.phase = phase
            return function(*arguments, **named)

        return call


def _guard(judgement: _Judgement, token: str) -> None:
    """Give every request a timeout, let it reach only the desktop, and write down its answer.

    Args:
        token: what the desktop's server wants with each, if it wants one.
    """
    requests = importlib.import_module("requests")
    plain = requests.Session.request

    class RefusedError(requests.exceptions.ConnectionError):  # type: ignore[misc, name-defined]
        """The checker wanted to reach something else than the desktop."""

    def note(**row: Any) -> None:
        if len(judgement.exchanges) < _EXCHANGES_MAX:
            judgement.exchanges.append({"phase": judgement.phase, **row})

    def request(self: Any, method: str, url: str, **named: Any) -> Any:
        where = urlsplit(str(url))
        row = {"method": method.upper(), "path": where.path, "status": 0, "bytes": 0, "error": ""}
        if where.hostname != _Env.vm_ip or where.port not in _DESKTOP_PORTS:
            note(**{**row, "path": f"{where.netloc}{where.path}"[:300], "error": "refused"})
            raise RefusedError(f"{where.netloc} is not the desktop")
        if named.get("timeout") is None:
            named["timeout"] = (_CONNECT_S, _READ_S)
        if token:
            named["headers"] = {"Authorization": f"Bearer {token}", **(named.get("headers") or {})}
        try:
            answer = plain(self, method, url, **named)
        except requests.exceptions.RequestException as error:
            note(**{**row, "error": type(error).__name__})
            raise
        size = -1 if named.get("stream") else len(answer.content)
        note(**{**row, "status": answer.status_code, "bytes": size})
        return answer

    requests.Session.request = request


def _is_alive() -> bool:
    """Ask the desktop for its terminal, as OSWorld's set-up does. The guard writes it down."""
    requests = importlib.import_module("requests")
    try:
        answer = requests.get(
            f"http://{_Env.vm_ip}:{_DESKTOP_PORT}/terminal", timeout=(_PROBE_S, _PROBE_S)
        )
    except requests.exceptions.RequestException:
        return False
    return bool(answer.status_code == 200)


def _number(value: Any) -> float | None:
    """The score as a finite float; None for anything that is not one."""
    if not hasattr(value, "__float__") or isinstance(value, str):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _evidence(cache: Path) -> list[dict[str, Any]]:
    """Name, digest and size of the files that the checker had before it."""
    rows: list[dict[str, Any]] = []
    for path in sorted(cache.rglob("*"))[:_EVIDENCE_MAX]:
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            rows.append(
                {
                    "name": str(path.relative_to(cache)),
                    "sha256": hashlib.sha256(data).hexdigest(),
                    "bytes": len(data),
                }
            )
    return rows


def judge(order: dict[str, Any]) -> dict[str, Any]:
    """Evaluate one task, with OSWorld's own functions, in this process."""
    desktop = importlib.import_module("desktop_env.desktop_env").DesktopEnv
    judgement = _Judgement()
    _guard(judgement, (order["machine"] or {}).get("token", ""))
    judgement.phase = "probe"
    if not _is_alive():
        return {"alive_before": False, "exchanges": judgement.exchanges}
    score: float | None = None
    with judgement:
        env = _Env(order["cache"], order["last_action"])
        desktop._set_evaluator_info(env, json.loads(Path(order["task"]).read_bytes()))
        env.result_getter = judgement.enter("result", env.result_getter)
        env.expected_getter = judgement.enter("gold", env.expected_getter)
        env.metric = judgement.enter("metric", env.metric)
        judgement.phase = "postconfig"
        judgement.value = desktop.evaluate(env)
        judgement.phase = "score"
        score = _number(judgement.value)
    judgement.phase = "probe"
    return {
        "alive_before": True,
        "alive_after": _is_alive(),
        "error": judgement.error,
        "score": score,
        "value": type(judgement.value).__name__,
        "exchanges": judgement.exchanges,
        "evidence": _evidence(Path(order["cache"])),
    }
