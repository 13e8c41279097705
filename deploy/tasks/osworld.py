"""The parts of OSWorld's task format that the bundled tasks use: set-up steps and evaluators."""

from __future__ import annotations

from collections.abc import Iterable

Json = dict[str, object]

HOME = "/home/user"


def upload(*names: str, folder: str = HOME) -> Json:
    """A set-up step that puts input files into a folder of the desktop."""
    files = [{"local_path": f"files/{name}", "path": f"{folder}/{name}"} for name in names]
    return {"type": "upload_file", "parameters": {"files": files}}


def upload_tree(paths: Iterable[str], folder: str = HOME) -> tuple[Json, ...]:
    """Set-up steps that put input files into a folder, those with folders in their paths below it.

    The task's own files have the paths' last parts for names.
    """
    return tuple(
        upload(name, folder=f"{folder}/{within}" if within else folder)
        for within, _, name in (path.rpartition("/") for path in paths)
    )


def launch(*command: str) -> Json:
    """A set-up step that starts an application."""
    return {"type": "launch", "parameters": {"command": list(command)}}


def compare(func: str, path: str, gold: str, **options: object) -> Json:
    """An evaluator: a file of the desktop against a gold file."""
    evaluator: Json = {
        "func": func,
        "result": _desktop_file(path),
        "expected": _gold_file(gold),
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


def _desktop_file(path: str) -> Json:
    """The checker's getter for a file of the desktop, named apart from the gold file."""
    return {"type": "vm_file", "path": path, "dest": f"result-{path.rsplit('/', 1)[-1]}"}


def _gold_file(name: str) -> Json:
    """The checker's getter for a gold file, which the verifier lays into its cache."""
    return {"type": "cloud_file", "path": f"bundle://gold/{name}", "dest": name}
