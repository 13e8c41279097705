"""`envs-node checker install`: OSWorld's own checker, in an environment of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from envs_node.deploy.checker import checker_folder, install_checker
from envs_node.deploy.cli.console import show, tell
from envs_node.deploy.cli.verb import Verb


class Install(Verb, frozen=True, kw_only=True):
    """Install OSWorld's released checker; quick when it is there already."""

    folder: Path | None = None
    """Where; beside this installation unless given."""
    json: bool = False

    def run(self) -> int:
        """Install."""
        installed = install_checker(self.folder or checker_folder(), tell)
        show(installed, f"the checker is in {installed.folder}", as_json=self.json)
        return 0


class Where(Verb, frozen=True, kw_only=True):
    """Print the folder of the checker's environment."""

    json: bool = False

    def run(self) -> int:
        """Print it."""
        show(str(checker_folder()), str(checker_folder()), as_json=self.json)
        return 0


CheckerVerbs = (
    Annotated[Install, tyro.conf.subcommand("install")]
    | Annotated[Where, tyro.conf.subcommand("where")]
)
