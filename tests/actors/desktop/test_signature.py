"""The digests that a signature is made of."""

from __future__ import annotations

import os
import time
from io import BytesIO
from pathlib import Path

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from envs_node.actors.desktop.screen import (
    frame_digest,
    pack_frame,
    png_of_frame,
    tile_digests,
)
from envs_node.actors.desktop.signature import elements_digest, files_digest
from envs_node.actors.desktop.xserver import Window
from envs_node.messages.desktop import Element
from envs_node.policy.masks import ElementMask


def test_the_files_digest_tells_names_and_contents(tmp_path: Path) -> None:
    digests = {files_digest(tmp_path)}
    (tmp_path / "a.txt").write_text("x")
    digests.add(files_digest(tmp_path))
    (tmp_path / "a.txt").write_text("y")
    digests.add(files_digest(tmp_path))
    (tmp_path / "a.txt").rename(tmp_path / "b.txt")
    digests.add(files_digest(tmp_path))
    (tmp_path / "folder").mkdir()
    digests.add(files_digest(tmp_path))

    assert len(digests) == 5


def test_hidden_files_do_not_count(tmp_path: Path) -> None:
    before = files_digest(tmp_path)
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "a").write_text("x")
    (tmp_path / ".lock").write_text("x")

    assert files_digest(tmp_path) == before


def test_a_link_out_of_the_home_is_not_followed(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    home.mkdir()
    outside.write_text("x")
    (home / "link").symlink_to(outside)
    before = files_digest(home)
    outside.write_text("y")

    assert files_digest(home) == before


def test_a_file_of_holes_is_not_read_to_its_end_and_its_size_counts(tmp_path: Path) -> None:
    digests = set()
    start = time.monotonic()
    for size in (5 << 40, (5 << 40) + 1):
        with (tmp_path / "holes").open("wb") as sink:
            sink.truncate(size)
        (tmp_path / "z.txt").write_text("x")  # comes after it, when nothing more is read
        digests.add(files_digest(tmp_path))
    (tmp_path / "z.txt").write_text("xy")
    digests.add(files_digest(tmp_path))

    assert len(digests) == 3
    assert time.monotonic() - start < 30  # to the end: half an hour each


def test_a_pipe_and_a_device_behind_a_link_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")

    assert files_digest(tmp_path) == files_digest(tmp_path)


@given(st.integers(0, 199), st.integers(0, 299))
def test_one_changed_pixel_changes_the_frame_and_one_tile(y: int, x: int) -> None:
    pixels = np.zeros((200, 300, 4), np.uint8)
    tiles, columns = tile_digests(pixels)
    before = frame_digest(pixels)
    pixels[y, x, 1] = 1

    changed, _ = tile_digests(pixels)

    assert columns == 4
    assert len(tiles) == 4 * 12
    assert frame_digest(pixels) != before
    differing = [at // 4 for at in range(0, 48, 4) if tiles[at : at + 4] != changed[at : at + 4]]
    assert differing == [y // 80 * columns + x // 80]


def test_a_packed_frame_becomes_a_png_of_the_same_colours() -> None:
    pixels = np.zeros((40, 30, 4), np.uint8)
    pixels[:, :] = (10, 20, 30, 0)  # blue, green, red, unused

    png = png_of_frame(pack_frame(pixels), 30, 40)
    assert png is not None

    with Image.open(BytesIO(png)) as opened:
        assert opened.size == (30, 40)
        assert opened.getpixel((5, 5)) == (30, 20, 10)


def test_a_picture_that_is_too_large_to_be_sent_is_none() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (2160, 3840, 4), dtype=np.uint8)
    flat = np.zeros_like(noise)

    assert png_of_frame(pack_frame(noise), 3840, 2160) is None
    assert png_of_frame(pack_frame(flat), 3840, 2160) is not None


def window(app_class: str, x: int = 0) -> Window:
    """A window of 100 px by 100."""
    return Window(
        id=1, title="", app_class=app_class, x=x, y=0, width=100, height=100, is_hidden=False
    )


def test_what_an_element_mask_covers_does_not_count_and_all_else_does() -> None:
    windows = (window("notes"), window("other", x=200))
    mask = ElementMask(
        name="n", app_class="notes", roles=("label",), names="[0-9]+", part="name", reason="a clock"
    )

    def digest(role: str, name: str, x: int = 10, masks: tuple[ElementMask, ...] = (mask,)) -> str:
        element = Element(role, name, "", x, 10, 20, 20)
        return elements_digest([element], windows, masks)

    assert digest("label", "12") == digest("label", "13")
    assert digest("label", "12", masks=()) != digest("label", "13", masks=())
    assert digest("label", "twelve") != digest("label", "13")
    assert digest("text", "12") != digest("text", "13")
    assert digest("label", "12", x=210) != digest("label", "13", x=210)
    assert digest("label", "12", x=500) != digest("label", "13", x=500)


def test_a_part_that_is_masked_is_left_out_and_no_other() -> None:
    element = Element("label", "name", "value", 10, 10, 20, 20, ("focused",))
    changes = {"name": "x", "value": "y", "states": ()}

    for part in ("whole", *changes):
        mask = ElementMask(
            name="n",
            app_class="notes",
            roles=(),
            part=part,
            reason="a clock",  # type: ignore[arg-type]
        )
        for field, value in changes.items():
            other = msgspec.structs.replace(element, **{field: value})
            first, second = (
                elements_digest([one], [window("notes")], [mask]) for one in (element, other)
            )
            assert (first == second) == (part in (field, "whole"))
