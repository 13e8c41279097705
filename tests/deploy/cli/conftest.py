"""A run to look at."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.deploy.fake_node import FakeNode


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that came to its end."""

    async def whole_run() -> None:
        node = FakeNode(tmp_path, desktops=1)  # finds exactly as many as are asked for
        async with node.open():
            await node.start("r-1")
            await node.finish("r-1")

    trio.run(whole_run)
    return tmp_path / "r-1"
