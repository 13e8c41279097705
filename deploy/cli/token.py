"""`envs-node token`: let nodes of other machines in."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import msgspec
import tyro

from envs_node.deploy.authority import Authority
from envs_node.deploy.cli.console import show, tell
from envs_node.deploy.cli.verb import Verb
from envs_node.deploy.config import ConfigError
from envs_node.deploy.tokens import ENVIRONMENT


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """A token in one line; its secret is not known any more."""

    id: str
    uses: int
    uses_max: int
    hours_left: float
    nodes: tuple[str, ...]
    """Those it let in."""


class _Made(msgspec.Struct, frozen=True, kw_only=True):
    """A token that was made."""

    token: str
    id: str
    uses_max: int
    hours: float


class Create(Verb, frozen=True, kw_only=True):
    """Make a join token and print it, this once."""

    folder: Path = Path("runs")
    """The head's folder; its authority is made if there is none yet."""
    uses: int = 1
    """Nodes it lets in: 200 for a job of 200."""
    hours: float = 24.0
    """Until it lapses."""
    json: bool = False

    def run(self) -> int:
        """Print the token."""
        if not 1 <= self.uses <= 10_000:
            raise ConfigError(f"--uses is {self.uses}; it must be between 1 and 10000")
        if not 0.01 <= self.hours <= 8760:
            raise ConfigError(f"--hours is {self.hours:g}; it must be between 0.01 and 8760")
        now_s = time.time()
        authority = Authority.open(self.folder, now_s)
        token = authority.create_token(uses=self.uses, hours=self.hours, now_s=now_s)
        made = _Made(token=token.text, id=token.id, uses_max=self.uses, hours=self.hours)
        show(made, token.text, as_json=self.json)
        tell(
            f"lets {self.uses} node(s) in for {self.hours:g} h: give it to them in {ENVIRONMENT} "
            "or in a file named by --link.token-file, never as an argument"
        )
        return 0


class Ls(Verb, frozen=True, kw_only=True):
    """List the join tokens of a head."""

    folder: Path = Path("runs")
    """The head's folder."""
    json: bool = False

    def run(self) -> int:
        """Print one line a token."""
        now_s = time.time()
        rows = [
            _Row(
                id=record.id,
                uses=len(record.used),
                uses_max=record.uses_max,
                hours_left=max(0.0, round((record.expires_s - now_s) / 3600, 2)),
                nodes=tuple(use.node for use in record.used),
            )
            for record in Authority(self.folder / "authority").tokens.records()
        ]
        lines = [
            f"{row.id}  {row.uses}/{row.uses_max} used  {row.hours_left:.2f} h left  "
            f"{' '.join(row.nodes)}".rstrip()
            for row in rows
        ]
        show(rows, "\n".join(lines) or "there are no join tokens", as_json=self.json)
        return 0


class Revoke(Verb, frozen=True, kw_only=True):
    """Let nobody else in by a join token. Nodes that it let in stay in."""

    id: tyro.conf.Positional[str]
    """As `envs-node token ls` shows it."""
    folder: Path = Path("runs")
    """The head's folder."""

    def run(self) -> int:
        """Forget the token."""
        Authority(self.folder / "authority").revoke_token(self.id)
        tell(f"the join token {self.id} lets nobody else in")
        return 0


TokenVerbs = (
    Annotated[Create, tyro.conf.subcommand("create")]
    | Annotated[Ls, tyro.conf.subcommand("ls")]
    | Annotated[Revoke, tyro.conf.subcommand("revoke")]
)
