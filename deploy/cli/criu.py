"""`envs-node criu install`: what live desktops are forked with, beside this installation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from envs_node.deploy.cli.console import show, tell
from envs_node.deploy.cli.verb import Verb
from envs_node.deploy.criu import criu_folder, find_criu, install_criu
from envs_node.deploy.forks import try_criu


class Install(Verb, frozen=True, kw_only=True):
    """Fetch a CRIU that copies a desktop here, unless there is one; nothing on the host changes."""

    folder: Path | None = None
    """Where; beside this installation unless given."""
    json: bool = False

    def run(self) -> int:
        """Install."""
        found, _ = install_criu(self.folder or criu_folder(), tell, try_criu)
        show(found, f"CRIU {found.version} is in {found.where}", as_json=self.json)
        return 0


class Where(Verb, frozen=True, kw_only=True):
    """Print which CRIU is used; exit 1 if none can be."""

    json: bool = False

    def run(self) -> int:
        """Print it."""
        found, why = find_criu()
        line = f"CRIU {found.version} in {found.where}" if found else f"none: {why}"
        show({"criu": found, "why": why}, line, as_json=self.json)
        return 0 if found else 1


CriuVerbs = (
    Annotated[Install, tyro.conf.subcommand("install")]
    | Annotated[Where, tyro.conf.subcommand("where")]
)
