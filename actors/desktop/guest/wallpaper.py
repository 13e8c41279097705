"""The picture behind the windows, as GNOME's settings name it."""

from __future__ import annotations

import os
import subprocess
from urllib.parse import unquote, urlsplit

from envs_node.actors.desktop.guest.answer import Download, Fields, RefusedError, failed, text_of
from envs_node.actors.desktop.guest.running import run

_KEYS = ("picture-uri", "picture-uri-dark")
_SCHEMA = "org.gnome.desktop.background"
_TIMEOUT_S = 10.0


def read(_request: Fields) -> Download:
    """The bytes of the picture."""
    uri = _settings("get", _SCHEMA, _KEYS[0]).strip().strip("'")
    path = unquote(urlsplit(uri).path)
    try:
        with open(path, "rb") as source:
            return Download(source.read(), "application/octet-stream", os.path.basename(path))
    except OSError as error:
        raise RefusedError(
            404, {"error": f"Wallpaper not found: {uri or 'none is set'}"}
        ) from error


def change(request: Fields) -> str:
    """Set the picture."""
    path = text_of(request, "path", "Path not supplied!")
    path = os.path.expandvars(os.path.expanduser(path))
    if not os.path.exists(path):
        raise RefusedError(404, {"error": f"File not found: {path}"})
    for key in _KEYS:
        _settings("set", _SCHEMA, key, f"file://{path}")
    return "Wallpaper changed successfully"


def _settings(*words: str) -> str:
    try:
        done = run(["gsettings", *words], timeout_s=_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise failed(error) from error
    if done.status:
        raise failed(done.error.strip())
    return done.output
