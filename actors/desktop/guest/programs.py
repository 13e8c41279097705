"""Programs: run one and wait, start one and leave it, run a script."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import Any

from envs_node.actors.desktop.guest.answer import Fields, RefusedError

EXECUTE_TIMEOUT_S = 120
PYTHON_TIMEOUT_S = 30
_launched: list[subprocess.Popen[bytes]] = []
"""Programs that run, or whose end nobody has asked for yet; the last launched last."""


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


def execute(request: Fields) -> Fields:
    """Run a command and wait for it."""
    try:
        command, is_shell = _command_of(request)
        result = subprocess.run(
            command,
            shell=is_shell,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=EXECUTE_TIMEOUT_S,
            cwd=os.path.expanduser("~"),
        )
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        raise RefusedError(500, {"status": "error", "message": str(error)}) from error
    return {
        "status": "success",
        "output": result.stdout,
        "error": result.stderr,
        "returncode": result.returncode,
    }


def launch(request: Fields) -> str:
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
    except (OSError, ValueError, IndexError) as error:
        raise RefusedError(500, {"status": "error", "message": str(error)}) from error
    _launched[:] = [*(other for other in _launched if other.poll() is None), program]
    text = command if isinstance(command, str) else " ".join(command)
    return f"{text} launched successfully"


def launched(_request: Fields) -> Fields:
    """How the program that was launched last has ended. OSWorld's server says nothing of it."""
    if not _launched:
        raise RefusedError(404, {"status": "error", "message": "nothing was launched"})
    return {"pid": _launched[-1].pid, "returncode": _launched[-1].poll()}


def run_python(request: Fields) -> Fields:
    """Run Python source in a fresh interpreter."""
    code = request.get("code")
    if not code:
        raise RefusedError(400, {"status": "error", "message": "Code not supplied!"})
    return _run_script(["/usr/bin/python3", "-"], code, PYTHON_TIMEOUT_S, None, merge=False)


def run_bash_script(request: Fields) -> Fields:
    """Run a bash script; its two outputs come as one."""
    script = request.get("script")
    if not script:
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
        result = subprocess.run(
            argv,
            input=source,
            text=True,
            errors="replace",
            timeout=timeout_s,
            cwd=folder or os.path.expanduser("~"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge else subprocess.PIPE,
        )
    except subprocess.TimeoutExpired:
        answer.update(
            status="error",
            message=f"Execution timeout: {timeout_s:g} s",
            error="TimeoutExpired",
            return_code=-1,
        )
        return answer
    except OSError as error:
        raise RefusedError(500, {"status": "error", "message": str(error)}) from error
    output, errors = result.stdout, result.stderr or ""
    answer.update(
        output=output, error=errors, message=output + errors, return_code=result.returncode
    )
    if result.returncode:
        answer["status"] = "error"
    return answer
