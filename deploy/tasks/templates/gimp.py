"""Tasks in GIMP, a picture editor. It tells accessibility nothing: solutions use keys and points.

A picture of 240 by 160 pixels stands unscaled in the middle of the canvas, its corner at `_CORNER`.
"""

from __future__ import annotations

import random

from PIL import Image, ImageOps

from envs_node.deploy.tasks import words
from envs_node.deploy.tasks.osworld import HOME, Json, all_of, compare, launch, upload
from envs_node.deploy.tasks.pictures import Colour, draw, png
from envs_node.deploy.tasks.rules import file_at, meets
from envs_node.deploy.tasks.template import ClickOn, Instance, OracleStep, Template
from envs_node.messages.actions import Click, Drag, Finish, Key, Point, Type

_SIZE = (240, 160)
_CORNER = Point(512, 307)
_PATH = f"{HOME}/picture.png"
_OVERWRITE = (Key(keys=("alt", "f")), Key(keys=("w",)), Finish())
_GROUNDS: tuple[Colour, ...] = ((200, 180, 140), (170, 200, 160), (150, 190, 210), (210, 170, 190))
_INKS: tuple[Colour, ...] = ((180, 40, 40), (40, 90, 160), (60, 120, 50), (120, 60, 130))


def _keys(*chords: str) -> tuple[Key, ...]:
    return tuple(Key(keys=tuple(chord.split("+"))) for chord in chords)


def _instance(
    instruction: str,
    before: Image.Image,
    solution: tuple[OracleStep, ...],
    evaluator: Json,
    gold: dict[str, bytes] | None = None,
) -> Instance:
    return Instance(
        instruction=instruction,
        config=(upload("picture.png"), launch("gimp", _PATH)),
        evaluator=evaluator,
        oracle=solution if isinstance(solution[-1], Finish) else solution + _OVERWRITE,
        files={"picture.png": png(before)},
        gold=gold or {},
    )


def _like(gold: str = "gold.png") -> Json:
    return compare("compare_image_list", _PATH, gold)


def _sized(width: int, height: int) -> Json:
    return meets("check_image_size", file_at(_PATH), {"width": width, "height": height})


def _picture(chance: random.Random) -> Image.Image:
    """A tall box at the left and a flat one at the right, so that no turn looks like another."""
    first, second = chance.sample(_INKS, 2)
    left, top = chance.randint(10, 40), chance.randint(10, 30)
    return draw(
        _SIZE,
        chance.choice(_GROUNDS),
        [
            ((left, top, left + 50, top + 110), first),
            ((140, 95, chance.randint(190, 225), 140), second),
        ],
    )


def _flip(chance: random.Random) -> Instance:
    before = _picture(chance)
    instruction = chance.choice(
        (
            "Mirror the picture with Image > Transform > Flip Horizontally, then File > Overwrite",
            "Flip picture.png horizontally (Image > Transform) and overwrite the file (File menu)",
            "The picture is the wrong way round: flip the image left to right and overwrite it",
        )
    )
    evaluator = all_of(compare("check_image_mirror", _PATH, "before.png"), _like())
    gold = {"before.png": png(before), "gold.png": png(ImageOps.mirror(before))}
    return _instance(instruction, before, _keys("alt+i", "t", "h"), evaluator, gold)


def _rotate(chance: random.Random) -> Instance:
    before = _picture(chance)
    instruction = chance.choice(
        (
            "Turn the picture with Image > Transform > Rotate 90° clockwise, then File > Overwrite",
            "Rotate the whole image by 90 degrees clockwise and overwrite picture.png",
        )
    )
    after = before.transpose(Image.Transpose.ROTATE_270)
    evaluator = all_of(_sized(160, 240), _like())
    return _instance(
        instruction, before, _keys("alt+i", "t", "c"), evaluator, {"gold.png": png(after)}
    )


def _invert(chance: random.Random) -> Instance:
    before = _picture(chance)
    instruction = chance.choice(
        (
            "Make a negative of the picture with Colors > Invert, then File > Overwrite",
            "Invert the colours of picture.png (Colors > Invert) and overwrite the file",
        )
    )
    gold = {"gold.png": png(ImageOps.invert(before))}
    return _instance(instruction, before, _keys("alt+c", "v", "enter"), _like(), gold)


