"""`envs-node policy make-base`: make the built-in policy's starting weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import tyro

from envs_node.deploy.cli.console import show, tell
from envs_node.deploy.cli.verb import Verb
from envs_node.deploy.config import BASE_POLICY
from envs_node.deploy.run_folder import require_writable
from envs_node.policy.models.load import load_policy, read_card
from envs_node.policy.models.pointer.base_settings import BaseSettings


class MakeBase(Verb, frozen=True, kw_only=True):
    """Train the built-in policy from nothing, on generated screens; about three minutes."""

    out: tyro.conf.Positional[Path]
    """Folder of the policy."""
    json: bool = False
    """Print the report as JSON."""
    base: BaseSettings = BaseSettings()

    def run(self) -> int:
        """Train, save, and print how well it does on screens it has not seen."""
        from envs_node.policy.models.pointer.make_base import make_base  # loads torch: seconds

        require_writable(self.out, "no policy can be kept")
        report = make_base(self.out, self.base, _tell)
        fields = msgspec.structs.asdict(report)
        text = "\n".join(f"{name.replace('_', ' '):<20} {value}" for name, value in fields.items())
        show(fields, text, as_json=self.json)
        return 0


def _tell(epoch: int, epochs: int, loss: float) -> None:
    tell(f"epoch {epoch} of {epochs}, mean loss {loss:.3f}")


class Show(Verb, frozen=True, kw_only=True):
    """Say what a policy folder holds."""

    folder: tyro.conf.Positional[Path] = BASE_POLICY
    """Folder of the policy; the built-in one unless given."""
    json: bool = False

    def run(self) -> int:
        """Load it, and print its name and kind."""
        card = msgspec.structs.asdict(read_card(self.folder))
        policy = load_policy(self.folder)
        fields = {"name": policy.name, "needs_pixels": policy.needs_pixels, **card}
        text = "\n".join(f"{name.replace('_', ' '):<20} {value}" for name, value in fields.items())
        show(fields, text, as_json=self.json)
        return 0


PolicyVerbs = (
    Annotated[MakeBase, tyro.conf.subcommand("make-base")]
    | Annotated[Show, tyro.conf.subcommand("show")]
)
