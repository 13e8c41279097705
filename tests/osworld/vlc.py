"""Tasks of the domain `vlc`: its settings, and films."""

from __future__ import annotations

from functools import cache, partial

from envs_node.policy.task_files import Part
from tests.osworld import media
from tests.osworld.playing import Case, Hands, result_path

_WINDOW = "VLC media player"
_SETTINGS = "/home/user/.config/vlc/vlcrc"
_TITLES = ("-metadata", "title=Interstellar Movie - Official Trailer")
_ARTIST = ("-metadata", "artist=Interstellar Movie")
_BLACK = ";".join(["20"] * 12)


def _set(section: str, line: str, hands: Hands) -> None:
    """End the program, and write down what its dialog would; the check starts it again."""
    hands.quit("vlc", _WINDOW)
    hands.run(f"sed -i 's|^.{section}.$|&\\n{line}|' {_SETTINGS}")


def _play(hands: Hands) -> None:
    hands.press("ctrl+o")
    hands.wait_for("Select one or more files")
    hands.type(
        "/home/user/Desktop/Rick Astley - Never Gonna Give You Up (Official Music Video).mp4"
    )
    hands.press("enter")
    hands.wait_for("Never Gonna")


def _fill(hands: Hands) -> None:
    hands.press("f")


def _put(name: str, hands: Hands) -> None:
    hands.put(result_path(hands.task), _files(name, "gold"))


def _wallpaper(hands: Hands) -> None:
    path = "/home/user/Desktop/scene.png"
    hands.put(path, _files("interstellar.png", "gold"))
    hands.run(f"gsettings set org.gnome.desktop.background picture-uri file://{path}")


@cache
def _files(name: str, _part: Part) -> bytes:
    if name.endswith(".png"):
        return media.encode(media.photo())
    if "Interstellar" in name:
        return media.film(125, *_TITLES, *_ARTIST)
    if "flipped" in name:
        return media.film(5, "-vf", "vflip")
    return media.film({"Rick": 60, "1984": 5}.get(name[:4], 90))


def _setting(task_id: str, section: str, line: str) -> Case:
    return Case(domain="vlc", id=task_id, how="files", solve=partial(_set, section, line))


def _film(task_id: str, name: str) -> Case:
    return Case(domain="vlc", id=task_id, how="files", solve=partial(_put, name), make=_files)


CASES = (
    _setting("215dfd39-f493-4bc3-a027-8a97d72c61bf", "qt", "qt-bgcone=0"),
    _setting("9195653c-f4aa-453d-aa95-787f6ccfaae9", "qt", "qt-max-volume=200"),
    _setting("a5bbbcd5-b398-4c91-83d4-55e1e31bbb81", "qt", "qt-minimal-view=1"),
    _setting("d06f0d4d-2cd5-4ede-8de9-598629438c6e", "qt", f"qt-slider-colours={_BLACK}"),
    _setting(
        "8ba5ae7a-5ae5-4eab-9fcc-5dd4fe3abf89", "core", "input-record-path=/home/user/Desktop"
    ),
    _setting(
        "f3977615-2b45-4ac5-8bba-80c17dbe2a37", "core", "one-instance-when-started-from-file=0"
    ),
    _film("fba2c100-79e8-42df-ae74-b592418d54f4", "interstellar.png"),
    _film("aa4b5023-aef6-4ed9-bdc9-705f59ab9ad6", "1984_Apple_Macintosh_Commercial.mp4"),
    Case(
        domain="vlc",
        id="59f21cfb-0120-4326-b255-a5b827b38967",
        how="driven",
        solve=_play,
        make=_files,
    ),
    Case(
        domain="vlc",
        id="8d9fd4e2-6fdb-46b0-b9b9-02f06495c62f",
        how="driven",
        solve=_fill,
        make=_files,
    ),
    Case(
        domain="vlc",
        id="efcf0d81-0835-4880-b2fd-d866e8bc2294",
        how="files",
        solve=_wallpaper,
        make=_files,
    ),
)
"""Each with its solution."""
