"""Every reason why a task cannot be searched or judged is told, before a desktop starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.messages.tasks import Task
from envs_node.policy.task_files import stored_name
from envs_node.policy.tasks import (
    TaskError,
    Vocabulary,
    inspect_task,
    read_task,
    task_lacks,
)

OSWORLD = Path(__file__).parents[1] / "golden" / "osworld"
KNOWN = Vocabulary(
    metrics=frozenset({"exact_match", "compare_audios", "compare_table"}),
    getters=frozenset(
        {"rule", "vm_file", "cloud_file", "rule_relativeTime", "page_info", "googledrive_file"}
    ),
    setup_types=frozenset(
        {"execute", "download", "launch", "sleep", "chrome_open_tabs", "login", "open"}
    ),
    unsupported={"metric:compare_audios": "needs librosa, which is not installed"},
)
RULE = {"type": "rule", "rules": {"expected": "a"}}
VM = {"type": "vm_file", "path": "/a", "dest": "a"}
GOLD = {"type": "cloud_file", "path": "https://example.org/x/gold.xlsx", "dest": "g"}


def _task(*steps: Any, **evaluator: Any) -> bytes:
    whole = {"func": "exact_match", "result": VM, "expected": RULE, **evaluator}
    task = {"id": "t", "instruction": "Do.", "config": list(steps), "evaluator": whole}
    return msgspec.json.encode(task)


def _step(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"type": kind, "parameters": parameters}


def _clock(time: Any, **more: Any) -> dict[str, Any]:
    rules = {"relativeTime": {"from": "tomorrow"}, "expected": {"time": time}, **more}
    return {"type": "rule_relativeTime", "rules": rules}


def _lacks(data: bytes, files: dict[str, bytes] | None = None) -> list[tuple[str, str]]:
    inspection = inspect_task(data, files or {}, KNOWN, file="x.json")
    return [(lack.kind, lack.field) for lack in inspection.lacks]


def test_a_task_that_lacks_nothing_is_read_in_full():
    inspection = inspect_task(_task(), {}, KNOWN, file="x.json")

    assert inspection.lacks == ()
    assert inspection.task == read_task(_task(), {}, KNOWN, file="x.json")


@pytest.mark.parametrize(
    ("data", "lacks"),
    [
        (b"{", [("broken", "whole file")]),
        (_task(func="exact_mach"), [("broken", "evaluator.func")]),
        (
            _task(func=["exact_match", "infeasible"], result=[VM, None], expected=[RULE]),
            [
                ("broken", "evaluator.func[1]"),
                ("broken", "evaluator.expected"),
                ("broken", "evaluator.result[1]"),
            ],
        ),
        (
            _task(func=["exact_match"] * 2, result=[VM, VM], expected=[RULE, None]),
            [("broken", "evaluator.expected[1]")],
        ),
        (_task(expected={**GOLD, "dest": "a"}), [("broken", "evaluator.expected")]),
        (_task(expected={"type": "rule"}), [("broken", "evaluator.expected.rules")]),
        (
            _task(expected=_clock(["{Day0D}", "{Month}"], timezone="UTC")),
            [("broken", "evaluator.expected.rules.expected.time")],
        ),
        (
            _task(_step("chrome_open_tabs", urls_to_open="https://a.org")),
            [("broken", "config[0].parameters.urls_to_open")],
        ),
        (_task(func="compare_audios"), [("library", "evaluator.func")]),
        (_task(expected=_clock("{Year}")), [("network", "evaluator.expected")]),
        (_task(expected=GOLD), [("file", "evaluator.expected")]),
        (_task(result={"type": "page_info", "url": "a.org"}), [("web", "evaluator.result")]),
        (_task(_step("login", platform="googledrive")), [("credentials", "config[0]")]),
        (
            _task(_step("chrome_open_tabs", urls_to_open=["https://a.org", "http://localhost/"])),
            [("web", "config[0]")],
        ),
        (
            _task(_step("chrome_open_tabs", urls_to_open=["file:///home/user/a.html"])),
            [],
        ),
        (
            _task(_step("execute", command=["sh", "-c", "wget https://a.org/b.sh"])),
            [("web", "config[0]")],
        ),
        (
            _task(_step("download", files=[{"url": "https://a.org/a.png", "path": "/a.png"}])),
            [("file", "config[0]")],
        ),
    ],
)
def test_what_a_task_lacks_is_named_with_its_field(data: bytes, lacks: list[tuple[str, str]]):
    assert _lacks(data) == lacks


def test_the_worst_lack_comes_first_and_none_hides_another():
    sent = _step("download", files=[{"url": "https://a.org/a.png", "path": "/a.png"}])

    lacks = _lacks(_task(sent, _step("login"), func="compare_audios", expected=_clock("{Year}")))

    assert [kind for kind, _ in lacks] == ["credentials", "library", "network", "file"]


def test_files_that_were_fetched_are_not_lacking():
    sent = _step("download", files=[{"url": "https://a.org/a%20b.png?x=1", "path": "/a.png"}])
    files = {
        stored_name("https://a.org/a%20b.png?x=1", "files"): b"png",
        stored_name(GOLD["path"], "gold"): b"gold",
    }

    assert _lacks(_task(sent, expected=GOLD), files) == []
    assert len(_lacks(_task(sent, expected=GOLD), dict([files.popitem()]))) == 1


def test_a_checker_that_takes_several_times_may_be_given_them():
    newer = msgspec.structs.replace(KNOWN, takes_time_lists=True)
    data = _task(expected=_clock(["{Day0D}", "{Month}"], timezone="UTC"))

    assert inspect_task(data, {}, newer, file="x.json").lacks == ()


def test_an_infeasible_task_needs_no_checker():
    task = read_task(_task(func="infeasible", expected=GOLD), {}, KNOWN, file="x.json")

    assert task_lacks(task, KNOWN) == ()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    st.sampled_from(["func", "result", "expected", "options", "postconfig", "conj"]),
)
def test_whatever_stands_in_an_evaluator_is_told_and_never_raised(value: Any, field: str):
    data = _task(**{field: value})

    inspection = inspect_task(data, {}, KNOWN, file="x.json")

    told = None if inspection.task else str(inspection.lacks[0])
    assert _strict(data) == (inspection.task, told)


def _strict(data: bytes) -> tuple[Task | None, str | None]:
    try:
        return read_task(data, {}, KNOWN, file="x.json"), None
    except TaskError as error:
        return None, f"{error.field}: {error.problem}"
