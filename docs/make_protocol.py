"""Writes `docs/protocol.md` from the messages: `python docs/make_protocol.py`."""

from __future__ import annotations

import inspect
import sys
import typing
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import msgspec

from envs_node.messages.base import Message
from envs_node.messages.codec import AnyMessage

_HEAD = """# Protocol

Every message that passes between actors, by conversation. Made from the code by
`python docs/make_protocol.py`; a test compares. Requests are imperatives, answers past participles,
refusals end in `Failed`, `Refused`, `Unknown` or `Lapsed` and carry a reason. Each travels in an
`Envelope` (`messages/base.py`) as MessagePack. Fields with a `?` may be left out.
"""


def protocol_text() -> str:
    """The page, as the code would have it."""
    conversations: dict[str, list[type[Message]]] = defaultdict(list)
    for message in typing.get_args(AnyMessage):
        conversations[message.__module__].append(message)
    return _HEAD + "".join(
        _section(sys.modules[name], conversations[name]) for name in conversations
    )


def _section(module: ModuleType, messages: list[type[Message]]) -> str:
    name = module.__name__.rpartition(".")[2]
    lines = [f"\n## {name}", "", _first_line(module), "", "| message | | fields |", "|---|---|---|"]
    for message in messages:
        fields = ", ".join(
            f"`{field.name}{'' if field.required else '?'}`"
            for field in msgspec.structs.fields(message)
        )
        lines.append(f"| `{message.__name__}` | {_first_line(message)} | {fields} |")
    return "\n".join(lines) + "\n"


def _first_line(thing: object) -> str:
    paragraph = (inspect.getdoc(thing) or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).replace("|", "\\|")


if __name__ == "__main__":
    target = Path(__file__).with_name("protocol.md")
    target.write_text(protocol_text(), encoding="utf-8")
    sys.stdout.write(f"wrote {target.name}\n")
