"""The rules of the house, as tests. Each failure is a list of `file:line: what is wrong`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("messages", "supervisor", "policy", "fit", "actors", "deploy")
MAY_IMPORT_PARTS = {
    "messages": {"messages"},
    "supervisor": {"messages", "supervisor"},
    "policy": {"messages", "policy"},
    "fit": {"messages", "policy", "fit"},
    "actors": {"messages", "policy", "fit", "actors"},
    "deploy": set(PARTS),
}
MAY_NOT_IMPORT = {
    "messages": {"trio", "pynng", "structlog", "torch", "numpy"},
    "supervisor": {"pynng", "torch"},
    "policy": {"trio", "pynng", "structlog", "logging", "sqlalchemy", "asyncio", "threading"}
    | {"time", "socket", "subprocess", "torch", "transformers", "httpx"},
    "fit": {"trio", "pynng", "sqlalchemy"},
    "actors": set(),
    "deploy": set(),
}
MODELS_MAY = {"torch", "transformers", "httpx", "time", "logging"}
"""What `policy/models/` alone may import: the backends, and what keeps them quiet."""
WORLDS = {
    "Xlib": "desktop",
    "jeepney": "desktop",
    "libvirt": "desktop",
    "desktop_env": "verifier",
    "sqlalchemy": "ledger",
}
"""Libraries of the outside world, and the one actor's folder that may import each."""
HEAVY = ("torch", "transformers", "accelerate", "Xlib", "sqlalchemy", "libvirt", "desktop_env")
HEADER = re.compile(
    r"^.+\n\nOwns {6}\S.*\n( {10}.*\n)*Hears {5}\S.*\n( {10}.*\n)*Says {6}\S.*\n( {10}.*\n)*"
    r"On crash {2}\S.*\n( {10}.*\n)*"
)
HOSTS = re.compile(
    r"https?://[\w.-]*(pyp|pythonhost|download|index|registry|mirror|wheel|package|archive|proxy)"
    r"|https?://deb\.|index-url\s+https?://",
    re.IGNORECASE,
)
"""Where packages come from is the user's choice: an address of that kind is never written down."""
MACHINE_PATHS = re.compile("|".join(map(re.escape, (f"{ROOT}/", f"{Path.home()}/."))))
"""This very checkout, and what is hidden in the home of whoever runs the tests."""
LOG_METHODS = {"debug", "info", "warning", "error", "critical", "exception"}
Finding = tuple[int, str]


class Module(msgspec.Struct, frozen=True):
    """A Python file of this repository."""

    path: str
    text: str
    tree: ast.Module

    @property
    def part(self) -> str:
        """The top-level folder."""
        return self.path.split("/")[0]

    @property
    def is_product(self) -> bool:
        """Whether it is shipped, not a test, a benchmark or a script."""
        return self.part in PARTS


