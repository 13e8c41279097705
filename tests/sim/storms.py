"""Simulates some seeds, and says what is wrong: `python -m tests.sim.storms FIRST LAST`."""

from __future__ import annotations

import sys

from envs_node.deploy.sim.command import command_of
from envs_node.deploy.sim.trial import Laboratory
from tests.sim.seeds import settings_of


def wrong_in(laboratory: Laboratory, seeds: range) -> list[str]:
    """What is wrong in some seeds; each line says how to repeat it."""
    wrong = []
    for seed in seeds:
        trial = laboratory.attempt(settings_of(seed))
        if trial.wrong:
            wrong += [f"seed {seed}: {words}" for words in trial.wrong]
            wrong.append(f"repeat seed {seed} with {command_of(settings_of(seed))}")
    return wrong


if __name__ == "__main__":
    found = wrong_in(Laboratory(), range(int(sys.argv[1]), int(sys.argv[2]) + 1))
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.exit(bool(found))
