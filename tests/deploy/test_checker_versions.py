"""A checkout of OSWorld's judges beside the release, and every verdict says which one it was."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from envs_node.actors.verifier.checker import Checker
from envs_node.actors.verifier.vocabulary import (
    ORIGIN_FILE,
    CheckerOrigin,
    CheckerUnreadableError,
    read_checker,
)
from envs_node.deploy import checker
from envs_node.deploy.checker import (
    CheckerInstallError,
    checker_folder,
    install_checker,
    is_checker_installed,
)
from envs_node.deploy.checker_origin import CheckerOriginError, digest_sources, find_origin
from envs_node.messages.verify import Verdict
from envs_node.policy.tasks import read_task
from tests.actors.verifier.conftest import Guest

METRIC = "desktop_env/evaluators/metrics/general.py"
TASK = {
    "id": "t",
    "instruction": "Do.",
    "evaluator": {
        "func": "exact_match",
        "result": {"type": "vm_command_line", "command": "echo wrong"},
        "expected": {"type": "rule", "rules": {"expected": "right"}},
    },
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An OSWorld tree under git, whose `exact_match` is content with anything."""
    tree: Path = tmp_path_factory.mktemp("osworld")
    (site,) = checker_folder().glob("lib/python3*/site-packages")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(site / "desktop_env", tree / "desktop_env", ignore=ignored)
    source = (tree / METRIC).read_text(encoding="utf-8")
    changed = source + "\n\ndef exact_match(result, rules):\n    return 0.5 + 0.5\n"
    (tree / METRIC).write_text(changed, encoding="utf-8")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "Be content"]):
        user = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(tree), *user, *command], check=True)
    return tree


@pytest.fixture(scope="module")
def installed(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout's own environment."""
    folder: Path = tmp_path_factory.mktemp("checkers") / "mine"
    done = install_checker(folder, lambda _: None, origin=find_origin("", checkout, "mine"))
    assert done.is_new
    return folder


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Guest]:
    """A small desktop."""
    made = Guest(tmp_path, "sound")
    yield made
    made.end()


def _judge(folder: Path, guest: Guest) -> Verdict:
    source = read_checker(folder)
    task = read_task(msgspec.json.encode(TASK), {}, source.vocabulary, file="t.json")
    judge = Checker(source)
    try:
        return judge.verify(task, guest.pid, "DONE")
    finally:
        judge.close()


