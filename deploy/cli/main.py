"""Reads the command line and runs one verb. Results on stdout, the story on stderr."""

from __future__ import annotations

import functools
import operator
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from envs_node import __version__
from envs_node.deploy.cli import (
    checker,
    criu,
    doctor,
    evaluate,
    fit,
    image,
    ledger,
    plan,
    policy,
    replay,
    search,
    simulate,
    start,
    status,
    sweep,
    tasks,
    token,
    verdict,
)
from envs_node.deploy.cli.console import Interrupted, complain, ending_alike, show
from envs_node.deploy.cli.demo import Demo
from envs_node.deploy.conduct import RunLostError
from envs_node.deploy.config import Config, load_config
from envs_node.messages.base import EnvsError
from envs_node.messages.journal import JournalFullError
from envs_node.supervisor.tally import SupervisorError

_FAILURES = (SupervisorError, JournalFullError, RunLostError)
"""Errors of a run that was rightly asked for: exit 1. All others are misuse: exit 2."""
_DESCRIPTION = (
    "Finds and keeps verified, distinct successes of computer-use agents on real Linux desktops, "
    "and fits a policy on them. Exit status: 0 done, 1 failed, 2 misused."
)


def main(argv: Sequence[str] | None = None) -> None:
    """Run `envs-node`; exits with 0 when done, 1 when it failed, 2 when it was misused."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _fill_standard_streams()

    def run() -> int:
        if arguments == ["--version"]:
            show(__version__, f"envs-node {__version__}", as_json=False)
            return 0
        verbs = _verbs(load_config(_config_path(arguments)))
        return int(
            tyro.cli(verbs, prog="envs-node", description=_DESCRIPTION, args=arguments).run()
        )

    with ending_alike():
        code = status_of(run)
    sys.exit(code)


def status_of(run: Callable[[], int]) -> int:
    """Run, say in one line what went wrong, and give the exit status."""
    try:
        code = run()
        if sys.stdout is not None:  # closed by who started us
            sys.stdout.flush()
    except Interrupted as error:
        complain(str(error))
        code = 1
    except KeyboardInterrupt:
        complain("stopped by a signal")
        code = 1
    except EnvsError as error:
        complain(str(error))
        code = 1 if isinstance(error, _FAILURES) else 2
    except BrokenPipeError:
        code = _seen_enough()
    except OSError as error:  # of a file or folder that was named, else it is a bug
        if error.filename is None:
            raise
        complain(f"{error.filename}: {error.strerror}; name another, or mend this one")
        code = 2
    except BaseExceptionGroup as group:
        code = _complain_of_all(group)
    return code


def _seen_enough() -> int:
    """Whoever read our results has gone: what is left of them goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _fill_standard_streams() -> None:
    """Open /dev/null where they are closed: the next file opened would be written to by others."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _verbs(config: Config) -> Any:
    """The verbs, with what the configuration file says as their defaults."""
    plain = {"replay": replay.Replay, "doctor": doctor.Doctor, "sweep": sweep.Sweep}
    plain |= {"simulate": simulate.Simulate, "plan": plan.PlanVerb}
    configured = {
        "demo": Demo.configured(config),
        "search": search.Search.configured(config),
        "fit": fit.Fit.configured(config),
        "eval": evaluate.Eval.configured(config),
        "start": start.Start.configured(config),
        "status": status.StatusVerb.configured(config),
    }
    grouped = {
        "ledger": (ledger.LedgerVerbs, "What was found."),
        "verdict": (verdict.VerdictVerbs, "What was judged, and what that is worth."),
        "tasks": (tasks.TasksVerbs, "Look at tasks, or write the bundled ones."),
        "policy": (policy.PolicyVerbs, "Look at a policy, or make the built-in one."),
        "checker": (checker.CheckerVerbs, "Install OSWorld's checker."),
        "criu": (criu.CriuVerbs, "Install what live desktops are forked with."),
        "image": (image.ImageVerbs, "Build the file tree that desktops stand on."),
        "token": (token.TokenVerbs, "Let nodes of other machines in."),
    }
    choices: list[Any] = [
        *(
            Annotated[type(verb), tyro.conf.subcommand(name, default=verb)]
            for name, verb in configured.items()
        ),
        *(Annotated[verb, tyro.conf.subcommand(name)] for name, verb in plain.items()),
        *(
            Annotated[verbs, tyro.conf.subcommand(name, description=line)]
            for name, (verbs, line) in grouped.items()
        ),
    ]
    return functools.reduce(operator.or_, choices)


def _config_path(arguments: list[str]) -> Path | None:
    """`--config FILE` or `--config=FILE`: read before the rest, for it gives the defaults."""
    for position, argument in enumerate(arguments):
        if argument.startswith("--config="):
            return Path(argument.removeprefix("--config="))
        if argument == "--config" and position + 1 < len(arguments):
            return Path(arguments[position + 1])
    return None


def _complain_of_all(group: BaseExceptionGroup[BaseException]) -> int:
    """Say in one line each what came out of a nursery; what is no error of ours goes on up."""
    known, other = group.split((EnvsError, KeyboardInterrupt, BrokenPipeError))
    if other is not None:
        raise other
    assert known is not None, "a group is never empty"
    errors = list(_leaves(known))
    if any(isinstance(error, KeyboardInterrupt) for error in errors):
        complain("stopped by a signal")
        return 1
    if any(isinstance(error, BrokenPipeError) for error in errors):
        return _seen_enough()
    for line in dict.fromkeys(str(error) for error in errors):
        complain(line)
    return 1 if any(isinstance(error, _FAILURES) for error in errors) else 2


def _leaves(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
