"""The probe: asks the head how everything stands, all the time, and remembers the answers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import trio

from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError
from envs_node.actors.post import Post
from envs_node.deploy.links import open_links_to
from envs_node.deploy.membership import HEAD
from envs_node.deploy.node import route_to_head
from envs_node.messages.base import ActorName, EnvsError, RunId
from envs_node.messages.search import Progress, ProgressWanted
from envs_node.messages.status import NodeStatus, Status, StatusWanted
from tests.chaos.storm import Fault

_EVERY_S = 0.25
_ASK_S = 1.0
_UNNOTICED_S = 15.0


class Sample(msgspec.Struct, frozen=True):
    """What the head said, when it was asked, and when it answered."""

    asked_s: float
    answered_s: float
    status: Status

    def node(self, name: str) -> NodeStatus | None:
        """A node, as the head saw it."""
        return next((node for node in self.status.nodes if node.node == name), None)


class Probe:
    """Samples of a head's status, taken from a thread of its own."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._is_over = threading.Event()
        self.samples: list[Sample] = []
        self.judged = 0
        """Leaves that the search has judged so far."""

    @contextmanager
    def asking(self) -> Iterator[Probe]:
        """Ask as long as this is held."""
        thread = threading.Thread(target=trio.run, args=(self._ask_on,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._is_over.set()
            thread.join(timeout=10)

    def latest(self) -> Sample | None:
        """The last answer."""
        return self.samples[-1] if self.samples else None

    def has_nodes(self, names: set[str]) -> bool:
        """Whether the head knows all these nodes and takes them for alive."""
        sample = self.latest()
        return sample is not None and names <= {n.node for n in sample.status.nodes if n.is_alive}

    def recovery_s(self, fault: Fault, restarted_s: float) -> float | None:
        """From the signal to the first proof of health; None when nobody noticed the fault.

        Args:
            restarted_s: when the process that took the killed one's place was started.
        """
        after_s = max(fault.thawed_s, restarted_s)
        if fault.kind != "role":
            return self._part_recovery_s(fault)
        for sample in self.samples:
            if sample.asked_s < after_s:
                continue
            if fault.plan.service == "head":
                return sample.answered_s - fault.at_s
            node = sample.node(fault.plan.service)
            if node is not None and sample.answered_s - node.heard_ms / 1000 > after_s:
                return sample.answered_s - node.heard_ms / 1000 - fault.at_s
        return None

    def _part_recovery_s(self, fault: Fault) -> float | None:
        """Of a desktop's part: from the signal until the node that restarted something is well."""
        before: int | None = None
        for sample in self.samples:
            node = sample.node(fault.plan.service)
            if node is None:
                continue
            if sample.answered_s < fault.at_s:
                before = node.report.restarts
                continue
            if before is None or sample.answered_s > fault.at_s + _UNNOTICED_S:
                return None
            is_well = all(d.state in ("idle", "working") for d in node.report.desktops)
            if node.report.restarts != before and is_well:
                return sample.answered_s - fault.at_s
        return None

    async def _ask_on(self) -> None:
        while not self._is_over.is_set():
            with contextlib.suppress(EnvsError):  # the head was away when we came
                async with open_links_to(self._url, folder=self._folder) as links:
                    post = Post(RunId("chaos"))
                    route_to_head(post, links, self._url)
                    await self._sample(post)
            await trio.sleep(_EVERY_S)

    async def _sample(self, post: Post) -> None:
        head = post.ref(HEAD, sender=ActorName("client"))
        while not self._is_over.is_set():
            asked_s = time.monotonic()
            try:
                answer = await head.ask(StatusWanted(), timeout_s=_ASK_S)
            except (AskTimeoutError, ActorCrashedError):
                answer = None
            if isinstance(answer, Status):
                self.samples.append(Sample(asked_s, time.monotonic(), answer))
                if answer.run:
                    await self._count_judged(post)
            await trio.sleep(_EVERY_S)

    async def _count_judged(self, post: Post) -> None:
        scheduler = post.ref(ActorName("scheduler"), sender=ActorName("client"))
        with contextlib.suppress(AskTimeoutError, ActorCrashedError):
            progress = await scheduler.ask(ProgressWanted(), timeout_s=_ASK_S)
            if isinstance(progress, Progress):
                leaves = sum(task.leaves for task in progress.tasks)
                self.judged = max(self.judged, leaves)
