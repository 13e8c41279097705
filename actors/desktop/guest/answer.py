"""What an endpoint takes and gives."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

Fields: TypeAlias = dict[str, Any]


class Download(NamedTuple):
    """Bytes of a file, with the type and the name they are sent under."""

    data: bytes
    kind: str = "application/octet-stream"
    name: str = ""


Answer: TypeAlias = Fields | list[Any] | str | Download


class RefusedError(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, body: Fields) -> None:
        super().__init__(body)
        self.status = status
        self.body = body


def failed(error: object) -> RefusedError:
    """The answer of status 500 that OSWorld's server gives for what went wrong inside."""
    return RefusedError(500, {"status": "error", "message": str(error)})


def text_of(request: Fields, name: str, message: str) -> str:
    """A field that must be a text and not empty.

    Raises:
        RefusedError: it is none: status 400, with this message.
    """
    value = request.get(name)
    if not isinstance(value, str) or not value:
        raise RefusedError(400, {"error": message})
    return value
