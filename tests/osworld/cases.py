"""All unmodified OSWorld tasks that are played here."""

from __future__ import annotations

from tests.osworld import (
    calc,
    chrome,
    gimp,
    impress,
    multi_apps,
    system,
    thunderbird,
    vlc,
    writer,
)
from tests.osworld.playing import Case

CASES: tuple[Case, ...] = (
    *chrome.CASES,
    *gimp.CASES,
    *calc.CASES,
    *impress.CASES,
    *writer.CASES,
    *multi_apps.CASES,
    *system.CASES,
    *thunderbird.CASES,
    *vlc.CASES,
)
"""By domain."""
