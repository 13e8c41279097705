"""The words of the generated screens: labels that no application has, values and paraphrases."""

from __future__ import annotations

import random

LABELS = (
    "Quartz", "Heron", "Oboe", "Basalt", "Lichen", "Walrus", "Cobalt", "Maple", "Ferret",
    "Zither", "Pumice", "Orchid", "Gannet", "Lantern", "Saffron", "Badger", "Cello", "Granite",
    "Thistle", "Osprey", "Bronze", "Willow", "Marten", "Fiddle", "Slate", "Clover", "Puffin",
    "Bugle", "Amber", "Fennel", "Weasel", "Viola", "Marble", "Sorrel", "Plover", "Tuba",
    "Opal", "Bracken", "Stoat", "Lyre", "Topaz", "Juniper", "Curlew", "Gong", "Jasper",
    "Hazel", "Beaver", "Harp", "Garnet", "Rowan", "Linnet", "Banjo", "Onyx", "Aspen", "Otter",
    "Flute", "Agate", "Laurel", "Magpie", "Cornet", "Beryl", "Cypress", "Lemur", "Spinet",
    "Nickel", "Hornbeam", "Tapir", "Dulcimer", "Pewter", "Alder", "Bison", "Piccolo", "Chrome",
    "Poplar", "Jackal", "Trombone", "Titanium", "Sequoia", "Gopher", "Bassoon", "Mercury",
)  # fmt: skip
"""Stones, animals, instruments, plants and metals: nothing a menu would say."""

_ONSETS = (
    "b", "br", "c", "ch", "d", "dr", "f", "fl", "g", "gr", "h", "j", "k", "l", "m", "n", "p",
    "pl", "r", "s", "sc", "sh", "st", "t", "tr", "v", "w", "z",
)  # fmt: skip
_VOWELS = (
    "a", "e", "i", "o", "u", "ai", "ea", "ee", "io", "ou",
)  # fmt: skip
_CODAS = (
    "b", "ck", "d", "ff", "l", "ll", "m", "n", "nd", "ng", "nt", "p", "r", "rd", "rt", "s",
    "sh", "ss", "st", "t", "tch", "x",
)  # fmt: skip

VALUES = (
    "pelican", "wander", "amber", "kettle", "hollow", "spruce", "velvet", "turnip", "ribbon",
    "saddle", "carbon", "lagoon", "mitten", "harvest", "bramble", "goblet", "meadow",
    "pigment", "tunnel", "walnut", "canyon", "dapple", "ember", "furrow", "gallop", "hazel",
    "igloo", "jigsaw", "kernel", "lattice", "mosaic", "nectar", "oyster", "paddle", "quiver",
    "rafter", "satchel", "thimble", "umber", "vessel", "whistle", "yonder", "zephyr", "acorn",
    "beacon", "cinder", "dimple", "elbow", "ferry", "gravel", "hamlet", "inlet", "jumble",
    "kayak", "ladle",
)  # fmt: skip
_JOINERS = (
    "the", "of", "for", "with", "at", "near", "from", "into", "every", "seven", "old", "warm",
    "green", "slow",
)  # fmt: skip


def make_label(chance: random.Random) -> str:
    """A label of one or two words, half of them of no language."""
    words = [_one_word(chance)]
    if chance.random() < 0.35:
        second = _one_word(chance)
        words.append(second if chance.random() < 0.5 else second.lower())
    if chance.random() < 0.06:
        words.append(_one_word(chance).lower())
    return " ".join(words)


def make_value(chance: random.Random) -> str:
    """What a task may want typed: a few words, a number, a name, now and then a formula."""
    draw = chance.random()
    if draw < 0.6:
        words = [chance.choice(VALUES) for _ in range(chance.choice((1, 2, 2, 3, 3, 4)))]
        if len(words) > 1 and chance.random() < 0.3:
            words.insert(1, chance.choice(_JOINERS))
        if chance.random() < 0.2:
            words[0] = words[0].capitalize()
        return " ".join(words)
    if draw < 0.75:
        return make_number(chance)
    if draw < 0.9:
        return make_name(chance)
    return f"{_one_word(chance).lower()} {chance.randint(2, 99)}"


def make_number(chance: random.Random) -> str:
    """A number as it is typed into a cell."""
    whole = str(chance.randint(1, chance.choice((9, 99, 999, 99999))))
    return whole + (f".{chance.randint(1, 99)}" if chance.random() < 0.15 else "")


def make_name(chance: random.Random) -> str:
    """A file's or folder's name."""
    stem = chance.choice(VALUES) if chance.random() < 0.5 else _one_word(chance).lower()
    stem += chance.choice(("", "", "s", str(chance.randint(1, 40)), "_" + chance.choice(VALUES)))
    return stem + chance.choice(("", "", "", ".dat", ".rst", ".log"))


def _one_word(chance: random.Random) -> str:
    if chance.random() < 0.5:
        return chance.choice(LABELS)
    syllables = chance.choice((1, 2, 2, 3))
    word = "".join(chance.choice(_ONSETS) + chance.choice(_VOWELS) for _ in range(syllables))
    return (word + chance.choice(_CODAS)).capitalize()
