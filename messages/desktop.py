"""The conversation with a desktop: reset it, act on it, look at it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from envs_node.messages.actions import Action
from envs_node.messages.base import DesktopId, Message
from envs_node.messages.tasks import Task


class Element(msgspec.Struct, frozen=True, array_like=True):
    """One thing on the screen that has a name or can be used, from the accessibility tree."""

    role: str
    """AT-SPI role name: `push button`, `menu item`, `text`, `table cell`, `frame` …"""
    name: str
    value: str
    """Text content, cut to 200 characters."""
    x: int
    y: int
    width: int
    height: int
    states: tuple[str, ...] = ()
    """The AT-SPI states that matter: `focused checked selected pressed editable expanded modal`."""


class SeenWindow(msgspec.Struct, frozen=True, array_like=True):
    """A top-level window as it was seen."""

    title: str
    """Cut to 200 characters."""
    app_class: str
    """Instance and class, as `WM_CLASS` words them."""
    x: int
    y: int
    width: int
    height: int
    is_focused: bool = False
    is_hidden: bool = False
    """True while it is minimised."""


Cut: TypeAlias = Literal["children", "depth", "nodes", "time", "size", "list"]
"""What kept things off the element list: a parent with too many children, too deep a tree, too
many things, too slow or too large an answer (one or all), more elements than are listed."""


class WindowBox(msgspec.Struct, frozen=True, array_like=True):
    """Where a top-level window is, and whose."""

    app_class: str
    """Instance and class, as `WM_CLASS` words them."""
    x: int
    y: int
    width: int
    height: int
    is_hidden: bool = False


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """What two desktops must share to stand in the same state."""

    frame: str
    """xxh3-128 of the frame's pixels, hex."""
    tiles: bytes
    """4 bytes a tile (xxh3, first 4 bytes), row by row; says how much of two frames differs."""
    columns: int
    windows: tuple[str, ...]
    """Titles of the top-level windows, bottom to top."""
    focus: str
    """Title of the window with the keyboard focus."""
    elements: str
    """Digest of the element list's roles, names, values and states, but for what is masked."""
    files: str
    """Digest of the working files: what lies in the user's home, hidden files left out."""
    boxes: tuple[WindowBox, ...] = ()
    """Of the windows, in their order; empty in old records, and then not compared."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The screen after input was delivered and the picture stood still."""

    width: int
    height: int
    elements: tuple[Element, ...]
    signature: Signature
    time_ns: int
    """When the frame was taken, after `input_ns`."""
    settled: bool = True
    """False when the picture was still changing at the cap."""
    settle_ms: int = 0
    """How long the wait for a still picture took."""
    frame_id: int = 0
    """Counts the observations since the reset, from 1; 0 in old records."""
    input_ns: int = 0
    """When the X server had taken in the last input; 0 when there was none since the reset."""
    quiet_ms: int = 0
    """How long the picture had to stand still."""
    quiet_class: str = ""
    """The window class that asked for so long."""
    windows: tuple[SeenWindow, ...] = ()
    """The top-level windows, bottom to top, at most 64."""
    cuts: tuple[Cut, ...] = ()
    """Why elements are missing; empty for a whole list."""
    silent: tuple[str, ...] = ()
    """Titles of visible windows of which the accessibility tree says nothing."""
    frame: bytes = b""
    """zstd of BGRX rows; filled in only for a proposer that looks at pixels."""


class Configure(Message, frozen=True, kw_only=True):
    """Take a task. Answered by `Configured` or `ConfigureFailed`; the desktop is not touched."""

    desktop_id: DesktopId
    task: Task
    branch: str = ""
    """The branch that it is taken for; its recording is named after that."""


class Configured(Message, frozen=True, kw_only=True):
    """Answers `Configure`."""

    desktop_id: DesktopId


class ConfigureFailed(Message, frozen=True, kw_only=True):
    """Refuses `Configure`: a set-up step is unknown or a file is missing."""

    desktop_id: DesktopId
    reason: str


