"""Learns what the installed checker knows by reading its source, without importing it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from envs_node.messages.base import EnvsError
from envs_node.policy.tasks import Vocabulary

ORIGIN_FILE = "envs-node.origin.json"
_PACKAGE = "desktop_env"
_WHOLE = frozenset(
    f"{_PACKAGE}.{name}"
    for name in ("evaluators.metrics", "evaluators.getters", "controllers.setup")
)
"""Modules without which it is no checker."""
_UNWRITTEN_SETUPS = frozenset({"tidy_desktop", "act", "replay"})
"""Declared by OSWorld, and they raise NotImplementedError."""


class CheckerMissingError(EnvsError):
    """The checker's environment is not there, or not complete."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"OSWorld's checker is not in {folder}: `envs-node checker install` installs it"
        )
        self.folder = folder


class CheckerUnreadableError(EnvsError):
    """What is installed cannot be read; the message says where, and a new install mends it."""


class CheckerOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Which checker an environment holds; lies there as `envs-node.origin.json`."""

    name: str = ""
    """What the user calls it; the release that ships with us has none."""
    release: str = ""
    """Of the package `desktop-env`; empty for a checkout."""
    commit: str = ""
    """Of a checkout under git."""
    is_changed: bool = False
    """Whether a checkout had changes that were not committed."""
    sha256: str = ""
    """Digest of a checkout's sources, as they were installed."""

    def label(self) -> str:
        """What stands in every verdict."""
        named = f" ({self.name})" if self.name else ""
        if self.release:
            return f"desktop-env {self.release}{named}"
        commit = self.commit[:12] or "without a commit"
        changed = ", changed" if self.is_changed else ""
        return f"OSWorld checkout {commit}{changed}, sources {self.sha256[:12]}{named}"


class CheckerSource(msgspec.Struct, frozen=True, kw_only=True):
    """What was read from the installed checker."""

    python: Path
    """The interpreter that runs it."""
    version: str
    """Which one it is: `desktop-env 1.0.2`, or a checkout's name, commit and digest."""
    metric_modules: dict[str, str]
    """Metric to the module that defines it."""
    getter_modules: dict[str, str]
    """`get_…` to the module that defines it."""
    absent: tuple[str, ...]
    """Packages the checker imports and that are not installed."""
    vocabulary: Vocabulary


def read_checker(folder: Path) -> CheckerSource:
    """Read the names, versions and gaps of the checker installed in an environment.

    Raises:
        CheckerMissingError: there is none.
        CheckerUnreadableError: it is of a Python that is not ours, or was tampered with.
    """
    site = next(iter(sorted(folder.glob("lib/python3*/site-packages"))), folder)
    package = site / _PACKAGE
    origin = _read_origin(folder, site)
    if origin is None or not (package / "evaluators").is_dir():
        raise CheckerMissingError(folder)
    try:
        modules = {m.name: m for m in _read_modules(site)}
    except FileNotFoundError as error:
        raise CheckerUnreadableError(f"{error.filename} is missing") from error
    except SyntaxError as error:
        place = f"{error.filename}:{error.lineno}"
        raise CheckerUnreadableError(
            f"{place} is not Python as it is run here: {error.msg}"
        ) from error
    for name in _WHOLE - modules.keys():
        raise CheckerUnreadableError(f"{package} has no module {name}")
    absent = _absent_packages(site, modules.values())
    metrics = _exports(modules, f"{_PACKAGE}.evaluators.metrics")
    getters = _exports(modules, f"{_PACKAGE}.evaluators.getters")
    setups = _setups(modules[f"{_PACKAGE}.controllers.setup"])
    needs = _Needs(modules, absent)
    unsupported: dict[str, str] = {}
    for kind, names in (("metric", metrics), ("getter", getters), ("setup", setups)):
        for name, (module, function) in names.items():
            missing = sorted(needs.of(module, function))
            if missing:
                key = f"{kind}:{name.removeprefix('get_') if kind == 'getter' else name}"
                unsupported[key] = f"needs {', '.join(missing)}, which is not installed"
    return CheckerSource(
        python=folder / "bin" / "python",
        version=origin.label(),
        metric_modules={name: module for name, (module, _) in metrics.items()},
        getter_modules={name: module for name, (module, _) in getters.items()},
        absent=tuple(sorted(absent)),
        vocabulary=Vocabulary(
            metrics=frozenset(metrics) | {"infeasible"},
            getters=frozenset(name.removeprefix("get_") for name in getters),
            setup_types=frozenset(setups),
            unsupported=unsupported,
            takes_time_lists=_takes_lists(modules, getters.get("get_rule_relativeTime")),
        ),
    )