@cache
def _files() -> tuple[str, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = (name for name in listed.stdout.split("\0") if name)
    return tuple(sorted(name for name in names if (ROOT / name).is_file()))


@cache
def modules() -> tuple[Module, ...]:
    """Every Python file that is tracked, or would be."""
    found = []
    for name in _files():
        if name.endswith(".py") and not name.startswith("envs_node/"):
            text = (ROOT / name).read_text(encoding="utf-8")
            found.append(Module(name, text, ast.parse(text, name)))
    return tuple(found)


def _imports(module: Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            dots = "." * node.level
            yield node.lineno, f"{dots}{node.module or ''}"
            if node.module and node.module.count(".") < 2:
                for alias in node.names:
                    yield node.lineno, f"{dots}{node.module}.{alias.name}"


def module_docstrings(module: Module) -> Iterator[Finding]:
    """Every module says what it is."""
    if not ast.get_docstring(module.tree):
        yield 1, "no module docstring"


def absolute_imports(module: Module) -> Iterator[Finding]:
    """One spelling, `envs_node.part.module`: anything else would make a second copy."""
    for line, name in _imports(module):
        if name.startswith("."):
            yield line, f"relative import {name}; write envs_node.…"
        elif name.split(".")[0] in PARTS:
            yield line, f"import envs_node.{name}, never {name}"


def layers(module: Module) -> Iterator[Finding]:
    """messages <- policy <- fit <- actors <- deploy, and supervisor beside them."""
    if not module.is_product:
        return
    is_model = module.path.startswith("policy/models/")
    banned = MAY_NOT_IMPORT[module.part] - (MODELS_MAY if is_model else set())
    for line, name in _imports(module):
        top, *rest = name.split(".")
        if top == "envs_node" and rest and rest[0] in PARTS:
            if rest[0] not in MAY_IMPORT_PARTS[module.part]:
                yield line, f"{module.part} may not import {rest[0]}"
        elif top in banned:
            yield line, f"{module.part} may not import {top}"


def own_worlds(module: Module) -> Iterator[Finding]:
    """An actor's folder alone imports its world, and no other actor's folder."""
    if module.part != "actors":
        return
    folder = module.path.split("/")[1] if module.path.count("/") > 1 else None
    for line, name in _imports(module):
        top, *rest = name.split(".")
        if top in WORLDS and (WORLDS[top] != folder or module.path.endswith("/actor.py")):
            yield line, f"{top} belongs to actors/{WORLDS[top]}, its actor.py apart"
        if top == "envs_node" and rest[:1] == ["actors"] and len(rest) > 1:
            is_folder = (ROOT / "actors" / rest[1]).is_dir()
            if is_folder and rest[1] != folder:
                yield line, f"may not import another actor's folder, {rest[1]}"


def actor_headers(module: Module) -> Iterator[Finding]:
    """An actor's contract stands in four lines at its top, and the actor on one page."""
    if not re.fullmatch(r"actors/\w+/actor\.py", module.path):
        return
    if not HEADER.match((ast.get_docstring(module.tree) or "") + "\n"):
        yield 1, "no header of four lines: Owns, Hears, Says, On crash"
    if (length := module.text.count("\n")) > 200:
        yield 200, f"an actor of {length} lines; at most 200"


def lengths(module: Module) -> Iterator[Finding]:
    """Modules of 400 lines, functions of 70, lines of 100 characters at most."""
    lines = module.text.splitlines()
    if len(lines) > 400:
        yield 400, f"a module of {len(lines)} lines; at most 400"
    for number, line in enumerate(lines, 1):
        if len(line) > 100:
            yield number, f"a line of {len(line)} characters; at most 100"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            if length > 70:
                yield node.lineno, f"{node.name} has {length} lines; at most 70"


def public_names(module: Module) -> Iterator[Finding]:
    """At most 8 public names a module, `messages` apart."""
    if not module.is_product or module.part == "messages":
        return
    names: set[str] = set()
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    public = sorted(name for name in names if not name.startswith("_"))
    if len(public) > 8:
        yield 1, f"{len(public)} public names; at most 8: {', '.join(public)}"


def no_print(module: Module) -> Iterator[Finding]:
    """Results are printed by the command line alone."""
    if module.path.startswith(("deploy/cli", "benchmarks/")):
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            yield node.lineno, "print outside deploy/cli"


def narrow_excepts(module: Module) -> Iterator[Finding]:
    """Only the supervisor catches everything; others may clean up and raise on."""
    if module.part == "supervisor":
        return
    children: set[ast.AST] = set()  # of functions that a forked child never returns from
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef) and ast.unparse(node.body[-1]).startswith("os._exit("):
            children.update(ast.walk(node))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler) and node not in children:
            caught = ast.unparse(node.type) if node.type else ""
            raises_on = ast.unparse(node.body[-1]) == "raise"
            if not raises_on and re.search(r"^$|\b(Base)?Exception\b", caught):
                yield node.lineno, f"except {caught or '(all)'} outside the supervisor"


