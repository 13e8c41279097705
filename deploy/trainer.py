"""The trainer role: a TrainerActor that reads ledgers, under a supervisor."""

from __future__ import annotations

from pathlib import Path

import trio

from envs_node.actors.ledger.store import LedgerStore
from envs_node.actors.loop import run_actor
from envs_node.actors.post import Post
from envs_node.actors.trainer.actor import TrainerActor
from envs_node.deploy.slot import tell_crash
from envs_node.fit.sft import fit_policy
from envs_node.messages.base import ActorName, RunId
from envs_node.messages.fit import Fit, FitFailed, Fitted
from envs_node.messages.ledger import Trajectory
from envs_node.supervisor.child import ChildSpec
from envs_node.supervisor.tree import Supervisor

TRAINER = ActorName("trainer")
_FIT_S = 7 * 24 * 3600.0


def trainer_child(post: Post) -> ChildSpec:
    """The trainer of a node."""

    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        actor = TrainerActor(_read_trajectories, fit_policy)
        await run_actor(actor, TRAINER, post, task_status=task_status)

    return ChildSpec(name="trainer", start=start)


async def fit_here(request: Fit) -> Fitted | FitFailed:
    """Do one fit in this process."""
    post = Post(RunId(request.fit_id))
    tree = Supervisor("trainer", [trainer_child(post)], publish=tell_crash)
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        trainer = post.ref(TRAINER, sender=ActorName("client"))
        answer = await trainer.ask(request, timeout_s=_FIT_S)
        tree.stop()
    assert isinstance(answer, Fitted | FitFailed), f"a trainer does not answer {answer!r}"
    return answer


def _read_trajectories(path: Path) -> tuple[Trajectory, ...]:
    with LedgerStore(path, is_read_only=True) as store:
        return store.trajectories(certified_only=False)
