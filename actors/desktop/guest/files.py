"""Files of the desktop: list, read, write, fetch, open."""

from __future__ import annotations

import os
import time

from envs_node.actors.desktop.guest import windows
from envs_node.actors.desktop.guest.answer import (
    Download,
    Fields,
    RefusedError,
    failed,
    text_of,
)
from envs_node.actors.desktop.guest.programs import Launches

_TRIES, _FETCH_TIMEOUT_S = 3, 300.0
_OPEN_TIMEOUT_S, _POLL_S = 60.0, 0.05
_DEPTH_MAX, _ENTRIES_MAX = 64, 100_000


def desktop_path(_request: Fields) -> Fields:
    """Where the user's desktop folder is."""
    path = os.path.expanduser("~/Desktop")
    if not os.path.isdir(path):
        raise RefusedError(404, {"error": "Desktop path not found"})
    return {"desktop_path": path}


def list_directory(request: Fields) -> Fields:
    """A folder and all below it."""
    path = request.get("path")
    if not isinstance(path, str) or not os.path.isdir(path):
        raise RefusedError(400, {"error": "The specified path is not a directory."})
    try:
        return {"directory_tree": _tree(path, _DEPTH_MAX, [_ENTRIES_MAX])}
    except OSError as error:
        raise failed(error) from error


def _tree(path: str, depth: int, left: list[int]) -> Fields:
    node: Fields = {"type": "directory", "name": os.path.basename(path), "children": []}
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            left[0] -= 1
            if left[0] < 0 or depth < 0:
                raise OSError(f"{path} holds more than this lists: {_ENTRIES_MAX} entries")
            if entry.is_dir(follow_symlinks=False):
                node["children"].append(_tree(entry.path, depth - 1, left))
            else:
                node["children"].append({"type": "file", "name": entry.name})
    return node


def read_file(form: Fields) -> Download:
    """The bytes of a file."""
    path = _expand(text_of(form, "file_path", "file_path is required"))
    try:
        with open(path, "rb") as source:
            return Download(source.read(), name=os.path.basename(path))
    except (OSError, ValueError) as error:
        raise RefusedError(404, {"error": f"File not found: {error}"}) from error


def upload(form: Fields) -> str:
    """Write a file; its folder is made. Whoever reads it meanwhile sees all of it or nothing."""
    data = form.get("file_data")
    if data is None:
        raise RefusedError(400, {"error": "file_path and file_data are required"})
    path = _expand(text_of(form, "file_path", "file_path and file_data are required"))
    data = data if isinstance(data, bytes) else str(data).encode()
    _write(path, data)
    return f"File Uploaded: {len(data)} bytes"


def download_file(request: Fields) -> str:
    """Fetch a file from an address, where the desktop has a network."""
    path = _expand(text_of(request, "path", "Path and URL not supplied!"))
    url = text_of(request, "url", "Path and URL not supplied!")
    if not url.startswith(("http://", "https://")):
        raise RefusedError(400, {"error": f"{url} is no http address"})
    import urllib.error
    import urllib.request

    problem: OSError | ValueError | None = None
    for _ in range(_TRIES):
        try:
            with urllib.request.urlopen(url, timeout=_FETCH_TIMEOUT_S) as source:
                data = source.read()
        except (OSError, ValueError) as error:
            problem = error
            if isinstance(error, urllib.error.HTTPError) and error.code < 500:
                break  # it was answered: asking again changes nothing
            continue
        _write(path, data)
        return "File downloaded successfully"
    raise RefusedError(500, {"error": f"Failed to download {url}: {problem}"})


def open_file(request: Fields, launches: Launches) -> str:
    """Open a file with the program it belongs to, and bring its window to the front.

    It is open once a window bears its name; a program that names it otherwise has opened it once
    a new window is up and no other came for a while.
    """
    path = _expand(text_of(request, "path", "Path not supplied!"))
    if not os.path.exists(path):
        raise RefusedError(404, {"error": f"File not found: {path}"})
    before = {window.id for window in windows.listed()}
    launches.launch({"command": ["xdg-open", path]})
    name = os.path.basename(path.rstrip("/"))
    stem = os.path.splitext(name)[0] or name
    deadline = time.monotonic() + _OPEN_TIMEOUT_S
    while time.monotonic() < deadline:
        new = [window for window in windows.listed() if window.id not in before]
        titled = [window for window in windows.listed() if stem in window.title]
        for window in titled or new[:1]:
            windows.activate(window.id)
            return "File opened successfully"
        time.sleep(_POLL_S)
    raise failed(f"no window for {path} within {_OPEN_TIMEOUT_S:g} s")


def _write(path: str, data: bytes) -> None:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "wb") as sink:
            sink.write(data)
    except (OSError, ValueError) as error:
        raise RefusedError(500, {"error": str(error)}) from error


def _expand(path: str) -> str:
    return os.path.expandvars(os.path.expanduser(path))
