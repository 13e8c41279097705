"""Evaluators for files and programs that tasks change, out of OSWorld's metrics."""

from __future__ import annotations

from collections.abc import Iterable

from envs_node.deploy.tasks.osworld import Json, compare, prints


def lists(folder: str, tree: Iterable[str]) -> Json:
    """All that lies in a folder, at any depth, is this tree; its folders end in a slash."""
    kinds = (f"d {path[:-1]}" if path.endswith("/") else f"f {path}" for path in tree)
    printed = "".join(f"{line}\n" for line in sorted(kinds))
    script = f"cd {folder} && find . -mindepth 1 -printf '%y %P\\n' | LC_ALL=C sort"
    return prints(["sh", "-c", script], printed)


def passes_suite(path: str, suite: str) -> Json:
    """A Python file of the desktop passes `test` of a gold file.

    The suite finds the file beside itself, under its own name.
    """
    beside: Json = {"type": "vm_file", "path": path, "dest": path.rsplit("/", 1)[-1]}
    func = "check_python_file_by_test_suite"
    return compare(func, path, suite, test_function_name="test") | {"result": beside}


def holds(func: str, path: str, expected: object) -> Json:
    """A file of the desktop is what a rule expects."""
    rule: Json = {"type": "rule", "rules": {"expected": expected}}
    return compare(func, path, "") | {"expected": rule}
