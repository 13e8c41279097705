"""Tasks in VLC, a player of sound and film."""

from __future__ import annotations

import random

from envs_node.deploy.tasks import words
from envs_node.deploy.tasks.osworld import HOME, Json, compare, launch, upload
from envs_node.deploy.tasks.pictures import draw, film, png, tone
from envs_node.deploy.tasks.rules import file_at, getter, meets
from envs_node.deploy.tasks.template import ClickOn, Instance, OracleStep, Template
from envs_node.messages.actions import Click, Finish, Key, Scroll, Type

_PREFERENCES = Key(keys=("ctrl", "p"))
_SAVE = ClickOn("push button", "Save")
_CONFIG = getter("vlc_config", dest="vlcrc")
# The checker asks this interface, under this password, what is played.
_WITH_STATUS = ("--extraintf", "http", "--http-password", "password", "--repeat")


def _setting(
    instruction: str, evaluator: Json, *solution: OracleStep, folder: str = ""
) -> Instance:
    """A change of the preferences, which end with Save."""
    return Instance(
        instruction=instruction,
        config=(*((upload("readme.txt", folder=folder),) if folder else ()), launch("vlc")),
        evaluator=evaluator,
        oracle=(_PREFERENCES, *solution, _SAVE, Finish()),
        files={"readme.txt": b"Nothing to see here.\n"} if folder else {},
    )


def _minimal_view(chance: random.Random) -> Instance:
    instruction = chance.choice(
        (
            "Open the preferences with ctrl+p, tick 'Start in minimal view mode' and click Save",
            "Let VLC start in its minimal view from now on (Tools > Preferences), and save that",
            "In Tools > Preferences turn 'Start in minimal view mode' on, then press Save",
        )
    )
    evaluator = meets("check_qt_minimal_view", _CONFIG, {"expected_qt_minimal_view": "1"})
    return _setting(instruction, evaluator, ClickOn("check box", "Start in minimal view mode"))


def _many_instances(chance: random.Random) -> Instance:
    box = "Use only one instance when started from file manager"
    instruction = chance.choice(
        (
            f"Open the preferences with ctrl+p, untick '{box}' and click Save",
            "Files that are opened from the file manager should each get a VLC window of their "
            f"own: turn '{box}' off in the preferences and save them",
        )
    )
    evaluator = meets(
        "check_one_instance_when_started_from_file",
        _CONFIG,
        {"expected_one_instance_when_started_from_file": "0"},
    )
    return _setting(instruction, evaluator, ClickOn("check box", box))


def _record_folder(chance: random.Random) -> Instance:
    (place,) = words.pick(chance, words.PLACES, 1)
    path = f"{HOME}/{place}"
    field = "Record directory or filename"
    instruction = chance.choice(
        (
            f"Set '{field}' under Input / Codecs in the preferences (ctrl+p) to '{path}' and save",
            f"Recordings shall be kept in '{path}': change it under Tools > Preferences > Input / "
            "Codecs and click Save",
        )
    )
    evaluator = meets("is_vlc_recordings_folder", _CONFIG, {"recording_file_path": path})
    steps = (
        ClickOn("check box", "Input / Codecs"),
        ClickOn("text", field),
        Key(keys=("ctrl", "a")),
        Type(text=path),
    )
    return _setting(instruction, evaluator, *steps, folder=path)


def _maximum_volume(chance: random.Random) -> Instance:
    volume = chance.randrange(130, 300, 10)
    instruction = chance.choice(
        (
            "Open the preferences with ctrl+p, show All settings, search for 'maximum volume', "
            f"choose Qt, set 'Maximum Volume displayed' to {volume} and click Save",
            f"Let the volume slider go up to {volume} percent. It is among All settings of the "
            "preferences; search there for 'maximum volume', and save",
        )
    )
    evaluator = meets("check_qt_max_volume", _CONFIG, {"expected_qt_max_volume": str(volume)})
    steps = (
        ClickOn("radio button", "All"),
        Click(x=413, y=46),
        Type(text="maximum volume"),
        ClickOn("table cell", "Qt"),
        Scroll(x=590, y=600, dy=30),
        ClickOn("spin button", "Maximum Volume displayed", count=2),
        Key(keys=("ctrl", "a")),
        Type(text=str(volume)),
    )
    return _setting(instruction, evaluator, *steps)


