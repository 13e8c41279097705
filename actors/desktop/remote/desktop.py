"""A desktop on a machine that runs OSWorld's server: the same face as a sandbox, over HTTP.

machine = Machine(parse_address("http://10.0.0.7:5000"), renews=RevertCommand(["revert", "{host}"]))
desktop = RemoteDesktop(machine, width=1920, height=1080)
seen = desktop.reset(task)                         # messages.desktop.Observation
seen = desktop.act(Key(keys=("ctrl", "s")))
"""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict
from collections.abc import Sequence

from envs_node.actors.desktop.accessibility import Reading
from envs_node.actors.desktop.elements import list_elements
from envs_node.actors.desktop.errors import DesktopLostError, ForkRefusedError, LauncherError
from envs_node.actors.desktop.interface import Forked
from envs_node.actors.desktop.quiet import Quiet
from envs_node.actors.desktop.remote.gestures import Gestures
from envs_node.actors.desktop.remote.look import look_around
from envs_node.actors.desktop.remote.machine import Machine
from envs_node.actors.desktop.remote.picture import read_picture
from envs_node.actors.desktop.remote.tree import read_tree
from envs_node.actors.desktop.screen import (
    Pixels,
    frame_digest,
    pack_frame,
    png_of_frame,
)
from envs_node.actors.desktop.settle import Stillness, Work, wait_still
from envs_node.actors.desktop.setup import Setup, check_setup
from envs_node.actors.desktop.signature import sign
from envs_node.actors.desktop.windows import bare_elements, require_drawn, silent_windows, tell
from envs_node.actors.desktop.xserver import Window
from envs_node.messages.actions import Action
from envs_node.messages.desktop import Observation
from envs_node.messages.tasks import Task

QUIET = Quiet(app_class="machine", quiet_ms=1000, cap_ms=10_000)
"""Longer than the slowest toolkit needs here (650 ms): how busy another machine is nobody tells,
and what its programs do is not seen."""
FRAMES_MAX = 64
_TREE_S = 15.0
"""For what all applications say. Some take for ever."""


