"""A sandbox whose desktop can be kept as it is, and become a clone of one that was kept.

store = ForkStore(Forker(launcher, criu), bytes_max=2 << 30)     # one a node
store.is_offered = True                                          # after `selftest.py` says so
sandbox = ForkableSandbox(launcher, kind, store)
seen = (sandbox.reset(task), sandbox.act(action))
sandbox.keep_fork(prefix_keys(task, [action])[-1], seen)
other = ForkableSandbox(launcher, kind, store)
clone = other.reset_forked(task, [action])                       # clone.seen == seen
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from envs_node.actors.desktop.errors import DesktopLostError, ForkRefusedError, LauncherError
from envs_node.actors.desktop.fork.prefix import prefix_keys
from envs_node.actors.desktop.fork.store import ForkPoint, ForkStore, Notes
from envs_node.actors.desktop.kind import DesktopKind
from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.desktop.pool import Sessions
from envs_node.actors.desktop.sandbox import Sandbox
from envs_node.actors.desktop.session import Clone, Session
from envs_node.actors.desktop.settle import Look, Stillness
from envs_node.actors.desktop.starts import Starts
from envs_node.messages.actions import Action
from envs_node.messages.desktop import Observation
from envs_node.messages.tasks import Task
from envs_node.policy.compare import compare

_LOOKS = 2
"""So often a clone is looked at before it is thrown away: it may have been in the middle of one."""


class CloneBegun(msgspec.Struct, frozen=True, kw_only=True):
    """A clone stands where its origin stood."""

    seen: tuple[Observation, ...]


class ForkableSandbox(Sandbox):
    """Keeps its desktop in a store, and takes clones out of it."""

    def __init__(
        self,
        launcher: Launcher,
        kind: DesktopKind | None,
        store: ForkStore,
        *,
        sessions: Sessions | None = None,
        starts: Starts | None = None,
        allowed_hosts: tuple[str, ...] = (),
    ) -> None:
        super().__init__(
            launcher, kind, sessions=sessions, starts=starts, allowed_hosts=allowed_hosts
        )
        self._launcher = launcher
        self._store = store
        self._is_known_still = False
        self._task = ""

    def check(self, task: Task, branch: str = "") -> None:
        """As any desktop does; it is at this task from now on."""
        super().check(task, branch)
        self._task = prefix_keys(task, ())[0]
        self._store.turn(self, self._task)

    @property
    def can_fork(self) -> bool:
        """Whether this host can, as far as was tried."""
        return self._store.is_offered

    def keep_fork(self, key: str, seen: tuple[Observation, ...]) -> int:
        """Keep the desktop as it is; the bytes that takes. It goes on as if nothing had been.

        Args:
            seen: what was seen at the start and after each action up to now.

        Raises:
            ForkRefusedError: it cannot be kept, or there is no room, or it did not stand still.
            DesktopLostError: it broke over that.
        """
        if not self._store.is_offered:
            raise ForkRefusedError("this host cannot fork")
        session = self._living()
        if session.kind.allowed_hosts:
            raise ForkRefusedError("its connections to other hosts cannot be copied")
        session.require_whole()
        wanted = {observation.signature.frame for observation in seen}
        frames = {digest: packed for digest, packed in self._frames.items() if digest in wanted}
        notes = Notes(parts=session.parts, seen=seen, frames=frames, task=self._task)
        session.hang_up()
        try:
            point = self._store.keep(key, session.pid, notes)
        finally:
            session.take_up()
        session.require_whole()
        if session.screen.digest() != seen[-1].signature.frame:
            said = compare(seen[-1].signature, self.observe().signature)[1]
            if said:
                self._store.forget(point)
                raise ForkRefusedError(f"the desktop did not stand still: {said}")
        return point.dump.size_bytes

    def reset_forked(self, task: Task, prefix: Sequence[Action]) -> CloneBegun | None:
        """Become a clone that stands behind as many of these actions as possible, or at the start.

        Returns:
            None where nobody was kept there, or where the clone is not what its origin was: then
            there is no desktop until the next reset.

        Raises:
            DesktopLostError: the launcher is gone, or we were closed meanwhile.
        """
        with self._store.borrowed(prefix_keys(task, prefix)) as found:
            if found is None:
                return None
            _, point = found
            self._end_session()
            wrong = "it broke us"
            try:
                wrong = self._become(point)
            except LauncherError as error:
                wrong = str(error)
            finally:
                if wrong == "it broke us":  # nobody is to run into that again
                    self._store.forget(point)
            if wrong:
                self._end_session()
                self._store.failed(point, wrong)
                return None
            self._store.succeeded()
            self._frames.update(point.notes.frames)
            return CloneBegun(seen=point.notes.seen)

    def wait_still(self, look: Look | None = None) -> Stillness:
        """Wait until the picture is still, unless it is known to be."""
        if self._is_known_still:
            return Stillness(settled=True, settle_ms=0, frame=self._living().screen.digest())
        return super().wait_still(look)

    def _become(self, point: ForkPoint) -> str:
        """Bring the clone up and look at it; what is wrong with it, empty if nothing is."""
        pid = self._store.restore(point, self._kind)
        clone = Clone(pid=pid, parts=dict(point.notes.parts))
        try:
            session = Session(self._launcher, self._kind, clone)
        except DesktopLostError as error:
            return str(error)
        self._begin_session(session)
        wrong = ""
        try:
            for number in range(_LOOKS):
                self._is_known_still = number == 0  # its origin was, when it was kept
                outcome, wrong = compare(point.notes.seen[-1].signature, self.observe().signature)
                if outcome == "equal":
                    return ""
        except DesktopLostError as error:
            return str(error)
        finally:
            self._is_known_still = False
        return f"the clone differs from its origin: {wrong}"
