"""Importable in a desktop because OSWorld's `execute_python_command` imports it every time.

Input reaches this desktop from outside, by XTEST; of this module only what needs no display is
here, and the rest says so.
"""

import subprocess

FAILSAFE = False
PAUSE = 0


def size() -> tuple[int, int]:
    """Width and height of the screen, in pixels."""
    answer = subprocess.run(["xdpyinfo"], capture_output=True, text=True, check=True)
    for line in answer.stdout.splitlines():
        if "dimensions:" in line:
            width, height = line.split()[1].split("x")
            return int(width), int(height)
    raise RuntimeError("xdpyinfo names no dimensions")


def __getattr__(name: str) -> None:
    raise AttributeError(f"pyautogui.{name} is not on this desktop: input comes from outside")
