"""Tasks of the domain `gimp`: pictures, and its settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from envs_node.policy.task_files import Part
from tests.osworld import media
from tests.osworld.playing import Case, Hands, result_path

_SETTINGS = "/home/user/.config/GIMP/2.10"
_WINDOW = "GNU Image Manipulation Program"


def _set(file: str, line: str, hands: Hands) -> None:
    """End the program and add a line to its settings; the check quits what runs."""
    hands.quit("gimp", _WINDOW)
    hands.run(f"echo '{line}' >> {_SETTINGS}/{file}")


def _reopen(edit: Callable[[], bytes], hands: Hands) -> None:
    """Edit the picture with other means, and open what came out; the check exports it."""
    hands.quit("gimp", _WINDOW)
    hands.put("/home/user/Desktop/edited.png", edit())
    hands.launch("gimp /home/user/Desktop/edited.png", "edited")


def _export(picture: Callable[[], bytes], hands: Hands) -> None:
    hands.put(result_path(hands.task), picture())


def _search(action: str, hands: Hands) -> None:
    """Through the search for actions."""
    hands.press("/")
    hands.type(action)
    hands.press("enter")
    hands.wait_for("Vignette")


def _jpeg() -> bytes:
    return media.encode(media.photo(), "JPEG")


def _photo(name: str, _part: Part) -> bytes:
    if "gold" in name:
        return media.cutout()
    return media.encode(media.photo(), "JPEG" if Path(name).suffix == ".jpg" else "PNG")


def _picture(task_id: str, edit: Callable[[], bytes]) -> Case:
    return Case(domain="gimp", id=task_id, how="files", solve=partial(_reopen, edit), make=_photo)


def _setting(task_id: str, file: str, line: str) -> Case:
    return Case(domain="gimp", id=task_id, how="files", solve=partial(_set, file, line))


CASES = (
    _setting("7767eef2-56a3-4cea-8c9f-48c070c7d65b", "gimprc", '(theme "Light")'),
    _setting("7b7617bd-57cc-468e-9c91-40c4ec2bcb3d", "gimprc", "(undo-levels 100)"),
    _setting("d52d6308-ec58-42b7-a2c9-de80e4837b2b", "sessionrc", "(hide-docks yes)"),
    _picture("06ca5602-62ca-47f6-ad4f-da151cde54cc", media.indexed),
    _picture("2a729ded-3296-423d-aec4-7dd55ed5fbb3", media.cutout),
    _picture("554785e9-4523-4e7a-b8e1-8016f565f56a", media.vivid),
    _picture("72f83cdc-bf76-4531-9a1b-eb893a13f8aa", media.mirrored),
    _picture("7a4deb26-d57d-4ea9-9a73-630f66a7b568", media.darker),
    _picture("f723c744-e62c-4ae6-98d1-750d3cd7d79d", media.contrasted),
    Case(
        domain="gimp",
        id="77b8ab4d-994f-43ac-8930-8ca087d7c4b4",
        how="files",
        solve=partial(_export, _jpeg),
        make=_photo,
    ),
    Case(
        domain="gimp",
        id="a746add2-cab0-4740-ac36-c3769d9bfb46",
        how="driven",
        solve=partial(_search, "vignette"),
        make=_photo,
    ),
)
"""Each with its solution."""
