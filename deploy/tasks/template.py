"""What a template is, and how its instances become OSWorld task files."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from envs_node.messages.actions import Finish, Key, Type

Split = Literal["train", "held-out"]
Json = dict[str, object]

HOME = "/home/user"


class ClickOn(msgspec.Struct, frozen=True):
    """A click on a listed element, found by role and name on the screen as it is then."""

    role: str
    name: str
    count: int = 1


OracleStep = ClickOn | Key | Type | Finish
"""A step of a solution, used by tests alone."""


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One task of a template, before it has an id."""

    instruction: str
    config: tuple[Json, ...]
    """OSWorld set-up steps."""
    evaluator: Json
    """OSWorld evaluator."""
    oracle: tuple[OracleStep, ...]
    files: Mapping[str, bytes] = {}
    """Input files by name; the set-up uploads them."""
    gold: Mapping[str, bytes] = {}
    """What the checker compares with, by name."""


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A family of tasks that differ in words and numbers alone."""

    name: str
    app: str
    split: Split
    """A held-out template is never trained on; a train template has held-out instances too."""
    make: Callable[[random.Random], Instance]


def upload(*names: str, folder: str = HOME) -> Json:
    """A set-up step that puts input files into a folder of the desktop."""
    files = [{"local_path": f"files/{name}", "path": f"{folder}/{name}"} for name in names]
    return {"type": "upload_file", "parameters": {"files": files}}


def launch(*command: str) -> Json:
    """A set-up step that starts an application."""
    return {"type": "launch", "parameters": {"command": list(command)}}


def desktop_file(path: str) -> Json:
    """The checker's getter for a file of the desktop, named apart from the gold file."""
    return {"type": "vm_file", "path": path, "dest": f"result-{path.rsplit('/', 1)[-1]}"}


def gold_file(name: str) -> Json:
    """The checker's getter for a gold file, which the verifier lays into its cache."""
    return {"type": "cloud_file", "path": f"bundle://gold/{name}", "dest": name}


def compare(func: str, path: str, gold: str, **options: object) -> Json:
    """An evaluator: a file of the desktop against a gold file."""
    evaluator: Json = {
        "func": func,
        "result": desktop_file(path),
        "expected": gold_file(gold),
    }
    return evaluator | ({"options": options} if options else {})


def prints(command: list[str], expected: str) -> Json:
    """An evaluator: what a command prints on the desktop, to the letter."""
    return {
        "func": "exact_match",
        "result": {"type": "vm_command_line", "command": command},
        "expected": {"type": "rule", "rules": {"expected": expected}},
    }


def all_of(*evaluators: Json) -> Json:
    """An evaluator that wants every one of these."""
    return {
        "func": [each["func"] for each in evaluators],
        "conj": "and",
        "result": [each["result"] for each in evaluators],
        "expected": [each["expected"] for each in evaluators],
        "options": [each.get("options", {}) for each in evaluators],
    }


def task_json(task_id: str, template: Template, split: Split, instance: Instance) -> bytes:
    """The task file, the same bytes for the same instance."""
    document: Json = {
        "id": task_id,
        "snapshot": template.app,
        "instruction": instance.instruction,
        "source": "envs-node bundled tasks",
        "config": list(instance.config),
        "trajectory": "trajectories/",
        "related_apps": [template.app],
        "evaluator": instance.evaluator,
        "proxy": False,
        "fixed_ip": False,
        "possibility_of_env_change": "low",
        "template": template.name,
        "split": split,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