def _read_origin(folder: Path, site: Path) -> CheckerOrigin | None:
    """As it was written down when it was installed; earlier installations have no such file."""
    try:
        return msgspec.json.decode((folder / ORIGIN_FILE).read_bytes(), type=CheckerOrigin)
    except FileNotFoundError:
        info = next(iter(sorted(site.glob(f"{_PACKAGE}-*.dist-info"))), None)
        release = info.name.split("-")[1].removesuffix(".dist") if info else ""
        return CheckerOrigin(release=release) if info else None
    except msgspec.DecodeError as error:
        raise CheckerUnreadableError(f"{folder / ORIGIN_FILE} is broken: {error}") from error


def _takes_lists(modules: dict[str, _Module], where: tuple[str, str] | None) -> bool:
    """Whether a function asks anywhere whether something is a list."""
    if where is None or where[0] not in modules:
        return False
    function = modules[where[0]].functions.get(where[1])
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)] if function else []
    return any(
        isinstance(call.func, ast.Name)
        and call.func.id == "isinstance"
        and "list" in ast.unparse(call.args[-1])
        for call in calls
    )


class _Module:
    """One source file: what it imports, what it defines, and what that uses."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.tree = ast.parse(path.read_bytes(), filename=str(path))
        self.packages: dict[str, str] = {}
        """Local name to the top-level package it comes from."""
        self.siblings: dict[str, tuple[str, str]] = {}
        """Local name to (module of the checker, name there)."""
        for node in ast.walk(self.tree):
            self._note_import(node, path.name == "__init__.py")
        self.functions = {
            node.name: node
            for node in ast.walk(self.tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }

    def _note_import(self, node: ast.AST, is_package: bool) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                self.packages[alias.asname or top] = top
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                up = node.level - (1 if is_package else 0)
                parts = self.name.split(".")
                module = ".".join([*parts[: len(parts) - up], *([module] if module else [])])
            for alias in node.names:
                if module.split(".")[0] == _PACKAGE:
                    self.siblings[alias.asname or alias.name] = (module, alias.name)
                else:
                    self.packages[alias.asname or alias.name] = module.split(".")[0]


class _Needs:
    """Which absent packages a function needs, through all it calls inside the checker."""

    def __init__(self, modules: dict[str, _Module], absent: frozenset[str]) -> None:
        self._modules = modules
        self._absent = absent

    def of(self, module: str, function: str) -> set[str]:
        missing: set[str] = set()
        seen: set[tuple[str, str]] = set()
        waiting = [(module, function)]
        while waiting:
            here = waiting.pop()
            owner = self._modules.get(here[0])
            if here in seen or owner is None or here[1] not in owner.functions:
                continue
            seen.add(here)
            for name in _names_used(owner.functions[here[1]]):
                if owner.packages.get(name) in self._absent:
                    missing.add(owner.packages[name])
                waiting.append(owner.siblings.get(name, (owner.name, name)))
        return missing


def _names_used(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Names in a function's body; annotations do not count, nor what `except` would catch."""
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
                yield node.attr


def _read_modules(site: Path) -> Iterator[_Module]:
    package = site / _PACKAGE
    paths = [package / "__init__.py", package / "desktop_env.py"]
    for part in ("evaluators", "controllers"):
        paths += sorted((package / part).rglob("*.py"))
    for path in paths:
        parts = path.relative_to(site).with_suffix("").parts
        yield _Module(".".join(p for p in parts if p != "__init__"), path)


def _absent_packages(site: Path, modules: Iterable[_Module]) -> frozenset[str]:
    """Packages that are imported somewhere, are not Python's own, and do not lie in `site`."""
    imported = {package for module in modules for package in module.packages.values()}
    return frozenset(
        name
        for name in imported - sys.stdlib_module_names
        if not (site / name).is_dir() and not any(site.glob(f"{name}.*"))
    )


def _exports(modules: dict[str, _Module], package: str) -> dict[str, tuple[str, str]]:
    """Name exported by a package's `__init__` to (module, name there)."""
    return dict(modules[package].siblings)


def _setups(module: _Module) -> dict[str, tuple[str, str]]:
    found = {
        name.removeprefix("_").removesuffix("_setup"): (module.name, name)
        for name in module.functions
        if name.startswith("_") and name.endswith("_setup")
    }
    return {name: where for name, where in found.items() if name not in _UNWRITTEN_SETUPS}
