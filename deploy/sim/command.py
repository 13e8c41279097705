"""A simulation as one command that repeats it exactly."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from envs_node.deploy.config import Config, ConfigError, check_config
from envs_node.deploy.sim.simulation import SimSettings
from envs_node.messages.base import EnvsError

_DESKTOPS_MAX = 20_000
_TASKS_MAX = 100_000


class SimulateError(EnvsError):
    """Numbers that make no simulation."""


def command_of(settings: SimSettings) -> str:
    """What to type to have this simulation again, message for message."""
    told = _beyond(msgspec.to_builtins(settings), msgspec.to_builtins(SimSettings()))
    return f"envs-node simulate --settings {shlex.quote(msgspec.json.encode(told).decode())}"


def read_settings(text: str) -> SimSettings:
    """The settings in such a command.

    Raises:
        SimulateError: they are none, or make no simulation.
    """
    try:
        settings = msgspec.json.decode(text, type=SimSettings)
    except msgspec.DecodeError as error:
        raise SimulateError(
            f"--settings {text[:80]!r} cannot be read: {error}; give what a simulation that went "
            "wrong has printed"
        ) from error
    check_settings(settings)
    return settings


def check_settings(settings: SimSettings) -> None:
    """Refuse numbers with which a simulation would not begin, or never end.

    Raises:
        SimulateError: naming the number and what is allowed.
    """
    if not 1 <= settings.desktops <= _DESKTOPS_MAX:
        raise SimulateError(f"--desktops is {settings.desktops}; give 1 to {_DESKTOPS_MAX}")
    if not 1 <= settings.world.tasks <= _TASKS_MAX:
        raise SimulateError(f"--tasks is {settings.world.tasks}; give 1 to {_TASKS_MAX}")
    if not 1 <= settings.nodes <= settings.desktops:
        most = f"1 to {settings.desktops}, the desktops"
        raise SimulateError(f"--nodes is {settings.nodes}; give {most}")
    try:
        check_config(Config(search=settings.search))
    except ConfigError as error:
        raise SimulateError(str(error)) from error


def _beyond(given: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Of nested values, those that are not as they are by default."""
    found = {}
    for name, value in given.items():
        usual = defaults[name]
        if isinstance(value, dict) and isinstance(usual, dict):
            value, usual = _beyond(value, usual), {}
        if value != usual:
            found[name] = value
    return found
