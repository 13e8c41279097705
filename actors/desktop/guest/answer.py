"""What an endpoint takes and gives."""

from __future__ import annotations

from typing import Any, TypeAlias

Fields: TypeAlias = dict[str, Any]
Answer: TypeAlias = Fields | str | bytes


class RefusedError(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, body: Fields) -> None:
        super().__init__(body)
        self.status = status
        self.body = body
