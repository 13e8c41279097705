"""Images for desktops to stand on: refused plainly, built alike, and stood on."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.deploy.image import (
    PACKAGES,
    ImageError,
    ImagePlan,
    build_image,
    read_image,
    read_packages,
)
from tests.actors.desktop.looking import shell
from tests.fakes_desktop import open_task

SMALL = (
    "at-spi2-core", "dbus", "fonts-dejavu-core", "gsettings-desktop-schemas", "openbox", "procps",
    "python3", "wmctrl", "x11-utils", "x11-xkb-utils", "xkb-data", "xterm", "xvfb",
)  # fmt: skip


def quiet(_line: str) -> None:
    """Hear no progress."""


def test_the_packages_of_an_image_are_those_of_desktops() -> None:
    names = read_packages(PACKAGES)

    assert {"xvfb", "openbox", "chromium", "thunderbird", "libreoffice-calc"} <= set(names)
    assert list(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"path": Path("/nonexistent/a.squashfs")}, "no such folder: /nonexistent"),
        ({"path": Path("/tmp")}, "/tmp is a folder already"),
        ({"packages": ("xterm --now",)}, "'xterm --now' is no package"),
        ({"packages": ("-o=x",)}, "'-o=x' is no package"),
    ],
)
def test_what_cannot_be_built_is_refused_before_anything_is_done(
    tmp_path: Path, plan: dict[str, object], said: str
) -> None:
    whole = {"path": tmp_path / "a.squashfs", "packages": ("xterm",), **plan}

    with pytest.raises(ImageError, match=said):
        build_image(msgspec.convert(whole, ImagePlan), quiet)


def test_a_list_without_packages_and_an_image_without_description_are_named(tmp_path: Path) -> None:
    (tmp_path / "none").write_text("# nothing\n")

    with pytest.raises(ImageError, match="names no package"):
        read_packages(tmp_path / "none")
    with pytest.raises(ImageError, match="build the image"):
        read_image(tmp_path / "a.squashfs")


def test_a_mirror_that_is_none_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    plan = ImagePlan(
        path=tmp_path / "a.squashfs", packages=("xterm",), mirror="http://127.0.0.1:9/debian"
    )

    with pytest.raises(ImageError, match="look at the mirror"):
        build_image(plan, quiet)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_image_comes_out_alike_twice_and_a_desktop_stands_on_it(tmp_path: Path) -> None:
    plan = ImagePlan(path=tmp_path / "small.squashfs", packages=SMALL)
    lines: list[str] = []
    first = build_image(plan, lines.append)
    again = msgspec.structs.replace(
        plan, path=tmp_path / "small.erofs", format="erofs", lock=first.packages
    )
    second = build_image(again, quiet)

    assert first.tree_sha256 == second.tree_sha256
    assert read_image(plan.path) == first
    assert (tmp_path / "small.squashfs.json").stat().st_size > 1000
    assert len(lines) > 3
    for image in (first, second):
        with Launcher() as launcher:
            sandbox = Sandbox(launcher, DesktopKind(lower=str(image.path)))
            try:
                seen = sandbox.reset(open_task("xterm"))
                assert seen.signature.windows
                assert shell(sandbox, "ls /usr/bin/soffice /usr/bin/xterm 2>/dev/null") == (
                    "/usr/bin/xterm\n"
                )
            finally:
                sandbox.close()


@pytest.mark.slow
def test_other_versions_than_the_locked_are_refused(tmp_path: Path) -> None:
    plan = ImagePlan(path=tmp_path / "a.squashfs", packages=("xterm",), lock=("xterm=1-1",))

    with pytest.raises(ImageError, match=r"mmdebstrap failed|not as locked"):
        build_image(plan, quiet)

    assert list(tmp_path.iterdir()) == []
