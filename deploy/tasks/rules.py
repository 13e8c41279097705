"""Evaluators that need no gold file: what one of the checker's getters finds, against rules."""

from __future__ import annotations

from envs_node.deploy.tasks.osworld import Json


def getter(kind: str, **settings: object) -> Json:
    """One of the checker's getters."""
    return {"type": kind, **settings}


def file_at(path: str) -> Json:
    """The getter for a file of the desktop."""
    return getter("vm_file", path=path, dest=f"result-{path.rsplit('/', 1)[-1]}")


def meets(func: str, result: Json, rules: object) -> Json:
    """An evaluator: what a getter finds, against rules."""
    return {"func": func, "result": result, "expected": getter("rule", rules=rules)}


def equals(result: Json, expected: str) -> Json:
    """An evaluator: what a getter finds is this text."""
    return meets("exact_match", result, {"expected": expected})


def after(ended: str, evaluator: Json) -> Json:
    """The same evaluator once a program has been told to end, and so has written its files."""
    step = {"type": "execute", "parameters": {"command": ["pkill", ended]}}
    return {**evaluator, "postconfig": [step]}
