"""Every dependency is pinned, and has a page that says why it is there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _dependencies(*, extra: str = "") -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return [_plain(re.split(r"[^\w.-]", line)[0]) for line in wanted]


def test_every_dependency_is_pinned_to_one_version():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [re.fullmatch(r"([\w.-]+)==[\w.]+", line) for line in lines if line[:1] not in ("#", "")]

    assert all(pins), "a line that is no plain pin"
    pinned = {_plain(pin[1]) for pin in pins if pin}
    extras = (*_dependencies(extra="test"), *_dependencies(extra="fuzz"))
    assert {*_dependencies(), *extras} <= pinned


@pytest.mark.parametrize("name", [*_dependencies(), *_dependencies(extra="fuzz")])
def test_a_dependency_has_a_decision_page(name: str):
    pages = "".join(
        page.read_text(encoding="utf-8") for page in (ROOT / "docs/decisions").iterdir()
    )

    assert name in _plain(pages), f"{name}: write docs/decisions/000N-{name}.md"


def test_decision_pages_are_numbered_and_complete():
    pages = sorted((ROOT / "docs" / "decisions").iterdir())

    assert [page.name[:4] for page in pages] == [f"{n:04}" for n in range(1, len(pages) + 1)]
    for page in pages:
        headings = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert headings == ["Context", "Choice", "Price"], page.name


@pytest.mark.slow
def test_a_wheel_holds_everything_that_is_tracked(tmp_path: Path):
    subprocess.run(["git", "clone", "-q", ROOT, tmp_path / "clone"], check=True)
    pip = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "-w", tmp_path]

    subprocess.run([*pip, tmp_path / "clone"], check=True)

    (wheel,) = tmp_path.glob("*.whl")
    parts = ["messages", "actors", "supervisor", "policy", "fit", "deploy"]
    listed = subprocess.run(
        ["git", "ls-files", *parts], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tracked = {f"envs_node/{name}" for name in listed.stdout.splitlines()}
    missing = tracked - {*zipfile.ZipFile(wheel).namelist()}
    assert {name for name in missing if not name.endswith("README.md")} == set()