class Reset(Message, frozen=True, kw_only=True):
    """Start over on a fresh desktop, set up to the task's start.

    Answered by `ResetDone` or `ResetFailed`.
    """

    desktop_id: DesktopId
    episode: int
    """Counts the resets of this desktop; a repeated number is answered, not done again."""
    prefix: tuple[Action, ...] | None = None
    """Actions that will come first: a clone that stands at the start, or behind some of them, is
    as good. None where it is not."""


class ResetDone(Message, frozen=True, kw_only=True):
    """Answers `Reset`."""

    desktop_id: DesktopId
    episode: int
    observation: Observation
    """After the `forked_steps` first actions of the prefix."""
    guest_pid: int
    """The desktop's first process, as this host numbers it: the way into its namespaces."""
    reset_ms: int
    can_fork: bool = False
    """Whether `KeepFork` may be asked of this desktop."""
    forked_steps: int = 0
    """Actions of the prefix that need no more to be performed: this is a clone behind them."""
    seen: tuple[Observation, ...] = ()
    """What the clone's origin saw before each of these."""
    fork_ms: int = 0
    """Of `reset_ms`: bringing the clone up, and comparing it with what its origin saw."""


class ResetFailed(Message, frozen=True, kw_only=True):
    """Refuses `Reset`: the desktop did not start or a set-up step failed."""

    desktop_id: DesktopId
    episode: int
    reason: str
    is_setup: bool = False
    """True when a set-up step failed: the task's fault, not the desktop's."""


class KeepFork(Message, frozen=True, kw_only=True):
    """Keep the desktop as it is, to make clones of. Answered by `ForkKept` or `ForkRefused`.

    It goes on as if nothing had been. Whoever resets to a prefix that leads there gets a clone.
    """

    desktop_id: DesktopId
    episode: int
    step: int
    """How many actions it is behind; a repeated step is answered, not kept again."""


class ForkKept(Message, frozen=True, kw_only=True):
    """Answers `KeepFork`."""

    desktop_id: DesktopId
    episode: int
    step: int
    size_bytes: int
    """Of memory that the fork point takes."""
    fork_ms: int


class ForkRefused(Message, frozen=True, kw_only=True):
    """Refuses `KeepFork`: this desktop cannot be kept, or there is no room. It goes on."""

    desktop_id: DesktopId
    episode: int
    step: int
    reason: str


class Act(Message, frozen=True, kw_only=True):
    """Perform one action. Answered by `Acted` once the screen is still, or by `ActFailed`."""

    desktop_id: DesktopId
    episode: int
    step: int
    """Position in the episode, from 0. A repeated step is answered, not performed again."""
    action: Action
    frame: str = ""
    """`Signature.frame` that it was decided on. One of another episode is refused."""


class Acted(Message, frozen=True, kw_only=True):
    """Answers `Act`."""

    desktop_id: DesktopId
    episode: int
    step: int
    observation: Observation
    act_ms: int


class ActFailed(Message, frozen=True, kw_only=True):
    """Refuses `Act`."""

    desktop_id: DesktopId
    episode: int
    step: int
    reason: str
    is_refused: bool = False
    """True when the action makes no sense on this screen: the policy's fault, not the desktop's."""


class Observe(Message, frozen=True, kw_only=True):
    """Look without acting. Answered by `Observed`."""

    desktop_id: DesktopId


class Observed(Message, frozen=True, kw_only=True):
    """Answers `Observe`."""

    desktop_id: DesktopId
    observation: Observation


class FetchFrame(Message, frozen=True, kw_only=True):
    """Send the PNG of a frame seen in this episode. Answered by `FrameFetched`/`FrameUnknown`."""

    desktop_id: DesktopId
    frame: str
    """`Signature.frame`."""


class FrameFetched(Message, frozen=True, kw_only=True):
    """Answers `FetchFrame`."""

    frame: str
    png: bytes


class FrameUnknown(Message, frozen=True, kw_only=True):
    """Refuses `FetchFrame`: the frame is not of this episode, or was dropped for space."""

    frame: str
    reason: str


class Close(Message, frozen=True, kw_only=True):
    """Destroy the desktop. Answered by `Closed`."""

    desktop_id: DesktopId


class Closed(Message, frozen=True, kw_only=True):
    """Answers `Close`."""

    desktop_id: DesktopId
