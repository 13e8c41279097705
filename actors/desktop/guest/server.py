"""OSWorld's in-guest HTTP interface, with the standard library alone.

It answers on the desktop's own loopback, port 5000, for OSWorld's getters and agents, and on a
unix socket, through which the host reaches it. It runs as the desktop's user, who may do all this
anyway. Paths, status codes and answers are those of OSWorld's server.
"""

from __future__ import annotations

import email.parser
import email.policy
import json
import os
import shlex
import socket
import socketserver
import subprocess
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

SOCKET_PATH = "/run/share/guest.sock"
PORT = 5000
EXECUTE_TIMEOUT_S = 120
PYTHON_TIMEOUT_S = 30
BODY_BYTES_MAX = 256 << 20

Fields: TypeAlias = dict[str, Any]
Answer: TypeAlias = "Fields | str | bytes"
Route: TypeAlias = Callable[[Fields], Answer]


class Refusal(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, body: Fields) -> None:
        super().__init__(body)
        self.status = status
        self.body = body


def command_of(request: Fields) -> tuple[Any, bool]:
    """The command of a request as subprocess takes it, and whether a shell reads it."""
    is_shell = bool(request.get("shell", False))
    command = request.get("command", "" if is_shell else [])
    if isinstance(command, str) and not is_shell:
        command = shlex.split(command)
    if isinstance(command, list):
        command = [os.path.expanduser(p) if p.startswith("~/") else p for p in command]
        if is_shell:
            command = " ".join(command)
    return command, is_shell


def execute(request: Fields) -> Fields:
    """Run a command and wait for it."""
    try:
        command, is_shell = command_of(request)
        result = subprocess.run(
            command,
            shell=is_shell,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=EXECUTE_TIMEOUT_S,
            cwd=os.path.expanduser("~"),
        )
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        raise Refusal(500, {"status": "error", "message": str(error)}) from error
    return {
        "status": "success",
        "output": result.stdout,
        "error": result.stderr,
        "returncode": result.returncode,
    }