def test_a_checkout_judges_by_its_own_metrics_and_the_verdict_names_it(
    installed: Path, checkout: Path, guest: Guest
):
    verdict, released = _judge(installed, guest), _judge(checker_folder(), guest)

    head = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    commit = subprocess.run(head, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    digest = digest_sources(checkout / "desktop_env")
    assert (verdict.verdict, verdict.score) == ("success", 1.0), verdict.reason
    assert verdict.checker == (f"OSWorld checkout {commit[:12]}, sources {digest[:12]} (mine)")
    assert (released.verdict, released.checker) == ("failure", "desktop-env 1.0.2")
    assert verdict.checker_sha256 != released.checker_sha256


def test_a_checkout_is_installed_once_and_anew_when_it_was_changed(installed: Path, checkout: Path):
    as_it_was = find_origin("", checkout, "mine")
    again = install_checker(installed, lambda _: None, origin=as_it_was)
    path = checkout / METRIC
    before = path.read_text(encoding="utf-8")
    try:
        path.write_text(before + "\n# changed\n", encoding="utf-8")
        changed = find_origin("", checkout, "mine")
    finally:
        path.write_text(before, encoding="utf-8")

    assert not again.is_new
    assert (as_it_was.told.is_changed, changed.told.is_changed) == (False, True)
    assert ", changed, sources " in changed.told.label()
    assert not is_checker_installed(installed, changed)


def test_an_environment_shares_what_metrics_need_and_not_the_release(installed: Path):
    (ours,) = checker_folder().glob("lib/python3*/site-packages")
    (its,) = installed.glob("lib/python3*/site-packages")

    assert (its / "lxml" / "__init__.py").exists()
    assert [path.name for path in its.glob("desktop_env-*")] == ["desktop_env-checkout.dist-info"]
    left_out = {path.name for path in ours.iterdir()} - {path.name for path in its.iterdir()}
    assert left_out <= {"desktop_env-1.0.2.dist-info", "mm_agents", "__pycache__"}


def test_what_is_no_checker_is_refused_before_anything_is_made(tmp_path: Path):
    with pytest.raises(CheckerOriginError, match="no OSWorld tree"):
        find_origin("", tmp_path, "")
    with pytest.raises(CheckerOriginError, match="no release"):
        find_origin("latest; rm", None, "")
    with pytest.raises(CheckerOriginError, match="no name"):
        find_origin("", None, "../x")
    with pytest.raises(CheckerOriginError, match="give one of them"):
        find_origin("1.0.1", tmp_path, "")


def test_a_checkout_that_python_cannot_read_is_not_taken_for_installed(
    checkout: Path, tmp_path: Path
):
    tree = tmp_path / "newer"
    shutil.copytree(checkout, tree, ignore=shutil.ignore_patterns(".git"))
    (tree / METRIC).write_text("def f[T](a: T): ...\n", encoding="utf-8")
    origin = find_origin("", tree, "")

    with pytest.raises(CheckerInstallError, match="is not Python as it is run here"):
        install_checker(tmp_path / "newer-env", lambda _: None, origin=origin)

    assert not is_checker_installed(tmp_path / "newer-env", origin)
    assert origin.told.label().startswith("OSWorld checkout without a commit, sources ")


def test_a_broken_note_of_the_origin_is_told(tmp_path: Path):
    (tmp_path / ORIGIN_FILE).write_text("{", encoding="utf-8")

    with pytest.raises(CheckerUnreadableError, match="is broken"):
        read_checker(tmp_path)


def test_a_release_has_a_name_unless_it_is_ours():
    assert find_origin("", None, "").told == CheckerOrigin(release="1.0.2")
    assert find_origin("1.0.1", None, "").told.label() == "desktop-env 1.0.1 (1.0.1)"


def test_an_installed_checkout_that_is_altered_later_voids_its_verdicts(
    checkout: Path, tmp_path: Path, guest: Guest
):
    folder = tmp_path / "altered"
    install_checker(folder, lambda _: None, origin=find_origin("", checkout, "altered"))
    (path,) = folder.glob(f"lib/python3*/site-packages/{METRIC}")
    path.write_bytes(path.read_bytes() + b"\n# altered\n")

    verdict = _judge(folder, guest)

    assert verdict.verdict == "infra"
    assert "desktop_env.evaluators.metrics.general" in verdict.reason


def test_an_environment_whose_making_was_killed_is_completed(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder, origin = tmp_path / "mine", find_origin("", checkout, "mine")
    link, left = checker._link, iter(range(3000))

    def die(source: str, target: str) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        link(source, target)

    monkeypatch.setattr(checker, "_link", die)
    with pytest.raises(KeyboardInterrupt):
        install_checker(folder, lambda _: None, origin=origin)
    monkeypatch.setattr(checker, "_link", link)
    install_checker(folder, lambda _: None, origin=origin)

    (ours,), (its,) = (f.glob("lib/python3*/site-packages") for f in (checker_folder(), folder))
    names = {path.relative_to(ours) for path in (ours / "numpy").rglob("*.py")}
    assert names == {path.relative_to(its) for path in (its / "numpy").rglob("*.py")}
    assert list(its.glob(".new-*")) == []


def test_two_that_install_at_once_make_one_whole_environment(checkout: Path, tmp_path: Path):
    folder, origin = tmp_path / "mine", find_origin("", checkout, "mine")
    told: list[str] = []

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(install_checker, folder, told.append, origin=origin) for _ in "ab"]
        done = [future.result() for future in futures]

    assert sorted(made.is_new for made in done) == [False, True]
    assert any(line.startswith("another process installs into") for line in told)
    (ours,), (its,) = (f.glob("lib/python3*/site-packages") for f in (checker_folder(), folder))
    names = {path.relative_to(ours) for path in (ours / "numpy").rglob("*.py")}
    assert names == {path.relative_to(its) for path in (its / "numpy").rglob("*.py")}


def test_nothing_of_an_earlier_checker_stays_under_the_name_of_another(
    checkout: Path, tmp_path: Path
):
    folder = tmp_path / "mine"
    install_checker(folder, lambda _: None, origin=find_origin("", checkout, "mine"))
    (site,) = folder.glob("lib/python3*/site-packages")
    release = site / "desktop_env-1.0.2.dist-info"
    release.mkdir()
    (checkout / "desktop_env" / "more.py").write_text("more = 1\n", encoding="utf-8")
    try:
        install_checker(folder, lambda _: None, origin=find_origin("", checkout, "mine"))
    finally:
        (checkout / "desktop_env" / "more.py").unlink()

    assert not release.exists(), "pip would take it for the release"
    assert (site / "desktop_env" / "more.py").exists()


@pytest.mark.parametrize(
    ("name", "link", "said"),
    [
        ("controllers/setup.py", "", "has no module desktop_env.controllers.setup"),
        ("evaluators/metrics/__init__.py", "", "has no module desktop_env.evaluators.metrics"),
        ("desktop_env.py", "", "desktop_env.py is missing"),
        ("evaluators/metrics/more.py", "nowhere", "cannot be copied: .*more.py"),
        ("evaluators/metrics/more", ".", "cannot be copied: "),
    ],
)
def test_a_checkout_that_is_not_whole_is_refused_in_a_line(
    checkout: Path, tmp_path: Path, name: str, link: str, said: str
):
    tree = tmp_path / "tree"
    shutil.copytree(checkout / "desktop_env", tree / "desktop_env")
    path = tree / "desktop_env" / name
    if link:
        path.symlink_to(link)
    else:
        path.unlink()

    with pytest.raises(CheckerInstallError, match=said) as caught:
        install_checker(tmp_path / "mine", lambda _: None, origin=find_origin("", tree, "mine"))

    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("line", ["raise SystemExit(3)", "1 / 0", "raise RuntimeError('no')"])
def test_a_metric_that_breaks_when_it_is_imported_is_the_checkers_fault(
    checkout: Path, guest: Guest, tmp_path: Path, line: str
):
    folder = tmp_path / "mine"
    install_checker(folder, lambda _: None, origin=find_origin("", checkout, "mine"))
    source = read_checker(folder)
    broken = tmp_path / "general.py"
    broken.write_text(f"{line}\n", encoding="utf-8")
    (site,) = folder.glob("lib/python3*/site-packages")
    shutil.copy(broken, site / METRIC)
    task = read_task(msgspec.json.encode(TASK), {}, source.vocabulary, file="t.json")
    judge = Checker(source)
    try:
        verdicts = [judge.verify(task, guest.pid, "DONE") for _ in range(2)]
        starts = judge.starts
    finally:
        judge.close()

    assert [verdict.verdict for verdict in verdicts] == ["checker_error"] * 2
    assert starts == 1
