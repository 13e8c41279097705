"""A verdict rests on the checker that was installed, says which, and is void otherwise."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envs_node.actors.verifier.checker import Checker
from envs_node.actors.verifier.installed import InstalledFiles
from envs_node.actors.verifier.vocabulary import CheckerSource, read_checker
from envs_node.deploy.checker import checker_folder
from tests.actors.verifier.conftest import Guest

VSCODE = "desktop_env.evaluators.metrics.vscode"
DOCS = "desktop_env.evaluators.metrics.docs"
CONTROLLER = "desktop_env.controllers.python"


@pytest.fixture(scope="module")
def own_source(tmp_path_factory: pytest.TempPathFactory) -> CheckerSource:
    """An environment whose copy of OSWorld's package may be changed; the rest is the installed."""
    folder, installed = tmp_path_factory.mktemp("env") / "checker", checker_folder()
    site = next(installed.glob("lib/python3*/site-packages")).relative_to(installed)
    (folder / site).mkdir(parents=True)
    (folder / "bin").mkdir()
    shutil.copy(installed / "pyvenv.cfg", folder)
    (folder / "bin" / "python").symlink_to((installed / "bin" / "python").resolve())
    for path in (installed / site).iterdir():
        if path.name == "desktop_env":
            shutil.copytree(path, folder / site / path.name)
        else:
            (folder / site / path.name).symlink_to(path)
    return read_checker(folder)


@pytest.fixture(scope="module")
def own_checker(own_source: CheckerSource) -> Iterator[Checker]:
    """A checker of that environment."""
    checker = Checker(own_source)
    yield checker
    checker.close()


def _file(source: CheckerSource, module: str) -> Path:
    site = next(source.python.parents[1].glob("lib/python3*/site-packages"))
    return site / (module.replace(".", "/") + ".py")


def _solved(desktop: Callable[[str], Guest]) -> Guest:
    guest = desktop("sound")
    guest.write("/home/user/a.txt", b"right\n")
    return guest


def test_a_verdict_names_the_files_that_judged(own_checker, own_source, desktop, make_task):
    verdict = own_checker.verify(make_task(), _solved(desktop).pid, "DONE")

    assert (verdict.verdict, verdict.reason) == ("success", "")
    found = {source.module: source.sha256 for source in verdict.sources}
    assert {VSCODE, CONTROLLER, "desktop_env.evaluators.getters.file"} <= set(found)
    for module, sha256 in found.items():
        folder = _file(own_source, module).with_suffix("") / "__init__.py"
        path = folder if folder.is_file() else _file(own_source, module)
        assert hashlib.sha256(path.read_bytes()).hexdigest() == sha256


def test_what_judged_follows_from_the_task_and_not_from_earlier_ones(
    own_checker, desktop, make_task
):
    guest = _solved(desktop)
    before = own_checker.verify(make_task(), guest.pid, "DONE")
    own_checker.verify(make_task(func="compare_docx_files"), guest.pid, "DONE")

    after = own_checker.verify(make_task(), guest.pid, "DONE")

    assert after.sources == before.sources
    assert after.checker_sha256 == before.checker_sha256
    assert DOCS not in {source.module for source in after.sources}


@pytest.mark.parametrize("module", [VSCODE, CONTROLLER])
def test_a_verdict_of_altered_files_is_void_until_they_are_put_back(
    own_checker, own_source, desktop, make_task, module
):
    guest = _solved(desktop)
    assert own_checker.verify(make_task(), guest.pid, "DONE").verdict == "success"
    path = _file(own_source, module)
    whole = path.read_bytes()
    path.write_bytes(whole + b"\n# altered\n")

    void = own_checker.verify(make_task(), guest.pid, "DONE")
    path.write_bytes(whole)
    verdict = own_checker.verify(make_task(), guest.pid, "DONE")

    assert (void.verdict, void.score, void.phase) == ("infra", None, "sources")
    assert f"not those that were installed: {module};" in void.reason
    assert verdict.verdict == "success"


def test_a_metric_that_was_altered_before_the_start_judges_nothing(own_source, desktop, make_task):
    path = _file(own_source, VSCODE)
    whole = path.read_text("utf-8")
    path.write_text(
        whole.replace(
            "def compare_text_file(",
            "def compare_text_file(*_, **__):\n    return 1.0\n\n\ndef was_compare_text_file(",
        ),
        "utf-8",
    )
    checker = Checker(own_source)
    guest = desktop("sound")
    guest.write("/home/user/a.txt", b"wrong\n")
    try:
        void = checker.verify(make_task(), guest.pid, "DONE")
    finally:
        checker.close()
        path.write_text(whole, "utf-8")

    assert (void.verdict, void.score, void.phase) == ("infra", None, "sources")


def test_a_checker_that_pip_did_not_write_down_is_held_against_what_was_found_first(
    tmp_path: Path,
):
    installed = InstalledFiles(tmp_path / "bin" / "python", {})

    assert installed.altered({VSCODE: "a", DOCS: "b"}) == ()
    assert installed.altered({VSCODE: "c", DOCS: "b"}) == (VSCODE,)
