"""The supervisor: starts children in order, brings them back, stops them in reverse."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Literal, TypeAlias

import structlog
import trio

from envs_node.messages.lifecycle import Cause, Crashed
from envs_node.supervisor.child import ChildSpec
from envs_node.supervisor.intensity import Intensity
from envs_node.supervisor.life import Life
from envs_node.supervisor.tally import SupervisorError, Tally, describe, trace

Strategy: TypeAlias = Literal["one_for_one", "rest_for_one", "one_for_all"]
"""Whose state is a lie when a child crashes: nobody else's, everyone's after it, everyone's."""

_log = structlog.get_logger(__name__)


class _Child:
    """A child and its present run."""

    def __init__(self, spec: ChildSpec, *, is_dynamic: bool = False) -> None:
        self.spec = spec
        self.is_dynamic = is_dynamic
        self.is_removed = False
        self.restarts = 0
        self.run: Life | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it is up, or came to its end."""
        return self.run is not None and self.run.up_or_over.is_set()

    def wants_back(self, run: Life) -> bool:
        """Whether a run that has ended is to be followed by another."""
        if run.is_stopping or self.is_removed or self.spec.restart == "never":
            return False
        return run.error is not None or self.spec.restart == "always"


class Supervisor:
    """Keeps children alive. `run` is itself a `Start`, so supervisors nest.

    Children live shielded from the supervisor's own cancellation, which instead stops them one by
    one in reverse order, each by the ladder: asked, waited for, cancelled, and if that is ignored,
    destroyed and abandoned, so that its name is free again. A group restart leaves out children
    that restart `never`.

    Args:
        name: for errors.
        children: started in this order, each when the one before has started.
        chance: jitter of the back-off.
        publish: told of every crash. What it raises is logged, the first time, and ignored.
    """

    def __init__(
        self,
        name: str,
        children: Sequence[ChildSpec] = (),
        *,
        strategy: Strategy = "one_for_one",
        intensity: Intensity | None = None,
        chance: Random | None = None,
        publish: Callable[[Crashed], None] | None = None,
    ) -> None:
        names = [spec.name for spec in children]
        if len(set(names)) < len(names):
            raise ValueError(f"two children of {name} have one name: {names}")
        self.name = name
        self._specs = tuple(children)
        self._children = {spec.name: _Child(spec) for spec in children}
        self._strategy = strategy
        self._chance = chance or Random()
        self._publish = publish or (lambda crashed: None)
        self._has_hook_failed = False
        self._tally = Tally(name, intensity or Intensity())
        self._abandoned = 0
        self._failure: SupervisorError | None = None
        self._ended: deque[tuple[_Child, Life]] = deque()
        self._lives: set[Life] = set()
        self._news = trio.Event()
        self._round = trio.CancelScope()
        self._keepers: trio.Nursery | None = None
        self._is_stopped = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start the children and keep them alive, until cancelled or told to `stop`.

        Run again after that, it begins anew with the children it was made with.

        Raises:
            SupervisorError: the restart intensity is spent; all children have been stopped.
        """
        assert self._keepers is None, f"{self.name} runs already"
        self._children = {spec.name: _Child(spec) for spec in self._specs}
        self._failure = None
        self._ended.clear()
        self._tally.forget()
        try:
            async with trio.open_nursery() as self._keepers:
                if self._is_stopped:
                    self._keepers.cancel_scope.cancel()
                await self._keep(self._keepers, task_status)
        finally:
            self._keepers = None
            with trio.CancelScope(shield=True):
                await self._stop_runs(list(self._children.values()))
                for life in list(self._lives):  # of children that are being removed
                    await life.over.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Let `run` stop the children in reverse order and return."""
        self._is_stopped = True
        if self._keepers is not None:
            self._keepers.cancel_scope.cancel()

    async def start_child(self, spec: ChildSpec) -> None:
        """Add a child at the end, and wait until it has started or ended.

        When it ends for good it is forgotten, and its name is free again.

        Raises:
            ValueError: a child of that name is there.
            RuntimeError: the supervisor is not running.
        """
        if spec.name in self._children:
            raise ValueError(f"{self.name} has a child named {spec.name} already")
        if self._keepers is None:
            raise RuntimeError(f"{self.name} is not running, so it starts no child {spec.name}")
        child = self._children[spec.name] = _Child(spec, is_dynamic=True)
        is_settled = trio.Event()
        self._keepers.start_soon(self._bring_added, child, is_settled)
        await is_settled.wait()

    async def stop_child(self, name: str) -> None:
        """Stop a child and forget it. Nothing happens when it is not there."""
        child = self._children.pop(name, None)
        if child is not None:
            child.is_removed = True
            with trio.CancelScope(shield=True):
                await self._stop_runs([child])

    def statistics(self) -> dict[str, int]:
        """Children, those that are up, restarts so far by cause, and children abandoned."""
        children = self._children.values()
        runs = [child.run for child in children if child.run is not None]
        return {
            "children": len(children),
            "up": sum(run.is_up and not run.over.is_set() for run in runs),
            **self._tally.restarts(),
            "abandoned": self._abandoned,
        }

    async def _keep(self, keepers: trio.Nursery, task_status: trio.TaskStatus[None]) -> None:
        """Start everything, then answer each end of a child. Never returns by itself."""
        is_told = False
        everyone = list(self._children.values())
        if self._strategy == "one_for_one":
            keepers.start_soon(self._bring_up, everyone)
        else:
            await self._bring_up_round(everyone)
        while True:
            while self._ended:
                child, run = self._ended.popleft()
                if not run.is_up or child.run is not run:
                    continue  # who starts it sees to it, or it has been replaced since
                delay_s = self._delay_s(child, run)
                if delay_s is None:
                    continue
                if self._strategy == "one_for_one":
                    keepers.start_soon(self._bring_back, child, delay_s)
                else:
                    await self._bring_back_group(child, delay_s)
            if not is_told and all(child.is_settled for child in everyone):
                is_told = True
                task_status.started()
            self._news = trio.Event()
            await self._news.wait()

    def _delay_s(self, child: _Child, run: Life) -> float | None:
        """Count the end of a run. How long to back off, or None: the child rests, or we give up."""
        name = child.spec.name
        is_preempted = self._is_preempted(run)
        if run.error is not None and not run.is_stopping:
            self._tell(child, run.error, "preempted" if is_preempted else "fault")
        if not child.wants_back(run):
            if child.is_dynamic and self._children.get(name) is child and not run.is_stopping:
                del self._children[name]
            return None
        delay_s = self._tally.count(
            name, run.error, trio.current_time(), self._chance, is_preempted=is_preempted
        )
        if delay_s is None:
            self._failure = self._tally.failure(is_preempted=is_preempted)
            self._failure.__cause__ = run.error
            if self._keepers is not None:
                self._keepers.cancel_scope.cancel()
            return None
        child.restarts += 1
        return delay_s

    def _is_preempted(self, run: Life) -> bool:
        """Whether its spec says that this end was no fault of the child's."""
        judge = run.spec.is_preempted
        if judge is None or run.error is None:
            return False
        try:
            return judge(run.error)
        except Exception as error:  # noqa: BLE001  who cannot tell has not said that it is not
            self._warn(error)
            return False

    async def _bring_added(self, child: _Child, is_settled: trio.Event) -> None:
        try:
            await self._bring_up([child])
        finally:
            is_settled.set()

    async def _bring_back(self, child: _Child, delay_s: float) -> None:
        await trio.sleep(delay_s)
        await self._bring_up([child])

    async def _bring_back_group(self, crashed: _Child, delay_s: float) -> None:
        children = list(self._children.values())
        if self._strategy == "rest_for_one" and crashed in children:
            children = children[children.index(crashed) :]
        with trio.CancelScope(shield=True):
            await self._stop_runs(children)
        await trio.sleep(delay_s)
        await self._bring_up_round([c for c in children if c.spec.restart != "never"])

    async def _bring_up_round(self, children: list[_Child]) -> None:
        """Bring up a group; abandoned when a child that was up crashes meanwhile."""
        with trio.CancelScope() as self._round:
            await self._bring_up(children)

    async def _bring_up(self, children: list[_Child]) -> None:
        for child in children:
            while not child.is_removed:
                run = self._begin(child)
                await run.up_or_over.wait()
                delay_s = None if run.is_up else self._delay_s(child, run)
                if delay_s is None:
                    break
                await trio.sleep(delay_s)
        self._news.set()

    def _begin(self, child: _Child) -> Life:
        def end(run: Life) -> None:
            self._lives.discard(run)
            self._ended.append((child, run))
            self._news.set()
            if run.is_up and child.wants_back(run):
                self._round.cancel()

        is_tree = isinstance(getattr(child.spec.start, "__self__", None), Supervisor)
        run = child.run = Life(child.spec, end, waits_for_ever=is_tree)
        self._lives.add(run)
        run.begin(f"{self.name}/{child.spec.name}")
        return run

    async def _stop_runs(self, children: list[_Child]) -> None:
        """Stop children in reverse order, each by the ladder. Call it shielded."""
        for child in reversed(children):
            run = child.run
            if run is None or run.over.is_set():
                continue
            await run.end(functools.partial(self._tell, child))
            if run.is_abandoned and run in self._lives:
                self._lives.discard(run)
                self._abandoned += 1
                self._tell(child, TimeoutError("it ignores being cancelled"), "abandoned")
            elif run.error is not None:
                self._tell(child, run.error)

    def _tell(self, child: _Child, error: BaseException, cause: Cause = "fault") -> None:
        try:
            self._publish(
                Crashed(
                    child=child.spec.name,
                    error=describe(error),
                    restarts=child.restarts,
                    cause=cause,
                    traceback=trace(error),
                )
            )
        except Exception as failed:  # noqa: BLE001  a hook that breaks is no reason to stop
            self._warn(failed)

    def _warn(self, error: Exception) -> None:
        if not self._has_hook_failed:
            self._has_hook_failed = True
            _log.warning("hook.failed", supervisor=self.name, error=describe(error))
