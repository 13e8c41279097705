"""Task JSON is read strictly: every refusal names the file, the field, and what stands there."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.policy.tasks import (
    TaskError,
    Vocabulary,
    is_infeasible,
    read_task,
    task_json,
    unsupported_reason,
)

OSWORLD = Path(__file__).parents[1] / "golden" / "osworld"
KNOWN = Vocabulary(
    metrics=frozenset({"exact_match", "compare_table", "compare_text_file", "compare_audios"})
    | {"infeasible", "compare_images", "check_json", "diff_text_file"},
    getters=frozenset(
        {"rule", "vm_file", "cloud_file", "vm_command_line", "rule_relativeTime"}
        | {"audio_in_slide"}
    ),
    setup_types=frozenset(
        {"execute", "download", "open", "launch", "sleep", "activate_window", "command"}
        | {"chrome_open_tabs", "upload_file"}
    ),
    unsupported={"metric:compare_audios": "needs librosa, which is not installed"},
)
VM = {"type": "vm_file", "path": "/home/user/a", "dest": "a"}
GOLD = {"type": "cloud_file", "path": "bundle://gold/a", "dest": "g"}
FILES = {"gold/a": b"gold", "files/b c.txt": b"start"}


def _task(**changes: Any) -> dict[str, Any]:
    task = {
        "id": "rename-1",
        "instruction": "Rename it.",
        "config": [{"type": "sleep", "parameters": {"seconds": 1}}],
        "related_apps": ["os"],
        "evaluator": {"func": "compare_text_file", "result": VM, "expected": GOLD},
    }
    return {key: value for key, value in {**task, **changes}.items() if value is not None}


def _upload(name: str) -> dict[str, Any]:
    return {"type": "upload_file", "parameters": {"files": [{"local_path": name, "path": "/a"}]}}


def _evaluator(**changes: Any) -> dict[str, Any]:
    evaluator = {**_task()["evaluator"], **changes}
    return _task(evaluator={key: value for key, value in evaluator.items() if value is not ...})


def _clock(time: Any = "{Year}", **more: Any) -> dict[str, Any]:
    rules = {"relativeTime": {"from": "tomorrow"}, "expected": {"time": time}, **more}
    return {"type": "rule_relativeTime", "rules": rules}


def _read(task: Any, files: dict[str, bytes] | None = None):
    data = task if isinstance(task, bytes) else msgspec.json.encode(task)
    return read_task(data, FILES if files is None else files, KNOWN, file="x.json")


def test_a_task_is_kept_byte_for_byte_with_its_files():
    data = msgspec.json.format(msgspec.json.encode(_task()), indent=4)

    task = _read(data)

    assert (task.id, task.template, task.split, task.apps) == (
        "rename-1", "rename-1", "held-out", ("os",)
    )  # fmt: skip
    assert task.json == data
    assert [(file.name, file.data) for file in task.files] == sorted(
        FILES.items(), key=lambda f: f[0]
    )


def test_a_bundled_task_names_its_template_and_split():
    task = _read(_task(template="rename", split="train"))

    assert (task.template, task.split) == ("rename", "train")


@pytest.mark.parametrize(
    ("task", "field", "said"),
    [
        (b"{", "whole file", "is not JSON"),
        (b"\xff\xfe", "whole file", "is not JSON"),
        (b"[" * 100_000, "whole file", "is not JSON"),
        ([], "whole file", "[] stands where an object is needed"),
        (_task(id=None), "id", "is missing"),
        (_task(id="../x"), "id", "'../x' is no id"),
        (_task(id=7), "id", "7 stands where a text is needed"),
        (_task(instruction=" "), "instruction", "is empty"),
        (_task(split="test"), "split", "'test' is none of train, validation, held-out"),
        (_task(evaluator=None), "evaluator", "is missing"),
        (_task(config={}), "config", "{} stands where a list is needed"),
        (_task(config=[{"type": "reboot", "parameters": {}}]), "config[0].type", "'reboot' is no"),
        (_task(config=[{"type": "sleep"}]), "config[0].parameters", "None stands where"),
        (_task(related_apps=[3]), "related_apps[0]", "3 stands where a text is needed"),
        (_evaluator(func="compare_tabel"), "evaluator.func", "'compare_tabel' is no metric"),
        (_evaluator(func=...), "evaluator.func", "None stands where a text is needed"),
        (_evaluator(func=[]), "evaluator.func", "is an empty list"),
        (_evaluator(result=...), "evaluator.result", "is null or missing"),
        (_evaluator(result={"type": "vm_fill"}), "evaluator.result.type", "'vm_fill' is no getter"),
        (_evaluator(expected=[GOLD]), "evaluator.expected", "stands where an object is needed"),
        (_evaluator(options=[{}]), "evaluator.options", "stands where an object is needed"),
        (
            _evaluator(postconfig=[{"type": "tidy", "parameters": {}}]),
            "evaluator.postconfig[0].type",
            "'tidy' is no set-up type",
        ),
        (_evaluator(expected={**GOLD, "dest": "a"}), "evaluator.expected", "dest 'a' is taken by"),
        (_evaluator(result={**VM, "dest": "../a"}), "evaluator.result.dest", "leaves the"),
        (_evaluator(result={**VM, "path": ["a"]}), "evaluator.result.path", "where a text is"),
        (_evaluator(result={**VM, "multi": True}), "evaluator.result.path", "where a list is"),
        (_evaluator(result={"type": "vm_file", "path": "/a"}), "evaluator.result.dest", "None"),
        (
            _evaluator(result={**VM, "multi": True, "path": ["/a", "/b"], "dest": ["a"]}),
            "evaluator.result.dest",
            "has 1 entries and evaluator.result.path 2",
        ),
        (
            _task(config=[{"type": "sleep", "parameters": {"seconds": "1"}}]),
            "config[0].parameters.seconds",
            "'1' is no number from 0 to 600",
        ),
        (
            _evaluator(expected={**GOLD, "path": "bundle://gold/z"}),
            "evaluator.expected.path",
            "does not lie beside the task",
        ),
        (
            _task(config=[{"type": "open", "parameters": {"path": "bundle://gold/a"}}]),
            "config[0].parameters.path",
            "is gold",
        ),
        (
            _task(config=[{"type": "download", "parameters": {"files": [{"path": "/a"}]}}]),
            "config[0].parameters.files[0].url",
            "None stands where a text is needed",
        ),
        (
            _task(config=[_upload("gold/a")]),
            "config[0].parameters.files[0].local_path",
            "is gold",
        ),
        (
            _task(config=[_upload("../secret")]),
            "config[0].parameters.files[0].local_path",
            "does not lie beside the task",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_is_refused_by_name(task: Any, field: str, said: str):
    with pytest.raises(TaskError) as caught:
        _read(task)

    assert caught.value.field == field
    assert said in caught.value.problem
    assert str(caught.value).startswith(f"x.json: {field}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"result": [VM]}, "evaluator.result", "has 1 entries and evaluator.func 2"),
        ({"result": VM}, "evaluator.result", "stands where a list is needed"),
        ({"result": [VM, None]}, "evaluator.result[1]", "is null"),
        ({"expected": [GOLD, None]}, "evaluator.expected[1]", "is null"),
        ({"options": {"a": 1}}, "evaluator.options", "stands where a list is needed"),
        ({"options": [{}, 3]}, "evaluator.options[1]", "3 stands where an object is needed"),
        ({"func": ["exact_match", "infeasible"]}, "evaluator.func[1]", "must stand alone"),
        ({"conj": "xor"}, "evaluator.conj", "'xor' is neither"),
    ],
)
def test_lists_that_osworld_would_stumble_over_are_refused(
    changes: dict[str, Any], field: str, said: str
):
    lists = {"func": ["exact_match"] * 2, "result": [VM] * 2, "expected": [GOLD] * 2}

    with pytest.raises(TaskError) as caught:
        _read(_evaluator(**{**lists, **changes}))

    assert caught.value.field == field
    assert said in caught.value.problem


def test_lists_of_one_length_are_taken():
    lists = {"func": ["exact_match"] * 2, "result": [VM] * 2, "expected": [], "options": [None, {}]}

    assert _read(_evaluator(**lists, conj="or")).id == "rename-1"


@pytest.mark.parametrize(
    "name", ["notes.txt", "gold", "gold/../x", "gold/.hidden", "/gold/a", "gold/a\n"]
)
def test_a_file_with_a_strange_name_is_refused(name: str):
    with pytest.raises(TaskError, match="is no file name of a task"):
        _read(_task(), {"gold/a": b"", name: b""})


def test_the_digest_covers_the_json_and_every_file():
    digest = _read(_task()).sha256

    others = (
        _read(_task(instruction="Rename it!")),
        _read(_task(), {**FILES, "gold/a": b"other"}),
        _read(_task(), {"gold/a": b"gold", "files/b d.txt": b"start"}),
    )

    assert digest == _read(_task(), dict(reversed(FILES.items()))).sha256
    assert len({digest, *(task.sha256 for task in others)}) == 4


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=10,
    ),
    st.sampled_from(["id", "instruction", "config", "evaluator", "related_apps", "split"]),
    st.sampled_from(["", "func", "result", "expected", "options", "postconfig", "conj"]),
)
def test_any_json_is_a_task_or_a_refusal_and_nothing_else(value: Any, field: str, inner: str):
    task = _task()
    if field == "evaluator" and inner:
        task["evaluator"][inner] = value
    else:
        task[field] = value

    with contextlib.suppress(TaskError):
        read = _read(task)

        assert read.id == task["id"]
        assert is_infeasible(read) == (task["evaluator"]["func"] == "infeasible")
        assert unsupported_reason(read, KNOWN) is None


def test_every_decoding_is_a_fresh_copy():
    task = _read(_task())

    task_json(task)["evaluator"]["func"] = "changed"

    assert task_json(task)["evaluator"]["func"] == "compare_text_file"


def test_what_the_checker_lacks_or_would_download_is_unsupported():
    audio = _read(_evaluator(func="compare_audios"))
    remote = _read(_evaluator(expected={**GOLD, "path": "https://example.org/gold.xlsx"}))
    clock, zone = _clock(), _clock(timezone="UTC")

    assert unsupported_reason(_read(_task()), KNOWN) is None
    assert "needs librosa" in str(unsupported_reason(audio, KNOWN))
    assert "would have to be downloaded" in str(unsupported_reason(remote, KNOWN))
    assert "timezone" in str(unsupported_reason(_read(_evaluator(expected=clock)), KNOWN))
    assert unsupported_reason(_read(_evaluator(expected=zone)), KNOWN) is None


def test_a_public_task_that_would_be_compared_with_itself_is_refused():
    (path,) = OSWORLD.glob("74d5859f*.json")

    with pytest.raises(TaskError, match="would compare that file with itself"):
        read_task(path.read_bytes(), {}, KNOWN, file=path.name)


def test_public_tasks_are_read_as_they_are():
    paths = [
        path for path in sorted(OSWORLD.glob("*.json")) if not path.name.startswith("74d5859f")
    ]

    tasks = [read_task(path.read_bytes(), {}, KNOWN, file=path.name) for path in paths]

    assert [task.id for task in tasks] == [path.stem for path in paths]
    assert [is_infeasible(task) for task in tasks].count(True) == 1


@pytest.mark.parametrize(
    "name",
    ["", ".", "a//b", "a/./b", "a/", "a\0b", "a\nb", "x" * 201, "\u00fc" * 101, "a/" * 500 + "b"],
)
@pytest.mark.parametrize("place", ["result", "expected"])
def test_what_is_no_file_name_is_refused_as_a_destination(place: str, name: str) -> None:
    getter = {**(VM if place == "result" else GOLD), "dest": name}

    with pytest.raises(TaskError, match=rf"evaluator\.{place}\.dest: .* is no file name"):
        read_task(msgspec.json.encode(_evaluator(**{place: getter})), FILES, KNOWN, file="t.json")


def test_a_task_that_is_nested_without_measure_is_refused() -> None:
    data = msgspec.json.encode(_evaluator() | {"note": "@"}).replace(
        b'"@"', b"[" * 900 + b"]" * 900
    )

    with pytest.raises(TaskError, match="more than 100 deep"):
        read_task(data, FILES, KNOWN, file="t.json")


def test_a_file_that_is_the_folder_of_another_is_refused() -> None:
    evaluator = _evaluator(result={**VM, "dest": "a"}, expected={**GOLD, "dest": "a/b"})

    with pytest.raises(TaskError, match="dest 'a' is a file, and the folder of 'a/b'"):
        read_task(msgspec.json.encode(evaluator), FILES, KNOWN, file="t.json")


@pytest.mark.parametrize("path", ["/home/user/a\0b", "/home/user/" + "x" * 240])
@pytest.mark.parametrize("place", ["config", "postconfig"])
def test_a_path_that_no_file_can_have_is_refused(place: str, path: str) -> None:
    sent = {"type": "download", "parameters": {"files": [{"url": "https://a.org/a", "path": path}]}}
    task = _evaluator() | {"config": [sent]} if place == "config" else _evaluator(postconfig=[sent])

    with pytest.raises(TaskError, match=rf"{place}\[0\].*path: .* is no path of files"):
        read_task(msgspec.json.encode(task), FILES, KNOWN, file="t.json")


@pytest.mark.parametrize(
    ("kind", "parameters", "field"),
    [
        ("execute", {"command": 7}, "command"),
        ("command", {"command": ["ls", 7]}, r"command\[1\]"),
        ("launch", {"command": []}, "command"),
        ("launch", {}, "command"),
        ("open", {"path": ["a"]}, "path"),
        ("activate_window", {"window_name": 7}, "window_name"),
    ],
)
def test_a_step_with_a_value_of_another_kind_is_refused(
    kind: str, parameters: dict[str, Any], field: str
) -> None:
    step = {"type": kind, "parameters": parameters}

    with pytest.raises(TaskError, match=rf"config\[0\]\.parameters\.{field}: "):
        read_task(msgspec.json.encode(_task(config=[step])), FILES, KNOWN, file="t.json")
