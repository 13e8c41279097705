"""What the tests of forking share: a store that keeps real desktops, and editors to be forked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from envs_node.actors.desktop.fork.forker import Forker
from envs_node.actors.desktop.fork.sandbox import ForkableSandbox
from envs_node.actors.desktop.fork.store import ForkStore
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.deploy.criu import find_criu

KIND = DesktopKind()


@contextmanager
def open_store(launcher: Launcher, *, bytes_max: int = 4 << 30) -> Iterator[ForkStore]:
    """A store of fork points, empty at first."""
    criu, why = find_criu()
    assert criu is not None, f"{why}: run `make setup`, or `envs-node criu install`"
    store = ForkStore(Forker(launcher, criu.command), bytes_max=bytes_max)
    store.is_offered = True
    try:
        yield store
    finally:
        store.close()


@contextmanager
def desktops(launcher: Launcher, store: ForkStore, count: int) -> Iterator[list[ForkableSandbox]]:
    """So many desktops of one store."""
    made = [ForkableSandbox(launcher, KIND, store) for _ in range(count)]
    try:
        yield made
    finally:
        for desktop in made:
            desktop.close()
