"""The documentation says what the code says, and its links lead somewhere."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import subprocess
import typing
from pathlib import Path

import pytest

from envs_node.messages import actions
from envs_node.messages.base import Message
from envs_node.messages.codec import AnyMessage

ROOT = Path(__file__).parents[1]
PAGES = subprocess.run(
    ["git", "ls-files", "-co", "--exclude-standard", "*.md"],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=True,
).stdout.split()


def test_the_protocol_page_is_that_of_the_messages():
    spec = importlib.util.spec_from_file_location("make_protocol", ROOT / "docs/make_protocol.py")
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)

    written = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    assert written == maker.protocol_text(), "run: python docs/make_protocol.py"


def test_every_message_can_be_sent():
    said = set(typing.get_args(AnyMessage)) | set(typing.get_args(actions.Action))
    for path in (ROOT / "messages").glob("*.py"):
        module = importlib.import_module(f"envs_node.messages.{path.stem}")
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if issubclass(kind, Message) and kind is not Message:
                assert kind in said, f"{path.name}: {name} is not in AnyMessage"


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_lead_somewhere(page: str):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    relative = [target for target in targets if not re.match(r"[a-z]+:", target)]

    broken = [target for target in relative if not ((ROOT / page).parent / target).exists()]
    assert not broken
