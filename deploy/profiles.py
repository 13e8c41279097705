"""Profiles: what a desktop with one application takes of its host, as measured."""

from __future__ import annotations

from pathlib import Path

import msgspec

from envs_node.messages.base import EnvsError

PROFILES = Path(__file__).parent / "profiles.json"


class PlanError(EnvsError):
    """What cannot be planned."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What a desktop with one application takes."""

    app: str
    private_bytes: int
    shared_bytes: int
    """Once a host."""
    step_s: float
    """Of one action until its screen is still, alone on the machine."""
    step_cpu_s: float
    reset_s: float
    """With the start of the application."""
    reset_cpu_s: float
    merged_bytes: int | None = None
    """Its own when equal pages are merged (forked desktops, KSM); none where not measured."""


class Profiles(msgspec.Struct, frozen=True, kw_only=True):
    """Measured on one machine by `envs-node plan --measure`."""

    machine: str
    date: str
    width: int
    height: int
    profiles: tuple[Profile, ...]


def read_profiles(path: Path = PROFILES) -> Profiles:
    """The profiles in a file.

    Raises:
        PlanError: there are none.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Profiles)
    except (OSError, msgspec.DecodeError) as error:
        raise PlanError(f"{path}: {error}; measure with `envs-node plan --measure`") from error


def keep_others(old: Profiles, new: Profiles) -> Profiles:
    """The new profiles, and the old ones of other applications if they are of the same machine."""
    is_same = (old.machine, old.width, old.height) == (new.machine, new.width, new.height)
    measured = {profile.app for profile in new.profiles}
    others = tuple(profile for profile in old.profiles if profile.app not in measured)
    return msgspec.structs.replace(new, profiles=new.profiles + others) if is_same else new