class RemoteDesktop:
    """Drives one machine. Every method blocks; call from one thread at a time.

    `close` and `kill` alone may come from another thread, while a call is under way, which fails.

    Args:
        width: of its screen, in px; a machine with another one is refused.
    """

    guest_pid = 0
    """It has no process on this host."""
    can_fork = False

    def __init__(self, machine: Machine, *, width: int, height: int) -> None:
        self._machine = machine
        self._size = (width, height)
        self._guest = machine.guest()
        self._gestures: Gestures | None = None
        self._frames: OrderedDict[str, bytes] = OrderedDict()
        self._observed = self._input_ns = 0
        self._connections = itertools.count()

    @property
    def can_reset(self) -> bool:
        """Whether it serves more than one episode."""
        return self._machine.can_reset

    def check(self, task: Task, branch: str = "") -> None:
        """Refuse a task that could not be set up. Nothing is filmed, so no branch gives a name."""
        check_setup(task)

    def reset(self, task: Task) -> Observation:
        """Have the machine reverted, and bring it to the task's start.

        Raises:
            SetupFailedError: a set-up step failed.
            LauncherError: the machine cannot be reverted, or is not ready in time.
            DesktopLostError: it broke or was closed meanwhile.
        """
        check_setup(task)
        self._gestures = None
        self._frames.clear()
        self._observed = self._input_ns = 0
        real = self._machine.begin(self._guest)
        if real != self._size:
            said = (
                "the screen of {} is {}x{}, and {}x{} was asked for: set desktop.width and height"
            )
            raise LauncherError(said.format(self._machine.address, *real, *self._size))
        self._gestures = Gestures(*self._size)
        Setup(task, self._guest, self, self._size).run()
        self._run(self._gestures.park())
        return self.observe()

    def reset_forked(self, _task: Task, _prefix: Sequence[Action]) -> Forked | None:
        """Become a clone behind some of these actions: there is none."""
        return None

    def keep_fork(self, key: str, seen: tuple[Observation, ...]) -> int:
        """Refuse: another machine's desktop is not kept as it is."""
        raise ForkRefusedError(f"no machine is forked: {key} of {len(seen)} states")

    def act(self, action: Action) -> Observation:
        """Perform an action, wait until the picture is still, and look.

        Raises:
            ActionRefusedError: it makes no sense here, or PyAutoGUI cannot do it; nothing was done.
            DesktopLostError: the machine broke, or does not answer. Whether it has performed the
                action is then unknown, so that it is never sent twice.
        """
        if self._gestures is None:
            raise DesktopLostError("there is no desktop: reset it first")
        code = self._gestures.code(action)
        if code:
            self._run(code)
        self._input_ns = time.time_ns()
        return self.observe()

    def observe(self) -> Observation:
        """Wait until the picture is still, and look.

        Raises:
            DesktopLostError: the machine broke, or its picture is none.
        """
        if self._gestures is None:
            raise DesktopLostError("there is no desktop: reset it first")
        stillness = self.wait_still()
        around, reading = look_around(self._guest), self._read()
        pixels = self._grab()
        require_drawn(pixels, around.windows)
        time_ns = time.time_ns()
        width, height = self._size
        listing = list_elements(reading.nodes, width, height)
        bare = bare_elements(around.windows, around.focused, listing.elements)
        elements = listing.elements + bare
        signature = sign(pixels, around.windows, around.focused, elements, around.files)
        if signature.frame not in self._frames:
            self._frames[signature.frame] = pack_frame(pixels)
            if len(self._frames) > FRAMES_MAX:
                self._frames.popitem(last=False)
        self._observed += 1
        return Observation(
            width=width, height=height, elements=elements, signature=signature, time_ns=time_ns,
            settled=stillness.settled, settle_ms=stillness.settle_ms, frame_id=self._observed,
            input_ns=self._input_ns, windows=tell(around.windows, around.focused),
            quiet_ms=stillness.quiet.quiet_ms, quiet_class=stillness.quiet.app_class,
            cuts=tuple(sorted(reading.cuts | listing.cuts)),
            silent=silent_windows(around.windows, reading.nodes),
        )  # fmt: skip

    def frame_png(self, digest: str) -> bytes | None:
        """The PNG of a frame seen since the reset, packed anew; None if it is not known."""
        packed = self._frames.get(digest)
        return png_of_frame(packed, *self._size) if packed is not None else None

    def close(self) -> None:
        """Let go of the machine, for good. Twice does no harm."""
        self.kill()
        self._gestures = None
        self._frames.clear()

    def kill(self) -> None:
        """Have everything that is under way fail, without waiting."""
        self._guest.break_off()
        self._machine.break_off()

    def windows(self) -> tuple[Window, ...]:
        """The top-level windows, in the order they were opened."""
        return look_around(self._guest).windows

    def wait_still(self) -> Stillness:
        """Wait until picture after picture is the same."""
        return wait_still(lambda: frame_digest(self._grab()), lambda: QUIET)

    def work(self) -> Work:
        """What its programs do is not seen from here."""
        return (0.0, False)

    def clients(self) -> int:
        """One more each time: a program that was launched may always have come up to its X server.

        So that one without a window counts as ready only after a long rest.
        """
        return next(self._connections)

    def _grab(self) -> Pixels:
        return read_picture(self._guest.get("/screenshot"), *self._size)

    def _read(self) -> Reading:
        """What applications say; nothing where the server cannot tell, or not in time.

        Whether the machine still answers shows in the picture, which is taken after this.
        """
        try:
            tree = self._guest.with_timeout(_TREE_S).look("/accessibility").get("AT")
        except DesktopLostError:
            return Reading(nodes=[], cuts=frozenset({"time"}))
        return read_tree(tree) if isinstance(tree, str) else Reading(nodes=[])

    def _run(self, code: str) -> None:
        answer = self._guest.ask("/execute", {"command": ["python", "-c", code], "shell": False})
        if answer.get("returncode") != 0:
            said = str(answer.get("error", "")).strip()[-300:]
            raise DesktopLostError(f"{self._machine.address} performs no input: {said}")
