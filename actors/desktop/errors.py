"""What can go wrong with a desktop, one class for each thing a caller could do differently."""

from __future__ import annotations

from envs_node.messages.base import EnvsError


class DesktopLostError(EnvsError):
    """The desktop broke or is gone. Start over on a fresh one."""


class LauncherError(EnvsError):
    """The launcher could not start a desktop or a program in one."""


class SetupFailedError(EnvsError):
    """A set-up step is unknown, lacks something, or failed: the task's start was not reached."""

    def __init__(self, step: int, kind: str, reason: str) -> None:
        super().__init__(f"set-up step {step} ({kind}): {reason}")
        self.step = step
        self.kind = kind
        self.reason = reason


class ActionRefusedError(EnvsError):
    """The action makes no sense on this screen; nothing was done."""


class ForkRefusedError(EnvsError):
    """The desktop is not kept as a fork point; it goes on as it was."""
