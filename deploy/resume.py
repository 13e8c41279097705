"""What a run that goes on may change of its settings, and what it may not."""

from __future__ import annotations

import msgspec

from envs_node.deploy.config import Config, ConfigError

_MAY_CHANGE = {"desktop.count", "policy.threads", "journal.free_bytes_min"}
"""Settings that decide nothing: how much is driven at once, and where."""
_MAY_CHANGE_ALL = {"link"}


def settings_to_go_on(
    began: Config, given: Config, defaults: Config, *, is_forced: bool = False
) -> Config:
    """The settings a run goes on with: those it began with, and of those given what may change.

    Args:
        given: as the command line has it; what equals `defaults` was not given.
        is_forced: everything may change.

    Raises:
        ConfigError: something was given that is not what the run began with; names the flag.
    """
    sections = {}
    for section in Config.__struct_fields__:
        old, new, default = (getattr(c, section) for c in (began, given, defaults))
        changes = {}
        for field in old.__struct_fields__:
            value, before = getattr(new, field), getattr(old, field)
            if value in (before, getattr(default, field)):
                continue
            name = f"{section}.{field}"
            if not (is_forced or name in _MAY_CHANGE or section in _MAY_CHANGE_ALL):
                flag = name.replace("_", "-")
                raise ConfigError(
                    f"--{flag} is {value!r}, and the run began with {before!r}: leave it out, "
                    "or add --force to go on otherwise"
                )
            changes[field] = value
        sections[section] = msgspec.structs.replace(old, **changes)
    return Config(**sections)
