"""Checks the shape of one OSWorld task file, field by field; every fault names its field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

import msgspec

from envs_node.messages.base import EnvsError
from envs_node.policy.task_files import BUNDLE_SCHEME

_SLEEP_MAX_S = 600
"""Of one set-up step; OSWorld's longest is 20."""
_FILE = re.compile(r"(files|gold)(/[A-Za-z0-9_ ()+,=@-][A-Za-z0-9._ ()+,=@-]*)+")
_NAME = re.compile(r"(?!\.$)[^\x00-\x1f\x7f]+")
_NAME_BYTES_MAX = 200
"""Of 255 that a file system takes: OSWorld's checker puts a digest of 37 before some."""
_PATH_BYTES_MAX = 1000
_DEPTH_MAX = 100
"""Python's readers of JSON give up at about ten times that, sooner the deeper they are called."""
_COMMANDS = ("launch", "execute", "command")
_TEXTS = {"open": "path", "activate_window": "window_name", "close_window": "window_name"}
_SOURCES = {"download": "url", "upload_file": "local_path"}
"""Set-up steps that send files, and where they name the source of each."""
_TABS = {"chrome_open_tabs": "urls_to_open", "chrome_close_tabs": "urls_to_close"}
_RULES = ("rule", "rule_relativeTime")
_PLACES = {"list_directory": "path", "cache_file": "path", "gimp_config_file": "file_name"}
"""Getters that want a text, and what it is called."""
_INFEASIBLE = "infeasible"
_JSON = {dict: "an object", list: "a list", str: "a text", int: "a number", bool: "true or false"}


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True):
    """The names a checker knows."""

    metrics: frozenset[str]
    getters: frozenset[str]
    """Without their `get_`."""
    setup_types: frozenset[str]
    unsupported: dict[str, str] = {}
    """Names (`metric:…`, `getter:…`, `setup:…`) that are known and cannot run, and why."""
    takes_time_lists: bool = False
    """Whether a rule of relative time may have several formats; releases up to 1.0.2 raise then."""


class TaskError(EnvsError):
    """A task that cannot be taken: names the file, the field, what stands there, the way out."""

    def __init__(self, file: str, field: str, problem: str) -> None:
        super().__init__(f"{file}: {field}: {problem}")
        self.file = file
        self.field = field
        self.problem = problem


def listed(value: Any) -> list[Any]:
    """What OSWorld writes as one or as a list of them, as a list; nothing is an empty one."""
    if value is None or value == {} or value == []:
        return []
    return value if isinstance(value, list) else [value]


