"""One life of a child: run where nobody else's cancelling reaches, and ended by the ladder."""

from __future__ import annotations

import contextvars
from collections.abc import Callable

import trio

from envs_node.supervisor.child import ChildSpec

_DESTROYED_S = 1.0
"""How long a child may take to notice that what it hung on was taken away."""


class Life:
    """One run of a child; also the task status that the child calls `started` on.

    It is a task of the root, not of a nursery of its supervisor: a nursery could never be left
    while one child ignores cancelling.

    Args:
        on_end: called once, in the child's task, when the run has ended by itself or was stopped.
        waits_for_ever: whether cancelling always ends it, sooner or later.
    """

    def __init__(
        self, spec: ChildSpec, on_end: Callable[[Life], None], *, waits_for_ever: bool
    ) -> None:
        self.spec = spec
        self.up_or_over = trio.Event()
        self.over = trio.Event()
        self.is_up = False
        self.is_stopping = False
        self.is_abandoned = False
        self.error: BaseException | None = None
        self._on_end = on_end
        self._destroy_s = float("inf") if waits_for_ever else spec.destroy_s
        self._scope = trio.CancelScope(shield=True)

    def begin(self, name: str) -> None:
        """Start it as a task of this name."""
        context = contextvars.copy_context()
        trio.lowlevel.spawn_system_task(self._live, name=name, context=context)

    def started(self, _value: None = None) -> None:
        """The child can be used."""
        self.is_up = True
        self.up_or_over.set()

    async def end(self, complain: Callable[[Exception], None]) -> None:
        """Ask, wait, cancel, wait, destroy, and at last abandon it. Call it shielded.

        Args:
            complain: told of what `ask_stop` and `destroy` raise.
        """
        self.is_stopping = True
        spec = self.spec
        if spec.ask_stop is not None and _try(spec.ask_stop, complain):
            await self._is_over_within(spec.shutdown_s)
        self._scope.cancel()
        if await self._is_over_within(self._destroy_s):
            return
        if spec.destroy is not None:
            _try(spec.destroy, complain)
        if not await self._is_over_within(_DESTROYED_S):
            self.is_abandoned = True
            self.over.set()
            self.up_or_over.set()

    async def _is_over_within(self, limit_s: float) -> bool:
        with trio.move_on_after(limit_s):
            await self.over.wait()
        return self.over.is_set()

    async def _live(self) -> None:
        try:
            with self._scope:
                await self.spec.start(task_status=self)
        except trio.Cancelled:
            raise
        except BaseException as error:  # noqa: BLE001  the one place: a crash becomes news
            self.error = error
        finally:
            if not self.is_abandoned:
                self.over.set()
                self.up_or_over.set()
                self._on_end(self)


def _try(call: Callable[[], object], complain: Callable[[Exception], None]) -> bool:
    try:
        call()
    except Exception as error:  # noqa: BLE001  a rung that breaks must not end the ladder
        complain(error)
        return False
    return True
