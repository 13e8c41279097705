"""Gives the desktop's Chrome a past, with the standard library alone.

Run inside the desktop as a script, with the visits as JSON. The database is made by Chrome itself,
so that it is of the version that Chrome reads. What was in it before is gone, as in OSWorld, which
puts another file in its place.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from typing import Any

_PROFILE = "~/.config/google-chrome"
_MAKE_S = 60.0
_EPOCH_S = 11_644_473_600
"""From 1601, where Chrome counts from, to 1970."""
_TRANSITION = 0x30000000
"""A link that was followed, and led nowhere else."""


def write_history(visits: list[dict[str, Any]], profile: str, now_s: float) -> None:
    """Leave exactly these visits in a profile's history, which is made if there is none."""
    path = os.path.join(profile, "Default", "History")
    if not os.path.exists(path):
        subprocess.run(
            [
                "google-chrome",
                "--headless",
                f"--user-data-dir={profile}",
                "--dump-dom",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_MAKE_S,
            check=True,
        )
    with closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True)) as history, history:
        for table in ("visits", "urls", "keyword_search_terms", "segments", "segment_usage"):
            history.execute(f"DELETE FROM {table}")
        for visit in visits:
            ago_s = float(visit["visit_time_from_now_in_seconds"])
            at_us = int((now_s - ago_s + _EPOCH_S) * 1_000_000)
            row = history.execute(
                "INSERT INTO urls (url, title, visit_count, typed_count, last_visit_time, hidden)"
                " VALUES (?, ?, 1, 0, ?, 0)",
                (visit["url"], visit["title"], at_us),
            ).lastrowid
            history.execute(
                "INSERT INTO visits (url, visit_time, from_visit, transition, segment_id,"
                " visit_duration) VALUES (?, ?, 0, ?, 0, 0)",
                (row, at_us, _TRANSITION),
            )


def main() -> None:
    """Do what the command line says."""
    try:
        write_history(json.loads(sys.argv[1]), os.path.expanduser(_PROFILE), time.time())
    except (OSError, ValueError, KeyError, sqlite3.Error, subprocess.SubprocessError) as error:
        sys.exit(f"{error or type(error).__name__}")


if __name__ == "__main__":
    main()
