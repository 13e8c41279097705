"""`envs-node image build`: a file tree for desktops to stand on, the same on every host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from envs_node.deploy.cli.console import show, tell
from envs_node.deploy.cli.verb import Verb
from envs_node.deploy.image import (
    PACKAGES,
    Image,
    ImageFormat,
    ImagePlan,
    build_image,
    read_image,
    read_packages,
)

_MB = 10**6


class Build(Verb, frozen=True, kw_only=True):
    """Build an image; then set `lower` of [desktop] in the configuration to its path."""

    path: tyro.conf.Positional[Path]
    """The image. What is in it is written to PATH.json."""
    format: ImageFormat = "squashfs"
    """`folder` is for hosts where desktops run without root."""
    suite: str = "bookworm"
    mirror: str = ""
    """Where packages come from; what this host's own apt says unless given."""
    packages: Path = PACKAGES
    """File with a package a line."""
    include: tuple[str, ...] = ()
    """Further packages."""
    locked: Path | None = None
    """The .json of an image: refuse what does not come out with the same versions."""
    json: bool = False

    def run(self) -> int:
        """Build."""
        lock = read_image(self.locked.with_suffix("")).packages if self.locked else ()
        plan = ImagePlan(
            path=self.path.resolve(),
            format=self.format,
            suite=self.suite,
            mirror=self.mirror,
            packages=(*read_packages(self.packages), *self.include),
            lock=lock,
        )
        image = build_image(plan, tell)
        show(image, _as_text(image), as_json=self.json)
        return 0


class Show(Verb, frozen=True, kw_only=True):
    """What is in an image."""

    path: tyro.conf.Positional[Path]
    json: bool = False

    def run(self) -> int:
        """Show it."""
        image = read_image(self.path)
        show(image, "\n".join((_as_text(image), *image.packages)), as_json=self.json)
        return 0


def _as_text(image: Image) -> str:
    return (
        f"{image.path}: {image.format} of {image.size_bytes / _MB:.0f} MB, {image.suite}, "
        f"{len(image.packages)} packages, built in {image.wall_s:.0f} s\n"
        f"tree sha256 {image.tree_sha256}"
    )


ImageVerbs = (
    Annotated[Build, tyro.conf.subcommand("build")] | Annotated[Show, tyro.conf.subcommand("show")]
)
