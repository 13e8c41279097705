"""What a desktop stands on, beside the host's own file tree: a folder, or an image file."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from envs_node.actors.desktop.errors import LauncherError
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from tests.actors.desktop.looking import wait_until
from tests.stranger import run_as_stranger

pytestmark = pytest.mark.live
PROGRAMS = ("/usr/bin/python3", "/bin/sh", "/bin/cat", "/bin/touch")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts an image")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small system of its own: a shell, a Python, what they load, and a mark."""
    tree = tmp_path_factory.mktemp("lower") / "tree"
    library = next(Path("/usr/lib").glob("python3.*/os.py")).parent
    ignored = shutil.ignore_patterns("test", "tests", "__pycache__", "config-*", "dist-packages")
    shutil.copytree(library, f"{tree}{library}", ignore=ignored)
    for program in PROGRAMS:
        for path in {program, *_libraries(program)}:
            target = Path(f"{tree}{os.path.realpath(os.path.dirname(path))}") / Path(path).name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    for name in ("bin", "lib", "lib64"):
        if Path(f"/{name}").is_symlink():
            (tree / name).symlink_to(os.readlink(f"/{name}"))
    (tree / "etc").mkdir()
    (tree / "etc" / "mark").write_text("of the tree")
    (tree / "srv").mkdir()
    return tree


def _libraries(program: str) -> Iterator[str]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
    yield from (word for word in listed.stdout.split() if word.startswith("/"))


def said_in_a_desktop(lower: Path) -> str:
    """What a shell says of a desktop that stands on this."""
    script = "cat /etc/mark; touch /usr/bin/x; cat /etc/hostname; echo $(echo /srv /boot /media)"
    with Launcher() as launcher:
        pid = launcher.create(DesktopKind(lower=str(lower)))
        log = Path(f"/proc/{pid}/root/run/share/log/said.log")
        launcher.spawn(pid, ["sh", "-c", f"{script}; echo end"], {"PATH": "/usr/bin:/bin"}, "said")
        assert wait_until(lambda: log.exists() and log.read_text().endswith("end\n"))
        return log.read_text()


def test_a_desktop_stands_on_a_folder_under_the_settings(tree: Path) -> None:
    said = said_in_a_desktop(tree)

    assert said.startswith("of the tree")
    assert "Permission denied" in said
    assert "\ndesktop\n" in said
    assert not (tree / "usr/local").exists(), "the folder itself stays as it was"


@needs_root
@pytest.mark.parametrize(
    "maker", [("mksquashfs", "{tree}", "{image}", "-quiet"), ("mkfs.erofs", "{image}", "{tree}")]
)
def test_a_desktop_stands_on_an_image_that_leaves_no_device_behind(
    tree: Path, tmp_path: Path, maker: tuple[str, ...]
) -> None:
    image = tmp_path / "image"
    words = [word.format(tree=tree, image=image) for word in maker]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    said = said_in_a_desktop(image)

    assert said.startswith("of the tree")
    assert "Permission denied" in said
    attached = [
        path.read_text().strip() for path in Path("/sys/block").glob("loop*/loop/backing_file")
    ]
    assert str(image) not in attached


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("text", b"no image", "neither a folder nor an image"),
        ("nothing", None, "No such file or directory"),
    ],
)
def test_what_nothing_can_stand_on_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)

    with Launcher() as launcher, pytest.raises(LauncherError, match=f"{name}.*|.*{name}") as caught:
        launcher.create(DesktopKind(lower=str(tmp_path / name)))

    assert reason in str(caught.value)


def test_without_root_an_image_is_refused_with_the_way_out(tmp_path: Path) -> None:
    code = (
        "from envs_node.actors.desktop.launcher import *\n"
        "open('/tmp/of-a-stranger', 'wb').write(b'hsqs')\n"
        "with Launcher() as launcher: launcher.create(DesktopKind(lower='/tmp/of-a-stranger'))"
    )

    done = run_as_stranger("-c", code)

    Path("/tmp/of-a-stranger").unlink()
    assert "only root may mount the image" in done.stderr
    assert "unsquashfs -d FOLDER" in done.stderr
