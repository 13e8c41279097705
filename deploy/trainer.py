"""The trainer role: a TrainerActor that reads ledgers, and how one is asked for a fit."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path

import trio

from envs_node.actors.ledger.store import LedgerStore
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.actors.nng import NngLinks
from envs_node.actors.post import Post
from envs_node.actors.trainer.actor import TrainerActor
from envs_node.deploy.links import open_links_to
from envs_node.deploy.membership import HEAD
from envs_node.deploy.slot import tell_crash
from envs_node.messages.base import ActorName, EnvsError, RunId
from envs_node.messages.fit import Fit, FitFailed, FitReport, FitRunning, FitSettings, Fitted
from envs_node.messages.ledger import Trajectory
from envs_node.messages.lifecycle import Crashed, Resolve, Resolved
from envs_node.supervisor.child import ChildSpec
from envs_node.supervisor.tree import Supervisor

TRAINER = ActorName("trainer")
_CLIENT = ActorName("client")
_ASK_S = 10.0
_POLL_S = 0.5
_POLL_HERE_S = 0.1
_SILENCE_S = 60.0
"""After so long without any answer the fit is given up here; it may go on without us."""

OnFit = Callable[[FitRunning], None]
"""Hears how far a fit is, now and then."""


class TrainerLostError(EnvsError):
    """No trainer is there, or it has gone and did not come back."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"no trainer answers: {reason}; start one with `envs-node start --role trainer --head "
            "URL` and repeat the command: it goes on from the last checkpoint"
        )


class Trainer:
    """The trainer of a node: a child of its supervisor, and what it is at."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._actor: TrainerActor | None = None

    def child(self) -> ChildSpec:
        """The actor, made anew at each start."""
        evict = functools.partial(self._post.evict, TRAINER)
        return ChildSpec(name="trainer", start=self._start, destroy=evict)

    def doing(self) -> str:
        """How far the fit is that is under way; empty when none is."""
        counts = {} if self._actor is None else self._actor.statistics()
        if not counts.get("is_fitting"):
            return ""
        return f"fits, step {counts['step']} of {counts['steps'] or 'an unknown number'}"

    async def _start(self, *, task_status: trio.TaskStatus[None]) -> None:
        self._actor = TrainerActor(_read_trajectories, _fit)
        await run_actor(self._actor, TRAINER, self._post, task_status=task_status)


async def fit_here(
    request: Fit, watch: OnFit, *, publish: Callable[[Crashed], None] = tell_crash
) -> Fitted | FitFailed:
    """Do one fit in this process.

    Raises:
        SupervisorError: it crashes again and again.
    """
    post = Post(RunId(request.fit_id))
    tree = Supervisor("trainer", [Trainer(post).child()], publish=publish)
    answer: Fitted | FitFailed | None = None
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        trainer = post.ref(TRAINER, sender=_CLIENT)
        while answer is None:
            with contextlib.suppress(AskTimeoutError, ActorCrashedError):  # the tree sees to it
                answer = _news(await trainer.ask(request, timeout_s=_ASK_S), watch)
            await trio.sleep(_POLL_HERE_S)
        tree.stop()
    return answer


async def fit_at(url: str, request: Fit, watch: OnFit) -> Fitted | FitFailed:
    """Have a trainer do one fit that the head at this address knows.

    A trainer that dies and comes back, here or elsewhere, is asked for the same fit again.

    Raises:
        TrainerLostError: no trainer for a minute.
    """
    post = Post(RunId(request.fit_id))
    async with open_links_to(url) as links:
        post.add_route(HEAD, links.to(url))
        return await fit_where(post, links, request, watch)


async def fit_where(post: Post, links: NngLinks, request: Fit, watch: OnFit) -> Fitted | FitFailed:
    """The same, over links that are open, with a route to the head."""
    head = post.ref(HEAD, sender=_CLIENT)
    trainer = post.ref(TRAINER, sender=_CLIENT)
    heard_s, where, reason = trio.current_time(), "", ""
    while trio.current_time() - heard_s < _SILENCE_S:
        try:
            place = await _find(head)
        except (AskTimeoutError, ActorCrashedError) as error:
            place, reason = where, str(error)  # a trainer fits on though its head is away
        if place and place != where:
            if where:
                links.drop(where)
            where = place
            post.add_route(TRAINER, links.to(where))
        if where:
            try:
                answer = _news(await trainer.ask(request, timeout_s=_ASK_S), watch)
            except (AskTimeoutError, ActorCrashedError) as error:
                reason = str(error)
            else:
                if answer is not None:
                    return answer
                heard_s = trio.current_time()
        else:
            reason = reason or "the head knows of none"
        await trio.sleep(_POLL_S)
    raise TrainerLostError(reason)


async def _find(head: Ref) -> str:
    """Where the first of the trainers lives; empty while none is known."""
    answer = await head.ask(Resolve(prefix=TRAINER), timeout_s=_ASK_S)
    places = answer.places if isinstance(answer, Resolved) else ()
    return min((place.url for place in places), default="")


def _news(answer: object, watch: OnFit) -> Fitted | FitFailed | None:
    if isinstance(answer, FitRunning):
        watch(answer)
        return None
    assert isinstance(answer, Fitted | FitFailed), f"a trainer does not answer {answer!r}"
    return answer


def _fit(
    trajectories: tuple[Trajectory, ...],
    base: Path,
    out: Path,
    settings: FitSettings,
    on_step: Callable[[int, int, float], None] | None = None,
) -> FitReport:
    from envs_node.fit.sft import fit_policy  # loads torch: seconds

    return fit_policy(trajectories, base, out, settings, on_step)


def _read_trajectories(path: Path) -> tuple[Trajectory, ...]:
    with LedgerStore(path, is_read_only=True) as store:
        return store.trajectories(certified_only=False)
