"""`envs-node doctor`: can this host do it, and how to mend what cannot?"""

from __future__ import annotations

from pathlib import Path

from envs_node.deploy.cli.console import show
from envs_node.deploy.cli.verb import Verb
from envs_node.deploy.doctor import as_data, as_text, check_host


class Doctor(Verb, frozen=True, kw_only=True):
    """Say what is missing on this host, and the command that mends it."""

    folder: Path = Path()
    """Where runs are to be kept."""
    json: bool = False
    """Print the checks as JSON."""

    def run(self) -> int:
        """Examine; 0 when everything is there that desktops need."""
        checks = check_host(self.folder)
        show(as_data(checks), as_text(checks), as_json=self.json)
        return 0 if all(check.ok or not check.is_needed for check in checks) else 1