class TaskReader:
    """Checks the fields of one task; every refusal names the file.

    With `is_strict` the first fault is raised. Without, all are kept in `faults`.
    """

    def __init__(
        self, file: str, vocabulary: Vocabulary, files: frozenset[str], *, is_strict: bool = True
    ) -> None:
        self._file = file
        self._vocabulary = vocabulary
        self._files = files
        self._is_strict = is_strict
        self.faults: list[TaskError] = []

    def attempt(self, check: Callable[..., object], *given: Any) -> None:
        """Make one check that stands for itself."""
        try:
            check(*given)
        except TaskError as error:
            if self._is_strict:
                raise
            self.faults.append(error)

    def refuse(self, field: str, problem: str) -> None:
        """Raise a fault of this file."""
        raise TaskError(self._file, field, problem)

    def parse(self, data: bytes) -> dict[str, Any]:
        """Decode the file."""
        try:
            task = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TaskError(self._file, "whole file", f"is not JSON ({error})") from error
        self.expect(task, dict, "whole file")
        if _is_nested(task, _DEPTH_MAX):
            self.refuse("whole file", f"holds lists or objects more than {_DEPTH_MAX} deep")
        return dict(task)

    def expect(self, value: Any, kind: type, field: str) -> None:
        """Refuse a value of another kind."""
        if not isinstance(value, kind):
            self.refuse(field, f"{_shown(value)} stands where {_JSON[kind]} is needed")

    def text(self, task: dict[str, Any], field: str, default: str | None = None) -> str:
        """A field that is a text and not empty."""
        value = task.get(field, default)
        if value is None:
            self.refuse(field, "is missing; OSWorld's format asks for it")
        self.expect(value, str, field)
        if not str(value).strip():
            self.refuse(field, "is empty; OSWorld's format asks for it")
        return str(value)

    def texts(self, values: Any, field: str) -> tuple[str, ...]:
        """A list of texts."""
        self.expect(values, list, field)
        for index, value in enumerate(values):
            self.expect(value, str, f"{field}[{index}]")
        return tuple(values)

    def check_steps(self, steps: Any, field: str) -> None:
        """Check set-up steps: `config` of the task or `postconfig` of the evaluator."""
        if steps is None:
            return
        self.expect(steps, list, field)
        for index, step in enumerate(steps):
            self.attempt(self._check_step, step, f"{field}[{index}]")

    def _check_step(self, step: Any, field: str) -> None:
        self.expect(step, dict, field)
        kind, parameters = step.get("type"), step.get("parameters")
        self._known(kind, self._vocabulary.setup_types, f"{field}.type", "set-up type")
        self.expect(parameters, dict, f"{field}.parameters")
        if kind == "sleep":
            self._check_sleep(parameters.get("seconds"), f"{field}.parameters.seconds")
        if kind in _COMMANDS:
            self._check_command(parameters.get("command"), f"{field}.parameters.command")
        if kind in _TEXTS:
            key = _TEXTS[kind]
            self.expect(parameters.get(key), str, f"{field}.parameters.{key}")
        if kind in _TABS:
            self.texts(parameters.get(_TABS[kind]), f"{field}.parameters.{_TABS[kind]}")
        if kind in _SOURCES:
            files = parameters.get("files")
            self._check_sent(files, _SOURCES[kind], f"{field}.parameters.files")

    def _check_sent(self, files: Any, source: str, field: str) -> None:
        self.expect(files, list, field)
        for index, file in enumerate(files):
            self.expect(file, dict, f"{field}[{index}]")
            for key in (source, "path"):
                self.expect(file.get(key), str, f"{field}[{index}].{key}")
            if not all(part in ("", ".") or _is_name(part) for part in file["path"].split("/")):
                self.refuse(f"{field}[{index}].path", f"{_shown(file['path'])} is no path of files")

    def _check_command(self, command: Any, field: str) -> None:
        if not isinstance(command, str):
            self.texts(command, field)
        if not any(word.strip() for word in listed(command)):
            self.refuse(field, "is empty; write a text, or a list of texts")

    def _check_sleep(self, seconds: Any, field: str) -> None:
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not is_number or not 0 <= seconds <= _SLEEP_MAX_S:
            self.refuse(field, f"{_shown(seconds)} is no number from 0 to {_SLEEP_MAX_S}")

    def check_evaluator(self, task: dict[str, Any]) -> None:
        """Check what judges: names, list lengths, the getters' fields, destinations."""
        evaluator = task.get("evaluator")
        if evaluator is None:
            self.refuse("evaluator", "is missing: without it nothing can be judged")
        assert evaluator is not None, "a missing evaluator was refused"
        self.expect(evaluator, dict, "evaluator")
        func = evaluator.get("func")
        self.attempt(self.check_steps, evaluator.get("postconfig"), "evaluator.postconfig")
        if func == _INFEASIBLE:
            return
        if isinstance(func, list):
            self._check_lists(evaluator, func)
        else:
            self._check_single(evaluator, func)
        self.attempt(self._check_destinations, evaluator)

    def _check_single(self, evaluator: dict[str, Any], func: Any) -> None:
        self.attempt(self._known, func, self._vocabulary.metrics, "evaluator.func", "metric")
        self.attempt(self._check_getter, evaluator.get("result"), "evaluator.result")
        if evaluator.get("expected"):
            self.attempt(self._check_getter, evaluator["expected"], "evaluator.expected")
        if "options" in evaluator:
            self.attempt(self.expect, evaluator["options"], dict, "evaluator.options")

    def _check_lists(self, evaluator: dict[str, Any], func: list[Any]) -> None:
        if not func:
            self.refuse("evaluator.func", "is an empty list; name a metric")
        self.attempt(self._check_conjunction, evaluator.get("conj", "and"))
        for index, name in enumerate(func):
            self.attempt(self._check_listed_metric, name, f"evaluator.func[{index}]")
        for field in ("result", "expected", "options"):
            if field == "result" or evaluator.get(field):
                value = evaluator.get(field)
                self.attempt(self._check_length, value, len(func), f"evaluator.{field}")
        for field in ("result", "expected"):
            for index, config in enumerate(listed(evaluator.get(field))):
                self.attempt(self._check_getter, config, f"evaluator.{field}[{index}]")
        for index, options in enumerate(listed(evaluator.get("options"))):
            if options is not None:
                self.attempt(self.expect, options, dict, f"evaluator.options[{index}]")

    def _check_conjunction(self, word: Any) -> None:
        if word not in ("and", "or"):
            self.refuse("evaluator.conj", f"{_shown(word)} is neither 'and' nor 'or'")

    def _check_listed_metric(self, name: Any, field: str) -> None:
        if name == _INFEASIBLE:
            self.refuse(field, "'infeasible' must stand alone, as a text, not in a list")
        self._known(name, self._vocabulary.metrics, field, "metric")

    def _check_length(
        self, values: Any, length: int, field: str, other: str = "evaluator.func"
    ) -> None:
        self.expect(values, list, field)
        if len(values) != length:
            self.refuse(field, f"has {len(values)} entries and {other} {length}: make them equal")

    def _check_getter(self, config: Any, field: str) -> None:
        if config is None:
            self.refuse(field, "is null or missing, where OSWorld's evaluate needs a getter")
        self.expect(config, dict, field)
        kind = config.get("type")
        self._known(kind, self._vocabulary.getters, f"{field}.type", "getter")
        if kind in ("cloud_file", "vm_file"):
            self._check_file_getter(config, field)
        if kind in _PLACES:
            self.expect(config.get(_PLACES[kind]), str, f"{field}.{_PLACES[kind]}")
        if kind in _RULES and "rules" not in config:
            self.refuse(f"{field}.rules", f"is missing: {kind} is nothing but its rules")
        if kind == "rule_relativeTime":
            self._check_times(config["rules"], f"{field}.rules")
        for dest in listed(config.get("dest")):
            if str(dest).startswith("/") or ".." in str(dest).split("/"):
                self.refuse(f"{field}.dest", f"{dest!r} leaves the checker's cache folder")
            is_short = len(str(dest).encode(errors="replace")) <= _PATH_BYTES_MAX
            if not is_short or not all(_is_name(part) for part in str(dest).split("/")):
                self.refuse(f"{field}.dest", f"{_shown(dest)} is no file name")

    def _check_times(self, rules: Any, field: str) -> None:
        """Check the formats of a rule of relative time."""
        self.expect(rules, dict, field)
        for key in ("relativeTime", "expected"):
            self.expect(rules.get(key), dict, f"{field}.{key}")
        self.expect(rules["relativeTime"].get("from"), str, f"{field}.relativeTime.from")
        for key in ("time", "from", "to"):
            if key not in rules["expected"]:
                continue
            time, here = rules["expected"][key], f"{field}.expected.{key}"
            if isinstance(time, list) and self._vocabulary.takes_time_lists:
                self.texts(time, here)
            else:
                self.expect(time, str, here)

    def _check_file_getter(self, config: dict[str, Any], field: str) -> None:
        """Check `path` and `dest`: two texts, or with `multi` two lists of one length."""
        values = [config.get("path"), config.get("dest")]
        for key, value in zip(("path", "dest"), values, strict=True):
            self.expect(value, list if config.get("multi") else str, f"{field}.{key}")
            for item in listed(value):
                self.expect(item, str, f"{field}.{key}")
        if config.get("multi"):
            self._check_length(values[1], len(values[0] or []), f"{field}.dest", f"{field}.path")

    def _check_destinations(self, evaluator: dict[str, Any]) -> None:
        """Refuse two different files under one name: the first would be compared with itself."""
        taken: dict[str, tuple[str, str]] = {}
        folders: dict[str, str] = {}
        for field in ("result", "expected"):
            for config in listed(evaluator.get(field)):
                if not isinstance(config, dict):
                    continue
                pairs = zip(listed(config.get("dest")), listed(config.get("path")), strict=False)
                for dest, path in pairs:
                    source = (str(config.get("type")), str(path))
                    folders |= {str(above): str(dest) for above in PurePosixPath(str(dest)).parents}
                    first = taken.setdefault(str(dest), source)
                    if first != source and "cloud_file" in (first[0], source[0]):
                        self.refuse(
                            f"evaluator.{field}",
                            f"dest {dest!r} is taken by {first[0]} {first[1]} already, so OSWorld "
                            "would compare that file with itself: give them different names",
                        )
        for dest in taken:
            if dest in folders:
                self.refuse(
                    "evaluator", f"dest {dest!r} is a file, and the folder of {folders[dest]!r}"
                )

    def _known(self, name: Any, known: frozenset[str], field: str, kind: str) -> None:
        self.expect(name, str, field)
        if name not in known:
            close = [k for k in sorted(known) if name.lower() in k.lower() or k in name][:3]
            hint = f"; known are for example {', '.join(close)}" if close else ""
            self.refuse(field, f"{name!r} is no {kind} of the installed checker{hint}")

    def check_files(self, task: dict[str, Any]) -> None:
        """Check the names of the files, and that what the JSON names is there."""
        for name in self._files:
            if not _FILE.fullmatch(name):
                self.refuse("files", f"{name!r} is no file name of a task: use plain characters")
        for field, value in _texts_in(task, ""):
            is_local = field.endswith(".local_path")
            if is_local or value.startswith(BUNDLE_SCHEME):
                self.attempt(self._check_named, field, value)

    def _check_named(self, field: str, value: str) -> None:
        name = value.removeprefix(BUNDLE_SCHEME)
        if name not in self._files:
            self.refuse(field, f"{value!r} names a file that does not lie beside the task")
        if name.startswith("gold/") and not field.startswith("evaluator.expected"):
            self.refuse(field, f"{value!r} is gold: only evaluator.expected may name it")


def _is_nested(value: Any, depth_max: int) -> bool:
    """Whether there are more lists and objects in each other than that."""
    if not isinstance(value, dict | list):
        return False
    items = value.values() if isinstance(value, dict) else value
    return depth_max == 0 or any(_is_nested(item, depth_max - 1) for item in items)


def _texts_in(value: Any, field: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts_in(item, f"{field}.{key}" if field else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts_in(item, f"{field}[{index}]")


def _is_name(part: str) -> bool:
    return _NAME.fullmatch(part) is not None and len(part.encode()) <= _NAME_BYTES_MAX


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
