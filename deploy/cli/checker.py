"""`envs-node checker`: OSWorld's own checkers, each in an environment of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from envs_node.deploy.checker import (
    CheckerInstallError,
    checker_folder,
    install_checker,
    list_checkers,
)
from envs_node.deploy.checker_origin import find_origin
from envs_node.deploy.cli.console import show, tell
from envs_node.deploy.cli.verb import Verb


class Install(Verb, frozen=True, kw_only=True):
    """Install OSWorld's released checker, or another; quick when it is there already."""

    version: str = ""
    """A release of the package desktop-env; the one that ships with us unless given."""
    checkout: Path | None = None
    """An OSWorld tree, with its folder `desktop_env`; it is copied as it is now."""
    name: str = ""
    """What `--checker` calls it; made of the release or the commit unless given."""
    folder: Path | None = None
    """Where; beside this installation unless given."""
    json: bool = False

    def run(self) -> int:
        """Install."""
        origin = find_origin(self.version, self.checkout, self.name)
        folder = self.folder or checker_folder(origin.told.name)
        installed = install_checker(folder, tell, origin=origin)
        show(installed, f"{origin.told.label()} is in {installed.folder}", as_json=self.json)
        return 0


class Ls(Verb, frozen=True, kw_only=True):
    """List the checkers that are installed."""

    json: bool = False

    def run(self) -> int:
        """Print one line a checker."""
        rows = list_checkers()
        text = "\n".join(f"{row.name or '(unless told)':<28} {row.version}" for row in rows)
        show(rows, text or "none: `envs-node checker install` installs one", as_json=self.json)
        return 0


class Where(Verb, frozen=True, kw_only=True):
    """Print the folder of a checker's environment."""

    name: str = ""
    json: bool = False

    def run(self) -> int:
        """Print it."""
        folder = checker_folder(self.name)
        if self.name and not folder.is_dir():
            raise CheckerInstallError(
                f"no checker is called {self.name!r}: `envs-node checker ls` lists them"
            )
        show(folder, str(folder), as_json=self.json)
        return 0


CheckerVerbs = (
    Annotated[Install, tyro.conf.subcommand("install")]
    | Annotated[Ls, tyro.conf.subcommand("ls")]
    | Annotated[Where, tyro.conf.subcommand("where")]
)