def no_danger(module: Module) -> Iterator[Finding]:
    """Nothing is evaluated, no shell is given text, no global state is changed."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Global):
            yield node.lineno, f"global {', '.join(node.names)}: module-level mutable state"
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in {"eval", "exec", "os.system", "os.popen", "pickle.load", "pickle.loads"}:
            yield node.lineno, f"{name}: never run what was read"
        if name in {"random.seed", "np.random.seed", "numpy.random.seed"}:
            yield node.lineno, f"{name} seeds the global generator"
        if name == "logging.basicConfig" or (name == "logging.getLogger" and not node.args):
            yield node.lineno, f"{name} touches the root logger"
        is_constant = bool(node.args) and isinstance(node.args[0], ast.Constant)
        for keyword in node.keywords:
            is_off = ast.unparse(keyword.value) == "False"
            is_guest = module.path.startswith("actors/desktop/guest/")  # inside the desktop
            if keyword.arg == "shell" and not (is_off or is_constant or is_guest):
                yield node.lineno, "shell= with text that is no constant"


def no_loose_ends(module: Module) -> Iterator[Finding]:
    """What is to be done has an issue; what is ignored has a code."""
    for number, line in enumerate(module.text.splitlines(), 1):
        if re.search(r"#.*\b(TO" r"DO|FIX" r"ME)\b(?!.*#\d)", line):
            yield number, "a TODO without an issue number"
        if re.search(r"#\s*type:\s*ignore(?!\[)", line):
            yield number, "a type: ignore without its code"
        if re.search(r"#\s*noqa(?!:)", line):
            yield number, "a noqa without its rule"


def plain_packages(module: Module) -> Iterator[Finding]:
    """An `__init__` only re-exports, and no file is named for what it is not."""
    path = Path(module.path)
    if path.stem in {"utils", "util", "common", "manager", "helpers", "misc"}:
        yield 1, f"{path.name}: a new file is a new noun"
    if path.name == "__init__.py":
        for node in module.tree.body:
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            is_name = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
            if not (is_text or is_name or isinstance(node, ast.Import | ast.ImportFrom)):
                yield node.lineno, "an __init__ only re-exports"


def event_names(module: Module) -> Iterator[Finding]:
    """Log events are constants: `noun.past_verb`."""
    for line, event in events(module):
        if not re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+)+", event):
            yield line, f"log event {event!r} is not a constant noun.past_verb"


RULES: tuple[Callable[[Module], Iterator[Finding]], ...] = (
    module_docstrings,
    absolute_imports,
    layers,
    own_worlds,
    actor_headers,
    lengths,
    public_names,
    no_print,
    narrow_excepts,
    no_danger,
    no_loose_ends,
    plain_packages,
    event_names,
)


def events(module: Module) -> Iterator[tuple[int, str]]:
    """The log events a module may emit; the source text of those that are not constants."""
    for node in ast.walk(module.tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        receiver = ast.unparse(node.func.value)
        if node.func.attr in LOG_METHODS and re.search(r"(^|[._])log(ger)?(\(|\.|$)", receiver):
            first = node.args[0]
            branches = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
            for branch in branches:
                is_text = isinstance(branch, ast.Constant) and isinstance(branch.value, str)
                yield node.lineno, branch.value if is_text else ast.unparse(branch)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps(rule: Callable[[Module], Iterator[Finding]]):
    found = [f"{module.path}:{line}: {what}" for module in modules() for line, what in rule(module)]

    assert not found, f"{rule.__doc__}\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        ("fit/x.py", "x = 1", module_docstrings),
        ("fit/x.py", "import messages.base", absolute_imports),
        ("fit/x.py", "from . import base", absolute_imports),
        ("fit/x.py", "from envs_node.deploy import node", layers),
        ("messages/x.py", "from envs_node import policy", layers),
        ("policy/tree.py", "def f():\n    import torch", layers),
        ("actors/search/x.py", "import sqlalchemy", own_worlds),
        ("actors/ledger/actor.py", "import sqlalchemy", own_worlds),
        ("actors/search/x.py", "from envs_node.actors.ledger.store import LedgerStore", own_worlds),
        ("actors/search/actor.py", '"""Searches.\n\nOwns      it.\n"""', actor_headers),
        ("fit/x.py", "def f():\n" + "    x = 1\n" * 71, lengths),
        ("fit/x.py", "\n".join(f"x{i} = 1" for i in range(9)), public_names),
        ("fit/x.py", "print(1)", no_print),
        ("fit/x.py", "try:\n    f()\nexcept Exception:\n    pass", narrow_excepts),
        ("fit/x.py", "try:\n    f()\nexcept:\n    pass", narrow_excepts),
        ("fit/x.py", "eval(x)", no_danger),
        ("fit/x.py", "run(x, shell=True)", no_danger),
        ("fit/x.py", "f()  # TO" + "DO: later", no_loose_ends),
        ("fit/__init__.py", "x = 1", plain_packages),
        ("fit/utils.py", "", plain_packages),
        ("fit/x.py", "log.info(f'{x} done')", event_names),
    ],
)
def test_a_rule_finds_what_it_forbids(path: str, text: str, rule: Callable[..., Iterator[Finding]]):
    assert list(rule(Module(path, text, ast.parse(text))))


def test_importing_an_actor_loads_nothing_of_the_world():
    actors = [m.path[:-3].replace("/", ".") for m in modules() if m.path.endswith("/actor.py")]
    script = (
        "import importlib, sys\n"
        f"for name in {actors!r}:\n"
        "    importlib.import_module('envs_node.' + name)\n"
        f"    heavy = [top for top in {HEAVY!r} if top in sys.modules]\n"
        "    if heavy: sys.exit(f'{name} loads {heavy}')\n"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_no_file_names_a_registry_or_a_machine_and_none_is_huge():
    found = []
    for name in _files():
        path = ROOT / name
        if (size_bytes := path.stat().st_size) > 5_000_000:
            found.append(f"{name}:1: {size_bytes} bytes; at most 5 MB are tracked")
        data = path.read_bytes()
        if name == "tests/test_tidy.py" or b"\0" in data[:4096]:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            for match in (HOSTS.search(line), MACHINE_PATHS.search(line)):
                if match:
                    found.append(f"{name}:{number}: names {match[0]}")

    assert not found, "\n".join(found)


def test_every_log_event_is_listed_and_every_listed_event_is_logged():
    text = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    logged = {event: m.path for m in modules() if m.is_product for _, event in events(m)}

    missing = [f"| `{event}` | | {logged[event]} |" for event in sorted(logged.keys() - {*listed})]
    stale = sorted({*listed} - logged.keys())
    assert not missing, "add to docs/events.md:\n" + "\n".join(missing)
    assert not stale, f"in docs/events.md, but logged nowhere: {stale}"
    assert listed == sorted({*listed}), "docs/events.md is not sorted, or doubles a line"
