"""Files of the desktop: list, read, write, open."""

from __future__ import annotations

import os

from envs_node.actors.desktop.guest.answer import Fields, RefusedError
from envs_node.actors.desktop.guest.programs import launch


def desktop_path(_request: Fields) -> Fields:
    """Where the user's desktop folder is."""
    path = os.path.expanduser("~/Desktop")
    if not os.path.isdir(path):
        raise RefusedError(404, {"error": "Desktop path not found"})
    return {"desktop_path": path}


def list_directory(request: Fields) -> Fields:
    """A folder and all below it."""
    path = request.get("path")
    if path is None or not os.path.isdir(path):
        raise RefusedError(400, {"error": "The specified path is not a directory."})
    return {"directory_tree": _tree(path)}


def _tree(path: str) -> Fields:
    node: Fields = {"type": "directory", "name": os.path.basename(path), "children": []}
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.is_dir(follow_symlinks=False):
                node["children"].append(_tree(entry.path))
            else:
                node["children"].append({"type": "file", "name": entry.name})
    return node


def read_file(form: Fields) -> bytes:
    """The bytes of a file."""
    path = form.get("file_path")
    if not path:
        raise RefusedError(400, {"error": "file_path is required"})
    try:
        with open(os.path.expandvars(os.path.expanduser(path)), "rb") as source:
            return source.read()
    except OSError as error:
        raise RefusedError(404, {"error": f"File not found: {error}"}) from error


def upload(form: Fields) -> str:
    """Write a file; its folder is made."""
    path, data = form.get("file_path"), form.get("file_data")
    if not path or data is None:
        raise RefusedError(400, {"error": "file_path and file_data are required"})
    path = os.path.expandvars(os.path.expanduser(path))
    data = data if isinstance(data, bytes) else data.encode()
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as sink:
            sink.write(data)
    except OSError as error:
        raise RefusedError(500, {"error": str(error)}) from error
    return f"File Uploaded: {len(data)} bytes"


def open_file(request: Fields) -> str:
    """Open a file with the program it belongs to."""
    path = request.get("path")
    if not path:
        raise RefusedError(400, {"error": "Path not supplied!"})
    path = os.path.expandvars(os.path.expanduser(path))
    if not os.path.exists(path):
        raise RefusedError(404, {"error": f"File not found: {path}"})
    launch({"command": ["xdg-open", path]})
    return "File opened successfully"