def _scale(chance: random.Random) -> Instance:
    before = _picture(chance)
    width = chance.randrange(60, 220, 6)
    instruction = chance.choice(
        (
            f"Use Image > Scale Image... to make the picture {width} pixels wide, then File > "
            "Overwrite",
            f"Scale picture.png to a width of {width} pixels in proportion and overwrite it",
        )
    )
    steps: tuple[OracleStep, ...] = (
        *_keys("alt+i", "s", "ctrl+a"),
        Type(text=str(width)),
        *_keys("tab", "alt+s"),
    )
    evaluator = all_of(
        _sized(width, width * 2 // 3), compare("check_structure_sim_resized", _PATH, "before.png")
    )
    return _instance(instruction, before, steps, evaluator, {"before.png": png(before)})


def _indexed(chance: random.Random) -> Instance:
    before = _picture(chance)
    instruction = chance.choice(
        (
            "Convert the picture with Image > Mode > Indexed... and overwrite it (File menu)",
            "Make picture.png a palette image (Image > Mode > Indexed...) and overwrite it",
        )
    )
    evaluator = compare("check_palette_and_structure_sim", _PATH, "before.png")
    steps = _keys("alt+i", "m", "i", "enter")
    return _instance(instruction, before, steps, evaluator, {"before.png": png(before)})


def _export(chance: random.Random) -> Instance:
    before = _picture(chance)
    (name,) = words.pick(chance, words.STEMS, 1)
    kind, ending = chance.choice((("JPEG", "jpg"), ("PNG", "png")))
    instruction = chance.choice(
        (
            f"Export the picture as '{name}.{ending}' with ctrl+shift+e",
            f"Use File > Export As... to keep a copy named '{name}.{ending}' beside the picture",
        )
    )
    steps: tuple[OracleStep, ...] = (
        *_keys("ctrl+shift+e", "ctrl+a"),
        Type(text=f"{name}.{ending}"),
        *_keys("enter"),
        ClickOn("window", f"Export Image as {kind}"),
        *_keys("enter"),
        Finish(),
    )
    path = f"{HOME}/{name}.{ending}"
    evaluator = compare("check_file_exists_and_structure_sim", path, "before.png")
    return _instance(instruction, before, steps, evaluator, {"before.png": png(before)})


def _crop(chance: random.Random) -> Instance:
    before = _picture(chance)
    left, top = chance.randint(5, 60), chance.randint(5, 40)
    width, height = chance.randint(60, 160), chance.randint(50, 100)
    instruction = chance.choice(
        (
            f"Crop the picture to the {width} by {height} pixels whose corner is at {left}, {top}, "
            "and overwrite it",
            f"Press r, drag over {width} x {height} pixels from {left}, {top} on, choose Image > "
            "Crop to Selection and overwrite the file",
        )
    )
    start = Point(_CORNER.x + left, _CORNER.y + top)
    steps: tuple[OracleStep, ...] = (
        *_keys("r"),
        Drag(path=(start, Point(start.x + width, start.y + height))),
        *_keys("alt+i", "c"),
    )
    after = before.crop((left, top, left + width, top + height))
    evaluator = all_of(_sized(width, height), _like())
    return _instance(instruction, before, steps, evaluator, {"gold.png": png(after)})


def _fill(chance: random.Random) -> Instance:
    ground = chance.choice(_GROUNDS)
    spots = [(chance.randint(20, 70), 30), (chance.randint(120, 170), 70)]
    inks = chance.sample(_INKS, 2)
    boxes = [((x, y, x + 50, y + 60), ink) for (x, y), ink in zip(spots, inks, strict=True)]
    chosen = chance.randrange(2)
    side = ("left", "right")[chosen]
    instruction = chance.choice(
        (
            f"Take the bucket fill tool (shift+b), click into the {side} box to make it black, and "
            "overwrite the picture",
            f"Paint the box on the {side} black with a bucket fill, then File > Overwrite",
        )
    )
    x, y = spots[chosen]
    steps: tuple[OracleStep, ...] = (
        *_keys("shift+b"),
        Click(x=_CORNER.x + x + 25, y=_CORNER.y + y + 30),
    )
    black = [(box, (0, 0, 0) if place == chosen else ink) for place, (box, ink) in enumerate(boxes)]
    gold = {"gold.png": png(draw(_SIZE, ground, black))}
    return _instance(instruction, draw(_SIZE, ground, boxes), steps, _like(), gold)


TEMPLATES = (
    Template(name="gimp-flip", app="gimp", category="gimp", split="train", make=_flip),
    Template(name="gimp-rotate", app="gimp", category="gimp", split="train", make=_rotate),
    Template(name="gimp-scale", app="gimp", category="gimp", split="train", make=_scale),
    Template(name="gimp-export", app="gimp", category="gimp", split="train", make=_export),
    Template(name="gimp-fill-box", app="gimp", category="gimp", split="train", make=_fill),
    Template(name="gimp-invert", app="gimp", category="gimp", split="validation", make=_invert),
    Template(name="gimp-indexed", app="gimp", category="gimp", split="held-out", make=_indexed),
    Template(name="gimp-crop", app="gimp", category="gimp", split="held-out", make=_crop),
)
