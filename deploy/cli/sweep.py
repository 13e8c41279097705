"""`envs-node sweep`: remove what dead nodes left on this host."""

from __future__ import annotations

from envs_node.deploy.cli.console import show
from envs_node.deploy.cli.verb import Verb
from envs_node.deploy.logs import keep_logs
from envs_node.deploy.sweep import Swept, sweep


class Sweep(Verb, frozen=True, kw_only=True):
    """Remove the processes, mounts, sockets and files that dead nodes left, and only those."""

    dry_run: bool = False
    """Remove nothing; say what would be."""
    json: bool = False
    """Print what was found as JSON."""

    def run(self) -> int:
        """Sweep; 1 when something could not be removed."""
        with keep_logs(node="sweep", level="warning"):  # what it would tell is printed
            found = sweep(is_dry=self.dry_run)
        lines = [line for swept in found for line in _lines(swept)]
        show(found, "\n".join(lines) or "no dead node has left anything", as_json=self.json)
        return 1 if any(swept.left for swept in found) else 0


def _lines(swept: Swept) -> list[str]:
    things = {
        "process": swept.processes,
        "mount": swept.mounts,
        "cgroup": swept.cgroups,
        "socket": swept.sockets,
        "folder": swept.folders,
        "LEFT": swept.left,
    }
    return [
        f"{swept.node or 'a node'} ({swept.owner}, started {swept.since or 'at an unknown time'})",
        *(f"  {kind:<8} {thing}" for kind, found in things.items() for thing in found),
    ]
