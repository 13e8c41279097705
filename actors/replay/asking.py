"""How a branch asks: with whose fault it is when no answer comes, and with how much patience."""

from __future__ import annotations

import msgspec
import structlog
import trio

from envs_node.actors.mailbox import ActorCrashedError, AskTimeoutError, Ref
from envs_node.messages.base import EnvsError, Message
from envs_node.messages.search import LossCause

_RESTS_S = (0.2, 0.5, 1.0, 2.0, 5.0)
_TOLD_EVERY = 12
"""Of the tries to reach a head that is away, so many go untold."""

_log = structlog.get_logger(__name__)


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """How long each kind of answer may take, in seconds.

    Each is longer than what the one who is asked allows itself: that one then gives up first, says
    why, and is free for the next branch.
    """

    reset_s: float = 190.0
    act_s: float = 100.0
    propose_s: float = 120.0
    verify_s: float = 300.0
    """With the sleeps that a task asks for before it is judged."""
    head_s: float = 30.0
    policy_away_s: float = 10.0
    """How long to ask again for a policy that starts over."""
    head_away_s: float = 120.0
    """How long to ask again for a head that starts over, in the middle of a branch."""


class BranchLostError(EnvsError):
    """The branch cannot go on, through no fault of its policy."""

    def __init__(self, reason: str, cause: LossCause) -> None:
        super().__init__(reason)
        self.cause = cause


async def ask(ref: Ref, message: Message, *, timeout_s: float, cause: LossCause) -> Message:
    """Ask once.

    Raises:
        BranchLostError: no answer came; `cause` says whose fault that is.
    """
    try:
        return await ref.ask(message, timeout_s=timeout_s)
    except (ActorCrashedError, AskTimeoutError) as error:
        raise BranchLostError(str(error), cause) from error


async def insist(
    ref: Ref, message: Message, *, timeout_s: float, away_s: float, cause: LossCause
) -> Message:
    """Ask what may be asked twice, again and again while the one who is asked starts over.

    Raises:
        BranchLostError: it did not come back within `away_s`, counted in rests.
    """
    rested_s = 0.0
    attempt = 0
    while True:
        try:
            return await ask(ref, message, timeout_s=timeout_s, cause=cause)
        except BranchLostError:
            if rested_s + rest_s(attempt) > away_s:
                raise
        await trio.sleep(rest_s(attempt))
        rested_s += rest_s(attempt)
        attempt += 1


def rest_s(attempt: int) -> float:
    """How long to rest before asking again, after so many tries."""
    return _RESTS_S[min(attempt, len(_RESTS_S) - 1)]


def tell_repeated(message: Message, attempt: int, error: EnvsError) -> None:
    """Tell people, now and then, that this was not answered and is said again."""
    if attempt % _TOLD_EVERY == 0:
        name = type(message).__name__
        _log.warning("report.repeated", message=name, attempt=attempt, error=str(error))


def refusal(answer: Message) -> str:
    """A refusing answer in one line."""
    return f"{type(answer).__name__}: {getattr(answer, 'reason', answer)}"