def _songs(chance: random.Random, count: int) -> dict[str, bytes]:
    names = words.pick(chance, words.THINGS, count)
    return {f"{name}.wav": tone(chance.choice((100, 200, 400)), 20) for name in names}


def _play(chance: random.Random) -> Instance:
    songs = _songs(chance, 3)
    name = chance.choice(list(songs))
    instruction = chance.choice(
        (
            f"Press ctrl+o, type '{name}' and press enter, so that it plays",
            f"Open the file '{name}' in VLC and let it play",
        )
    )
    status = getter("vlc_playing_info", dest="status.xml")
    return Instance(
        instruction=instruction,
        config=(upload(*songs), launch("vlc", *_WITH_STATUS)),
        evaluator=meets("is_vlc_playing", status, {"type": "file_name", "file_name": name}),
        oracle=(Key(keys=("ctrl", "o")), Type(text=name), Key(keys=("enter",)), Finish()),
        files=songs,
    )


def _save_playlist(chance: random.Random) -> Instance:
    songs = _songs(chance, 2)
    (stem,) = words.pick(chance, words.STEMS, 1)
    name = f"{stem}.xspf"
    instruction = chance.choice(
        (
            f"Save the playlist with ctrl+y under the name '{name}'",
            f"Use Media > Save Playlist to File... and call it '{name}'",
        )
    )
    rules = {"expect": [f"<location>file://{HOME}/{song}</location>" for song in songs]}
    return Instance(
        instruction=instruction,
        config=(
            upload(*songs),
            launch("vlc", "--no-playlist-autostart", *(f"{HOME}/{song}" for song in songs)),
        ),
        evaluator=meets("check_list", file_at(f"{HOME}/{name}"), rules),
        oracle=(
            Key(keys=("ctrl", "y")),
            Key(keys=("ctrl", "a")),
            Type(text=name),
            Key(keys=("enter",)),
            Finish(),
        ),
        files=songs,
    )


def _snapshot(chance: random.Random) -> Instance:
    left, top = chance.randint(8, 100), chance.randint(8, 60)
    ink = chance.choice(((180, 40, 40), (40, 90, 160), (60, 120, 50)))
    image = draw((192, 128), (220, 210, 190), [((left, top, left + 60, top + 50), ink)])
    (prefix,) = words.pick(chance, words.THINGS, 1)
    instruction = chance.choice(
        (
            "Choose Video > Take Snapshot",
            "Keep a picture of the film as it stands: take a snapshot (Video menu)",
        )
    )
    options = ("--play-and-pause", "--snapshot-sequential", "--snapshot-path", HOME)
    return Instance(
        instruction=instruction,
        config=(
            upload("film.y4m"),
            launch("vlc", *options, "--snapshot-prefix", prefix, f"{HOME}/film.y4m"),
        ),
        evaluator=compare("check_structure_sim", f"{HOME}/{prefix}00001.png", "gold.png"),
        oracle=(ClickOn("menu item", "Video"), ClickOn("menu item", "Take Snapshot"), Finish()),
        files={"film.y4m": film(image, 2)},
        gold={"gold.png": png(image)},
    )


TEMPLATES = (
    Template(name="vlc-minimal-view", app="vlc", category="vlc", split="train", make=_minimal_view),
    Template(name="vlc-play-file", app="vlc", category="vlc", split="train", make=_play),
    Template(
        name="vlc-record-folder", app="vlc", category="vlc", split="train", make=_record_folder
    ),
    Template(
        name="vlc-save-playlist", app="vlc", category="vlc", split="validation", make=_save_playlist
    ),
    Template(name="vlc-snapshot", app="vlc", category="vlc", split="train", make=_snapshot),
    Template(
        name="vlc-many-instances", app="vlc", category="vlc", split="held-out", make=_many_instances
    ),
    Template(
        name="vlc-maximum-volume", app="vlc", category="vlc", split="held-out", make=_maximum_volume
    ),
)
