"""The supervisor: starts children in order, brings them back, stops them in reverse."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Literal, TypeAlias

import trio

from envs_node.messages.base import EnvsError
from envs_node.messages.lifecycle import Crashed
from envs_node.supervisor.child import ChildSpec
from envs_node.supervisor.intensity import Intensity, backoff_s, crashes_within, is_spent

Strategy: TypeAlias = Literal["one_for_one", "rest_for_one", "one_for_all"]
"""Whose state is a lie when a child crashes: nobody else's, everyone's after it, everyone's."""


class SupervisorError(EnvsError):
    """Children crashed more often than may be answered by a restart."""

    def __init__(self, supervisor: str, child: str, intensity: Intensity, error: str) -> None:
        super().__init__(
            f"{supervisor} gives up: more than {intensity.burst} crashes in "
            f"{intensity.window_s:g} s, the last of {child}: {error}"
        )
        self.supervisor = supervisor
        self.child = child


class _Child:
    """A child, its present run, and what is counted against it."""

    def __init__(self, spec: ChildSpec, *, is_dynamic: bool = False) -> None:
        self.spec = spec
        self.is_dynamic = is_dynamic
        self.is_removed = False
        self.restarts = 0
        self.crashes: tuple[float, ...] = ()
        self.run: _Run | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it is up, or came to its end."""
        return self.run is not None and self.run.up_or_over.is_set()


class _Run:
    """One life of a child; the task status that it calls `started` on."""

    def __init__(self, child: _Child) -> None:
        self.child = child
        self.scope = trio.CancelScope(shield=True)
        self.up_or_over = trio.Event()
        self.over = trio.Event()
        self.is_up = False
        self.is_stopping = False
        self.error: Exception | None = None

    def started(self, _value: None = None) -> None:
        """The child can be used."""
        self.is_up = True
        self.up_or_over.set()

    def wants_back(self) -> bool:
        """Whether this run, which has ended, is to be followed by another."""
        if self.is_stopping or self.child.is_removed or self.child.spec.restart == "never":
            return False
        return self.error is not None or self.child.spec.restart == "always"


class Supervisor:
    """Keeps children alive. `run` is itself a `Start`, so supervisors nest.

    Children live shielded from the supervisor's own cancellation, which instead stops them one by
    one in reverse order: each is asked, waited for, and only then cancelled. A group restart
    leaves out children that restart `never`.

    Args:
        name: for errors.
        children: started in this order, each when the one before has started.
        chance: jitter of the back-off.
        publish: told of every crash; must not raise.
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
        self._children = {spec.name: _Child(spec) for spec in children}
        self._strategy = strategy
        self._intensity = intensity or Intensity()
        self._chance = chance or Random()
        self._publish = publish or (lambda crashed: None)
        self._crashes: tuple[float, ...] = ()
        self._failure: SupervisorError | None = None
        self._ended: deque[_Run] = deque()
        self._news = trio.Event()
        self._round = trio.CancelScope()
        self._lives: trio.Nursery | None = None
        self._keepers: trio.Nursery | None = None
        self._is_stopped = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start the children and keep them alive, until cancelled or told to `stop`. Runs once.

        Raises:
            SupervisorError: the restart intensity is spent; all children have been stopped.
        """
        async with trio.open_nursery() as self._lives:
            try:
                async with trio.open_nursery() as self._keepers:
                    if self._is_stopped:
                        self._keepers.cancel_scope.cancel()
                    await self._keep(self._keepers, task_status)
            finally:
                self._keepers = None
                with trio.CancelScope(shield=True):
                    await self._stop_runs(list(self._children.values()))
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
        """Children, those that are up, and restarts so far."""
        children = self._children.values()
        runs = [child.run for child in children if child.run is not None]
        return {
            "children": len(children),
            "up": sum(run.is_up and not run.over.is_set() for run in runs),
            "restarts": sum(child.restarts for child in children),
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
                run = self._ended.popleft()
                if not run.is_up or run.child.run is not run:
                    continue  # who starts it sees to it, or it has been replaced since
                delay_s = self._delay_s(run)
                if delay_s is None:
                    continue
                if self._strategy == "one_for_one":
                    keepers.start_soon(self._bring_back, run.child, delay_s)
                else:
                    await self._bring_back_group(run.child, delay_s)
            if not is_told and all(child.is_settled for child in everyone):
                is_told = True
                task_status.started()
            self._news = trio.Event()
            await self._news.wait()

    def _delay_s(self, run: _Run) -> float | None:
        """Count the end of a run. How long to back off, or None: the child rests, or we give up."""
        child, name = run.child, run.child.spec.name
        if run.error is not None and not run.is_stopping:
            self._publish_crash(run)
        if not run.wants_back():
            if child.is_dynamic and self._children.get(name) is child and not run.is_stopping:
                del self._children[name]
            return None
        now_s = trio.current_time()
        self._crashes = (*crashes_within(self._crashes, now_s, self._intensity), now_s)
        child.crashes = (*crashes_within(child.crashes, now_s, self._intensity), now_s)
        if is_spent(self._crashes, now_s, self._intensity):
            error = "it ended" if run.error is None else repr(run.error)
            self._failure = SupervisorError(self.name, name, self._intensity, error)
            self._failure.__cause__ = run.error
            if self._keepers is not None:
                self._keepers.cancel_scope.cancel()
            return None
        child.restarts += 1
        return backoff_s(len(child.crashes), self._intensity, self._chance)

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
            while not child.is_removed and self._lives is not None:
                run = child.run = _Run(child)
                self._lives.start_soon(self._live, run, name=f"{self.name}/{child.spec.name}")
                await run.up_or_over.wait()
                delay_s = None if run.is_up else self._delay_s(run)
                if delay_s is None:
                    break
                await trio.sleep(delay_s)
        self._news.set()

    async def _live(self, run: _Run) -> None:
        try:
            with run.scope:
                await run.child.spec.start(task_status=run)
        except Exception as error:  # noqa: BLE001  the one place: a crash becomes news
            run.error = error
        finally:
            run.over.set()
            run.up_or_over.set()
            self._ended.append(run)
            self._news.set()
            if run.is_up and run.wants_back():
                self._round.cancel()

    async def _stop_runs(self, children: list[_Child]) -> None:
        """Stop children in reverse order, each by the ladder. Call it shielded."""
        for child in reversed(children):
            run = child.run
            if run is None or run.over.is_set():
                continue
            run.is_stopping = True
            if child.spec.ask_stop is not None:
                child.spec.ask_stop()
                with trio.move_on_after(child.spec.shutdown_s):
                    await run.over.wait()
            run.scope.cancel()
            await run.over.wait()
            if run.error is not None:
                self._publish_crash(run)

    def _publish_crash(self, run: _Run) -> None:
        error = f"{type(run.error).__name__}: {run.error}"
        child = run.child
        self._publish(Crashed(child=child.spec.name, error=error, restarts=child.restarts))
