"""`python -m tests.chaos --faults 200 --seed N`: a run of real processes in a storm, by command."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tests.chaos.experiment import Settings, experiment
from tests.chaos.stage import play_for


def main() -> int:
    """Do one experiment; 1 when something was lost, doubled, misjudged or left behind."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=200, help="in the search and the fit")
    parser.add_argument("--seed", type=int, default=0, help="draws the faults")
    parser.add_argument(
        "--tasks", type=int, default=0, help="as many as the faults need unless given"
    )
    parser.add_argument("--fit-share", type=float, default=0.5, help="0 does no fit")
    parser.add_argument("--spare", nargs="*", default=(), help="services to leave alone")
    parser.add_argument("--folder", type=Path, help="a new one; a temporary one unless given")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is stopped, then
    settings = Settings(
        seed=chosen.seed,
        faults=chosen.faults,
        fit_share=chosen.fit_share,
        spare=tuple(chosen.spare),
        play=play_for(chosen.faults, chosen.tasks),
    )
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="envs-node-chaos-"))
    outcome = experiment(settings, folder)
    told = (folder / "outcome.json").read_text() if chosen.json else outcome.text()
    sys.stdout.write(f"{told}\n")
    return 1 if outcome.findings else 0


if __name__ == "__main__":
    sys.exit(main())
