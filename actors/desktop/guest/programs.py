"""Programs: run one and wait, start one and leave it, run a script."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
import time
from typing import Any

from envs_node.actors.desktop.guest.answer import Fields, RefusedError, failed
from envs_node.actors.desktop.guest.running import run

EXECUTE_TIMEOUT_S = 120.0
PYTHON_TIMEOUT_S = 30.0
_VERIFY_TIMEOUT_S = 5.0
_WAIT_S_MAX = 600.0
_FAILURES = (OSError, ValueError, IndexError, TypeError, subprocess.SubprocessError)


def execute(request: Fields) -> Fields:
    """Run a command and wait for it."""
    try:
        command, is_shell = _command_of(request)
        done = run(command, is_shell=is_shell, timeout_s=EXECUTE_TIMEOUT_S)
    except _FAILURES as error:
        raise failed(error) from error
    return {
        "status": "success",
        "output": done.output,
        "error": done.error,
        "returncode": done.status,
    }


def execute_with_verification(request: Fields) -> Fields:
    """Run a command, and wait until a window is there or another command succeeds."""
    answer = execute(request)
    wanted = request.get("verification") or {}
    wait_s = min(float(request.get("max_wait_time", 10)), _WAIT_S_MAX)
    interval_s = max(float(request.get("check_interval", 1)), 0.05)
    start = time.monotonic()
    while not _is_verified(wanted):
        if time.monotonic() - start + interval_s > wait_s:
            message = f"Verification failed after {wait_s:g} seconds"
            raise RefusedError(500, {**answer, "status": "verification_failed", "message": message})
        time.sleep(interval_s)
    waited_s = time.monotonic() - start
    return {**answer, "verification": "passed", "wait_time": round(waited_s, 3)}


class Launches:
    """Programs that were started and left running. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._programs: list[subprocess.Popen[bytes]] = []
        """Those that run, or whose end nobody has asked for yet; the last launched last."""

    def launch(self, request: Fields) -> str:
        """Start a command and leave it running."""
        try:
            command, is_shell = _command_of(request)
            program = subprocess.Popen(
                command,
                shell=is_shell,
                start_new_session=True,
                cwd=os.path.expanduser("~"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except _FAILURES as error:
            raise failed(error) from error
        # An ended program stays a process, and is found by name, until somebody has waited for it.
        threading.Thread(target=program.wait, daemon=True).start()
        with self._lock:
            running = [other for other in self._programs if other.poll() is None]
            self._programs = [*running, program]
        text = command if isinstance(command, str) else " ".join(command)
        return f"{text} launched successfully"

    def last(self, _request: Fields) -> Fields:
        """How the program launched last has ended. OSWorld's server says nothing of it."""
        with self._lock:
            if not self._programs:
                raise RefusedError(404, {"status": "error", "message": "nothing was launched"})
            return {"pid": self._programs[-1].pid, "returncode": self._programs[-1].poll()}


def run_python(request: Fields) -> Fields:
    """Run Python source in a fresh interpreter."""
    code = request.get("code")
    if not isinstance(code, str) or not code:
        raise RefusedError(400, {"status": "error", "message": "Code not supplied!"})
    return _run_script(["/usr/bin/python3", "-"], code, PYTHON_TIMEOUT_S, None, merge=False)


def run_bash_script(request: Fields) -> Fields:
    """Run a bash script; its two outputs come as one."""
    script = request.get("script")
    if not isinstance(script, str) or not script:
        message = "Script not supplied!"
        raise RefusedError(
            400, {"status": "error", "output": message, "error": "", "returncode": -1}
        )
    timeout_s = float(request.get("timeout", 100))
    folder = request.get("working_dir")
    answer = _run_script(["/bin/bash", "-s"], script, timeout_s, folder, merge=True)
    return {
        "status": answer["status"],
        "output": answer["output"],
        "error": "",
        "returncode": answer["return_code"],
    }


def _command_of(request: Fields) -> tuple[Any, bool]:
    """The command of a request as subprocess takes it, and whether a shell reads it."""
    is_shell = bool(request.get("shell", False))
    command = request.get("command", "" if is_shell else [])
    if isinstance(command, str) and not is_shell:
        command = shlex.split(command)
    words = command if isinstance(command, list) else [command]
    if not all(isinstance(word, str) for word in words):
        raise ValueError(f"`command` is {command!r:.100}, not a string or a list of strings")
    if isinstance(command, list):
        command = [os.path.expanduser(p) if p.startswith("~/") else p for p in command]
        if is_shell:
            command = " ".join(command)
    return command, is_shell


def _is_verified(wanted: Fields) -> bool:
    title, command = wanted.get("window_exists"), wanted.get("command_success")
    try:
        if title:
            listed = run(["wmctrl", "-l"], timeout_s=_VERIFY_TIMEOUT_S)
            if str(title).lower() not in listed.output.lower():
                return False
        if command:
            return run(str(command), is_shell=True, timeout_s=_VERIFY_TIMEOUT_S).status == 0
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _run_script(
    argv: list[str], source: str, timeout_s: float, folder: str | None, *, merge: bool
) -> Fields:
    answer: Fields = {
        "status": "success",
        "message": "",
        "need_more": False,
        "output": "",
        "error": "",
        "return_code": 0,
    }
    try:
        done = run(argv, source=source, timeout_s=timeout_s, folder=folder, merge=merge)
    except subprocess.TimeoutExpired:
        answer.update(
            status="error",
            message=f"Execution timeout: {timeout_s:g} s",
            error="TimeoutExpired",
            return_code=-1,
        )
        return answer
    except (OSError, ValueError, TypeError) as error:
        raise failed(error) from error
    answer.update(
        output=done.output,
        error=done.error,
        message=done.output + done.error,
        return_code=done.status,
    )
    if done.status:
        answer["status"] = "error"
    return answer