def launch(request: Fields) -> str:
    """Start a command and leave it running."""
    try:
        command, is_shell = command_of(request)
        subprocess.Popen(
            command,
            shell=is_shell,
            start_new_session=True,
            cwd=os.path.expanduser("~"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, ValueError, IndexError) as error:
        raise Refusal(500, {"status": "error", "message": str(error)}) from error
    text = command if isinstance(command, str) else " ".join(command)
    return f"{text} launched successfully"


def run_python(request: Fields) -> Fields:
    """Run Python source in a fresh interpreter."""
    code = request.get("code")
    if not code:
        raise Refusal(400, {"status": "error", "message": "Code not supplied!"})
    return _run_script(["/usr/bin/python3", "-"], code, PYTHON_TIMEOUT_S, None, merge=False)


def run_bash_script(request: Fields) -> Fields:
    """Run a bash script; its two outputs come as one."""
    script = request.get("script")
    if not script:
        message = "Script not supplied!"
        raise Refusal(400, {"status": "error", "output": message, "error": "", "returncode": -1})
    timeout_s = float(request.get("timeout", 100))
    folder = request.get("working_dir")
    answer = _run_script(["/bin/bash", "-s"], script, timeout_s, folder, merge=True)
    return {
        "status": answer["status"],
        "output": answer["output"],
        "error": "",
        "returncode": answer["return_code"],
    }


def _run_script(
    argv: list[str], source: str, timeout_s: float, folder: str | None, *, merge: bool
) -> Fields:
    answer: Fields = {
        "status": "success",
        "message": "",
        "need_more": False,
        "output": "",
        "error": "",
        "return_code": 0,
    }
    try:
        result = subprocess.run(
            argv,
            input=source,
            text=True,
            errors="replace",
            timeout=timeout_s,
            cwd=folder or os.path.expanduser("~"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge else subprocess.PIPE,
        )
    except subprocess.TimeoutExpired:
        answer.update(
            status="error",
            message=f"Execution timeout: {timeout_s:g} s",
            error="TimeoutExpired",
            return_code=-1,
        )
        return answer
    except OSError as error:
        raise Refusal(500, {"status": "error", "message": str(error)}) from error
    output, errors = result.stdout, result.stderr or ""
    answer.update(
        output=output, error=errors, message=output + errors, return_code=result.returncode
    )
    if result.returncode:
        answer["status"] = "error"
    return answer


def screen_size(_request: Fields) -> Fields:
    """Size of the screen, in px."""
    for line in _output(["xdpyinfo"]).splitlines():
        if "dimensions:" in line:
            width, height = line.split()[1].split("x")
            return {"width": int(width), "height": int(height)}
    raise Refusal(500, {"status": "error", "message": "xdpyinfo names no dimensions"})


def window_size(form: Fields) -> Fields:
    """Size of the first window of a class, in px."""
    wanted = form.get("app_class_name")
    if not wanted:
        raise Refusal(400, {"error": "app_class_name is required"})
    for line in _output(["wmctrl", "-lxG"]).splitlines():
        parts = line.split(None, 8)
        if len(parts) > 6 and wanted.lower() in parts[6].lower().split("."):
            return {"width": int(parts[4]), "height": int(parts[5])}
    raise Refusal(500, {"error": f"no window of class {wanted}"})


def desktop_path(_request: Fields) -> Fields:
    """Where the user's desktop folder is."""
    path = os.path.expanduser("~/Desktop")
    if not os.path.isdir(path):
        raise Refusal(404, {"error": "Desktop path not found"})
    return {"desktop_path": path}


def list_directory(request: Fields) -> Fields:
    """A folder and all below it."""
    path = request.get("path")
    if path is None or not os.path.isdir(path):
        raise Refusal(400, {"error": "The specified path is not a directory."})
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
        raise Refusal(400, {"error": "file_path is required"})
    try:
        with open(os.path.expandvars(os.path.expanduser(path)), "rb") as source:
            return source.read()
    except OSError as error:
        raise Refusal(404, {"error": f"File not found: {error}"}) from error


def upload(form: Fields) -> str:
    """Write a file; its folder is made."""
    path, data = form.get("file_path"), form.get("file_data")
    if not path or data is None:
        raise Refusal(400, {"error": "file_path and file_data are required"})
    path = os.path.expandvars(os.path.expanduser(path))
    data = data if isinstance(data, bytes) else data.encode()
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as sink:
            sink.write(data)
    except OSError as error:
        raise Refusal(500, {"error": str(error)}) from error
    return f"File Uploaded: {len(data)} bytes"


def open_file(request: Fields) -> str:
    """Open a file with the program it belongs to."""
    path = request.get("path")
    if not path:
        raise Refusal(400, {"error": "Path not supplied!"})
    path = os.path.expandvars(os.path.expanduser(path))
    if not os.path.exists(path):
        raise Refusal(404, {"error": f"File not found: {path}"})
    launch({"command": ["xdg-open", path]})
    return "File opened successfully"


def activate_window(request: Fields) -> str:
    """Bring a window to the front."""
    return _wmctrl("-a", request, "activated")


def close_window(request: Fields) -> str:
    """Ask a window to close."""
    return _wmctrl("-c", request, "closed")


def _wmctrl(verb: str, request: Fields, done: str) -> str:
    name = request.get("window_name")
    if not name:
        raise Refusal(400, {"error": "window_name required"})
    flags = ("x" if request.get("by_class") else "") + ("F" if request.get("strict") else "")
    result = subprocess.run(
        ["wmctrl", *(["-" + flags] if flags else []), verb, name], capture_output=True
    )
    if result.returncode:
        raise Refusal(404, {"error": f"window {name} is not found"})
    return f"Window {name} {done} successfully"


def screenshot(_request: Fields) -> bytes:
    """The screen as PNG. The pointer is not drawn on this desktop."""
    return _run(["import", "-window", "root", "png:-"])


def accessibility(_request: Fields) -> Fields:
    """The windows as a flat tree; elements are read from outside this desktop."""
    from xml.sax.saxutils import quoteattr

    titles = [line.split(None, 3)[-1] for line in _output(["wmctrl", "-l"]).splitlines()]
    windows = "".join(f"<frame name={quoteattr(title)}/>" for title in titles)
    return {"AT": f'<desktop-frame name="main">{windows}</desktop-frame>'}


def _output(argv: list[str]) -> str:
    return _run(argv).decode(errors="replace")


def _run(argv: list[str]) -> bytes:
    try:
        return subprocess.run(argv, capture_output=True, check=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise Refusal(500, {"status": "error", "message": str(error)}) from error


GET: Mapping[str, Route] = {
    "/screenshot": screenshot,
    "/terminal": lambda _: {"output": None, "status": "success"},
    "/accessibility": accessibility,
    "/platform": lambda _: "Linux",
    "/health": lambda _: {"status": "ok"},
}
POST: Mapping[str, Route] = {
    "/execute": execute,
    "/setup/execute": execute,
    "/setup/launch": launch,
    "/setup/upload": upload,
    "/setup/open_file": open_file,
    "/setup/activate_window": activate_window,
    "/setup/close_window": close_window,
    "/file": read_file,
    "/list_directory": list_directory,
    "/screen_size": screen_size,
    "/window_size": window_size,
    "/desktop_path": desktop_path,
    "/run_python": run_python,
    "/run_bash_script": run_bash_script,
}


def parse_body(content_type: str, body: bytes) -> Fields:
    """The fields of a request: JSON, a form, or a form with files."""
    if content_type.startswith("multipart/form-data"):
        head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1")
        message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
        fields: Fields = {}
        for part in message.iter_parts():
            data = part.get_payload(decode=True)
            if not isinstance(data, bytes):
                raise ValueError("a part of the form has parts of its own")
            name = str(part.get_param("name", header="content-disposition"))
            fields[name] = data if part.get_filename() else data.decode()
        return fields
    if content_type.startswith("application/x-www-form-urlencoded"):
        return {name: values[0] for name, values in parse_qs(body.decode()).items()}
    fields = json.loads(body) if body.strip() else {}
    if not isinstance(fields, dict):
        raise ValueError("the body is no JSON object")
    return fields


class Handler(BaseHTTPRequestHandler):
    """Routes a request, and writes its answer."""

    protocol_version = "HTTP/1.1"
    timeout = 300

    def do_GET(self) -> None:
        self._answer(GET)

    def do_POST(self) -> None:
        self._answer(POST)

    def _answer(self, routes: Mapping[str, Route]) -> None:
        answer: Answer
        try:
            size = int(self.headers.get("Content-Length") or 0)
            if size > BODY_BYTES_MAX:
                self.close_connection = True
                raise Refusal(413, {"error": f"{size} bytes; at most {BODY_BYTES_MAX}"})
            body = self.rfile.read(size)
            route = routes.get(urlsplit(self.path).path)
            if route is None:
                raise Refusal(404, {"error": f"no such endpoint: {self.path}"})
            try:
                request = parse_body(self.headers.get("Content-Type", ""), body)
            except (ValueError, AttributeError) as error:
                raise Refusal(400, {"error": f"bad request: {error}"}) from error
            status, answer = 200, route(request)
        except Refusal as refusal:
            status, answer = refusal.status, refusal.body
        if isinstance(answer, bytes):
            kind, data = "application/octet-stream", answer
        elif isinstance(answer, str):
            kind, data = "text/html; charset=utf-8", answer.encode()
        else:
            kind, data = "application/json", json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def address_string(self) -> str:
        """A unix peer has no address."""
        return "local"

    def log_message(self, *_arguments: object) -> None:
        """Say nothing: the host records what it asks."""


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """The same server on a unix socket."""

    daemon_threads = True
    request_queue_size = 16


def main() -> None:
    """Serve on both sockets."""
    ThreadingHTTPServer.address_family = socket.AF_INET
    port = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    threading.Thread(target=port.serve_forever, daemon=True).start()
    UnixServer(SOCKET_PATH, Handler).serve_forever()


if __name__ == "__main__":
    main()
