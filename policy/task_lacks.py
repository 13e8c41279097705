"""What keeps a task that can be read from being searched or judged here, told before a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from envs_node.policy.task_files import BUNDLE_SCHEME, stored_name
from envs_node.policy.task_reader import Vocabulary, listed

LackKind = Literal["broken", "credentials", "library", "network", "web", "file"]
_SIGN_IN_STEPS = ("googledrive", "login")
_WEB_GETTERS = frozenset(
    {"page_info", "pdf_from_url", "number_of_search_results", "info_from_website"}
    | {"gotoRecreationPage_and_get_html_content"}
)
"""Getters that open a page by themselves."""
_WEB_COMMANDS = re.compile(r"\b(apt|apt-get|pip|pip3|snap|npm|wget|curl|git clone)\b.*", re.DOTALL)
_ADDRESS = re.compile(r"https?://[^\s'\"]+")
_WEB_PLACES = re.compile(
    r"\b(?:github|google scholar|arxiv|plug-?in store|web ?store|gnome-look\.org)\b", re.IGNORECASE
)
_NEARBY = ("localhost", "127.0.0.1", "")


class Lack(msgspec.Struct, frozen=True, kw_only=True):
    """One reason why a task cannot be searched or judged."""

    kind: LackKind
    """`broken` (OSWorld's own code would raise or mis-score), `credentials` (somebody's account),
    `library` (not installed with the checker), `network` (the checker itself would use it), `web`
    (pages that are not here), `file` (not fetched yet)."""
    field: str
    problem: str

    def __str__(self) -> str:
        """Field and problem, as errors print them."""
        return f"{self.field}: {self.problem}"


def find_lacks(
    task: dict[str, Any], files: frozenset[str], vocabulary: Vocabulary
) -> tuple[Lack, ...]:
    """List all that is lacking, the worst kind first.

    Args:
        task: its JSON, of the right shape.
        files: names of the files that it has.
        vocabulary: what the checker knows, and what it cannot run.
    """
    evaluator = task["evaluator"]
    found = [*_of_steps(task.get("config"), "config", files), *_of_words(task)]
    if evaluator["func"] != "infeasible":
        found += [*_libraries(evaluator, vocabulary), *_of_getters(evaluator, files)]
        found += _of_steps(evaluator.get("postconfig"), "evaluator.postconfig", files)
    order = get_args(LackKind)
    return tuple(sorted(dict.fromkeys(found), key=lambda lack: order.index(lack.kind)))


def _libraries(evaluator: dict[str, Any], vocabulary: Vocabulary) -> Iterator[Lack]:
    for field, name in _names(evaluator):
        if name in vocabulary.unsupported:
            problem = f"{name} {vocabulary.unsupported[name]}"
            yield Lack(kind="library", field=field, problem=problem)


def _names(evaluator: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for func in listed(evaluator["func"]):
        yield "evaluator.func", f"metric:{func}"
    for field in ("result", "expected"):
        for config in listed(evaluator.get(field)):
            if config:
                yield f"evaluator.{field}", f"getter:{config['type']}"
    for index, step in enumerate(evaluator.get("postconfig") or []):
        yield f"evaluator.postconfig[{index}]", f"setup:{step['type']}"


def _of_getters(evaluator: dict[str, Any], files: frozenset[str]) -> Iterator[Lack]:
    for field in ("result", "expected"):
        for config in listed(evaluator.get(field)):
            if config:
                yield from _of_getter(config, f"evaluator.{field}", files)


def _of_getter(config: dict[str, Any], field: str, files: frozenset[str]) -> Iterator[Lack]:
    kind = config["type"]
    if kind == "googledrive_file":
        yield Lack(kind="credentials", field=field, problem="asks a Google Drive account")
    elif kind in _WEB_GETTERS:
        yield Lack(kind="web", field=field, problem=f"{kind} opens a page of the live web")
    elif kind == "rule_relativeTime" and "timezone" not in config["rules"]:
        problem = "rule_relativeTime without a timezone asks the network for one"
        yield Lack(kind="network", field=field, problem=problem)
    elif kind == "cloud_file":
        part: Literal["files", "gold"] = "gold" if field.endswith("expected") else "files"
        for path in listed(config.get("path")):
            if stored_name(path, part) not in files:
                problem = f"{path} would have to be downloaded, and the checker is offline"
                yield Lack(kind="file", field=field, problem=problem)


def _of_steps(
    steps: list[dict[str, Any]] | None, field: str, files: frozenset[str]
) -> Iterator[Lack]:
    for index, step in enumerate(steps or []):
        here, parameters = f"{field}[{index}]", step["parameters"]
        if step["type"] in _SIGN_IN_STEPS:
            problem = f"{step['type']} signs in to somebody's account"
            yield Lack(kind="credentials", field=here, problem=problem)
        elif step["type"] == "download":
            for file in parameters["files"]:
                if stored_name(file["url"], "files") not in files:
                    problem = f"{file['url']} would have to be downloaded, and desktops are offline"
                    yield Lack(kind="file", field=here, problem=problem)
        elif step["type"] == "chrome_open_tabs":
            for url in parameters["urls_to_open"]:
                if not _is_nearby(url):
                    yield Lack(kind="web", field=here, problem=f"opens {url}, a live page")
        elif step["type"] in ("execute", "command", "launch"):
            yield from _of_command(parameters["command"], here)


def _of_command(command: str | list[str], field: str) -> Iterator[Lack]:
    text = command if isinstance(command, str) else " ".join(command)
    wanted = [url for url in _ADDRESS.findall(text) if not _is_nearby(url)]
    if wanted and _WEB_COMMANDS.search(text):
        yield Lack(kind="web", field=field, problem=f"fetches {wanted[0]}")


def _of_words(task: dict[str, Any]) -> Iterator[Lack]:
    """What is said outright: by OSWorld, which marks tasks that want a proxy, or to the policy."""
    if task.get("proxy") is True:
        yield Lack(kind="web", field="proxy", problem="OSWorld gives it a proxy for live pages")
    text = str(task.get("instruction"))
    named = [*(url for url in _ADDRESS.findall(text) if not _is_nearby(url))]
    named += _WEB_PLACES.findall(text)
    if named:
        yield Lack(kind="web", field="instruction", problem=f"sends the policy to {named[0]}")


def _is_nearby(url: str) -> bool:
    if url.startswith(BUNDLE_SCHEME) or not url.startswith(("http:", "https:", "www.")):
        return "." not in url.split("/")[0] if "://" not in url else True
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:  # no address at all
        return False
    return host in _NEARBY and not url.startswith("www.")
