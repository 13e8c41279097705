"""Reads OSWorld task JSON strictly: what is read here can be set up and judged, or is refused."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from envs_node.messages.base import EnvsError, TaskId
from envs_node.messages.tasks import Task, TaskFile

BUNDLE_SCHEME = "bundle://"
"""Where a task's own files are named: `bundle://files/notes.txt`, `bundle://gold/notes.txt`."""
_SLEEP_MAX_S = 600
"""Of one set-up step; OSWorld's longest is 20."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_FILE = re.compile(r"(files|gold)(/[A-Za-z0-9_ ()+,=@-][A-Za-z0-9._ ()+,=@-]*)+")
_NAME = re.compile(r"(?!\.$)[^\x00-\x1f\x7f]+")
_NAME_BYTES_MAX = 255
_COMMANDS = ("launch", "execute", "command")
_TEXTS = {"open": "path", "activate_window": "window_name", "close_window": "window_name"}
_SOURCES = {"download": "url", "upload_file": "local_path"}
"""Set-up steps that send files, and where they name the source of each."""
_SPLITS = ("train", "held-out")
_OFFLINE_GETTERS = ("cloud_file", "rule_relativeTime")
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


class TaskError(EnvsError):
    """A task that cannot be taken: names the file, the field, what stands there, the way out."""

    def __init__(self, file: str, field: str, problem: str) -> None:
        super().__init__(f"{file}: {field}: {problem}")
        self.file = file
        self.field = field
        self.problem = problem


def read_task(
    data: bytes, files: Mapping[str, bytes], vocabulary: Vocabulary, *, file: str
) -> Task:
    """Make a task of its JSON and its files.

    Args:
        data: the JSON, kept byte for byte.
        files: the task's files by name, `files/…` for the desktop and `gold/…` for the checker.
        vocabulary: what the checker knows.
        file: what errors call the JSON.

    Raises:
        TaskError: a field is missing, of another kind, or names something unknown.
    """
    reader = _Reader(file, vocabulary, frozenset(files))
    task = reader.parse(data)
    task_id = reader.text(task, "id")
    if not _ID.fullmatch(task_id):
        reader.refuse("id", f"{task_id!r} is no id: use letters, digits, '.', '_' and '-'")
    split = reader.text(task, "split", "held-out")
    if split not in _SPLITS:
        reader.refuse("split", f"{split!r} is none of {', '.join(_SPLITS)}")
    reader.check_steps(task.get("config"), "config")
    reader.check_evaluator(task)
    reader.check_files(task)
    kept = tuple(
        TaskFile(name=name, sha256=hashlib.sha256(files[name]).hexdigest(), data=files[name])
        for name in sorted(files)
    )
    return Task(
        id=TaskId(task_id),
        instruction=reader.text(task, "instruction"),
        template=reader.text(task, "template", task_id),
        split=split,
        apps=reader.texts(task, "related_apps"),
        json=data,
        sha256=_digest(data, kept),
        files=kept,
    )


def is_infeasible(task: Task) -> bool:
    """Tell whether the right answer to this task is to give up."""
    return bool(task_json(task)["evaluator"]["func"] == _INFEASIBLE)


def task_json(task: Task) -> dict[str, Any]:
    """Decode a task's JSON: a fresh copy at every call, for OSWorld's functions change it."""
    decoded: dict[str, Any] = msgspec.json.decode(task.json)
    return decoded


def postconfig_sleep_s(task: Task) -> float:
    """Seconds that the steps before the check sleep."""
    steps = task_json(task)["evaluator"].get("postconfig") or []
    return float(sum(step["parameters"]["seconds"] for step in steps if step["type"] == "sleep"))


def unsupported_reason(task: Task, vocabulary: Vocabulary) -> str | None:
    """Tell why this checker cannot judge a task that it can read; None when it can."""
    evaluator = task_json(task)["evaluator"]
    for name in _names(evaluator):
        if name in vocabulary.unsupported:
            return f"{name} {vocabulary.unsupported[name]}"
    for field in ("result", "expected"):
        for config in _listed(evaluator.get(field)):
            reason = _network_reason(config)
            if reason:
                return f"evaluator.{field}: {reason}"
    return None


def _digest(data: bytes, files: tuple[TaskFile, ...]) -> str:
    digest = hashlib.sha256(hashlib.sha256(data).hexdigest().encode())
    for file in files:
        digest.update(f"\n{file.name}\0{file.sha256}".encode())
    return digest.hexdigest()


def _names(evaluator: dict[str, Any]) -> Iterator[str]:
    for func in _listed(evaluator["func"]):
        yield f"metric:{func}"
    for field in ("result", "expected"):
        for config in _listed(evaluator.get(field)):
            if config:
                yield f"getter:{config['type']}"
    for step in evaluator.get("postconfig") or []:
        yield f"setup:{step['type']}"


def _network_reason(config: dict[str, Any] | None) -> str:
    if not config or config["type"] not in _OFFLINE_GETTERS:
        return ""
    if config["type"] == "rule_relativeTime":
        rules = config.get("rules")
        has_zone = isinstance(rules, dict) and "timezone" in rules
        return "" if has_zone else "rule_relativeTime without a timezone asks the network for one"
    for path in _listed(config.get("path")):
        if not str(path).startswith(BUNDLE_SCHEME):
            return f"{path} would have to be downloaded, and the checker is offline"
    return ""


def _listed(value: Any) -> list[Any]:
    if value is None or value == {} or value == []:
        return []
    return value if isinstance(value, list) else [value]


class _Reader:
    """Checks the fields of one task; every refusal names the file."""

    def __init__(self, file: str, vocabulary: Vocabulary, files: frozenset[str]) -> None:
        self._file = file
        self._vocabulary = vocabulary
        self._files = files

    def refuse(self, field: str, problem: str) -> None:
        raise TaskError(self._file, field, problem)

    def parse(self, data: bytes) -> dict[str, Any]:
        try:
            task = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TaskError(self._file, "whole file", f"is not JSON ({error})") from error
        self.expect(task, dict, "whole file")
        return dict(task)

    def expect(self, value: Any, kind: type, field: str) -> None:
        if not isinstance(value, kind):
            self.refuse(field, f"{_shown(value)} stands where {_JSON[kind]} is needed")

    def text(self, task: dict[str, Any], field: str, default: str | None = None) -> str:
        value = task.get(field, default)
        if value is None:
            self.refuse(field, "is missing; OSWorld's format asks for it")
        self.expect(value, str, field)
        if not str(value).strip():
            self.refuse(field, "is empty; OSWorld's format asks for it")
        return str(value)

    def texts(self, task: dict[str, Any], field: str) -> tuple[str, ...]:
        values = task.get(field) or []
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
            here = f"{field}[{index}]"
            self.expect(step, dict, here)
            self._known(
                step.get("type"), self._vocabulary.setup_types, f"{here}.type", "set-up type"
            )
            self.expect(step.get("parameters"), dict, f"{here}.parameters")
            if step["type"] == "sleep":
                self._check_sleep(step["parameters"].get("seconds"), f"{here}.parameters.seconds")
            if step["type"] in _COMMANDS:
                self._check_command(step["parameters"].get("command"), f"{here}.parameters.command")
            if step["type"] in _TEXTS:
                key = _TEXTS[step["type"]]
                self.expect(step["parameters"].get(key), str, f"{here}.parameters.{key}")
            if step["type"] in _SOURCES:
                files = step["parameters"].get("files")
                self._check_sent(files, _SOURCES[step["type"]], f"{here}.parameters.files")

    def _check_sent(self, files: Any, source: str, field: str) -> None:
        self.expect(files, list, field)
        for index, file in enumerate(files):
            self.expect(file, dict, f"{field}[{index}]")
            for key in (source, "path"):
                self.expect(file.get(key), str, f"{field}[{index}].{key}")

    def _check_command(self, command: Any, field: str) -> None:
        if not isinstance(command, str):
            self.expect(command, list, field)
            for index, part in enumerate(command):
                self.expect(part, str, f"{field}[{index}]")
        if not command:
            self.refuse(field, "is empty; write a text, or a list of texts")

    def _check_sleep(self, seconds: Any, field: str) -> None:
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not is_number or not 0 <= seconds <= _SLEEP_MAX_S:
            self.refuse(field, f"{_shown(seconds)} is no number from 0 to {_SLEEP_MAX_S}")

    def check_evaluator(self, task: dict[str, Any]) -> None:
        evaluator = task.get("evaluator")
        if evaluator is None:
            self.refuse("evaluator", "is missing: without it nothing can be judged")
        assert evaluator is not None, "a missing evaluator was refused"
        self.expect(evaluator, dict, "evaluator")
        func = evaluator.get("func")
        if func == _INFEASIBLE:
            return
        self.check_steps(evaluator.get("postconfig"), "evaluator.postconfig")
        if isinstance(func, list):
            self._check_lists(evaluator, func)
        else:
            self._check_single(evaluator, func)
        self._check_destinations(evaluator)

    def _check_single(self, evaluator: dict[str, Any], func: Any) -> None:
        self._known(func, self._vocabulary.metrics, "evaluator.func", "metric")
        self._check_getter(evaluator.get("result"), "evaluator.result")
        if evaluator.get("expected"):
            self._check_getter(evaluator["expected"], "evaluator.expected")
        if "options" in evaluator:
            self.expect(evaluator["options"], dict, "evaluator.options")

    def _check_lists(self, evaluator: dict[str, Any], func: list[Any]) -> None:
        if not func:
            self.refuse("evaluator.func", "is an empty list; name a metric")
        if evaluator.get("conj", "and") not in ("and", "or"):
            self.refuse("evaluator.conj", f"{_shown(evaluator['conj'])} is neither 'and' nor 'or'")
        for index, name in enumerate(func):
            here = f"evaluator.func[{index}]"
            if name == _INFEASIBLE:
                self.refuse(here, "'infeasible' must stand alone, as a text, not in a list")
            self._known(name, self._vocabulary.metrics, here, "metric")
        for field in ("result", "expected", "options"):
            if field == "result" or evaluator.get(field):
                self._check_length(evaluator.get(field), len(func), f"evaluator.{field}")
        for field in ("result", "expected"):
            for index, config in enumerate(evaluator.get(field) or []):
                self._check_getter(config, f"evaluator.{field}[{index}]")
        for index, options in enumerate(evaluator.get("options") or []):
            if options is not None:
                self.expect(options, dict, f"evaluator.options[{index}]")

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
        self._known(config.get("type"), self._vocabulary.getters, f"{field}.type", "getter")
        if config["type"] in ("cloud_file", "vm_file"):
            self._check_file_getter(config, field)
        for dest in _listed(config.get("dest")):
            if str(dest).startswith("/") or ".." in str(dest).split("/"):
                self.refuse(f"{field}.dest", f"{dest!r} leaves the checker's cache folder")
            if not all(_is_name(part) for part in str(dest).split("/")):
                self.refuse(f"{field}.dest", f"{_shown(dest)} is no file name")

    def _check_file_getter(self, config: dict[str, Any], field: str) -> None:
        """Check `path` and `dest`: two texts, or with `multi` two lists of one length."""
        values = [config.get("path"), config.get("dest")]
        for key, value in zip(("path", "dest"), values, strict=True):
            self.expect(value, list if config.get("multi") else str, f"{field}.{key}")
            for item in _listed(value):
                self.expect(item, str, f"{field}.{key}")
        if config.get("multi"):
            self._check_length(values[1], len(values[0] or []), f"{field}.dest", f"{field}.path")

    def _check_destinations(self, evaluator: dict[str, Any]) -> None:
        """Refuse two different files under one name: the first would be compared with itself."""
        taken: dict[str, tuple[str, str]] = {}
        for field in ("result", "expected"):
            for config in _listed(evaluator.get(field)):
                pairs = zip(_listed(config.get("dest")), _listed(config.get("path")), strict=False)
                for dest, path in pairs:
                    source = (str(config["type"]), str(path))
                    first = taken.setdefault(str(dest), source)
                    if first != source and "cloud_file" in (first[0], source[0]):
                        self.refuse(
                            f"evaluator.{field}",
                            f"dest {dest!r} is taken by {first[0]} {first[1]} already, so OSWorld "
                            "would compare that file with itself: give them different names",
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
            if not (is_local or value.startswith(BUNDLE_SCHEME)):
                continue
            name = value.removeprefix(BUNDLE_SCHEME)
            if name not in self._files:
                self.refuse(field, f"{value!r} names a file that does not lie beside the task")
            is_expected = field.startswith("evaluator.expected")
            if name.startswith("gold/") and not is_expected:
                self.refuse(field, f"{value!r} is gold: only evaluator.expected may name it")


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
