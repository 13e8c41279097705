"""The receive loop of an actor: one message at a time, each done once, each answered."""

from __future__ import annotations

from collections import OrderedDict
from types import TracebackType
from typing import TypeVar, cast

import structlog
import trio

from envs_node.actors.base import Actor
from envs_node.actors.mailbox import MAILBOX_LENGTH, Mailbox
from envs_node.actors.post import Post
from envs_node.messages.base import ActorName, Envelope, Message, MessageId
from envs_node.messages.lifecycle import ActorFailed

_HeardT = TypeVar("_HeardT", bound=Message)

ANSWERS_SENDER_MAX = 8
"""Answers remembered for each sender: more than it has requests under way at once."""
SENDERS_MAX = 1024
STOP_S = 10.0
REASON_CHARS_MAX = 500


class Answers:
    """The answers given last, so that a request that comes twice is done once."""

    def __init__(
        self, *, sender_max: int = ANSWERS_SENDER_MAX, senders_max: int = SENDERS_MAX
    ) -> None:
        self._sender_max = sender_max
        self._senders_max = senders_max
        self._given: OrderedDict[ActorName, OrderedDict[MessageId, Message | None]] = OrderedDict()

    def knows(self, envelope: Envelope[Message]) -> bool:
        """Whether this request was answered and is still remembered."""
        return envelope.id in self._given.get(envelope.sender, ())

    def get(self, envelope: Envelope[Message]) -> Message | None:
        """The answer that was given to a known request."""
        return self._given[envelope.sender][envelope.id]

    def put(self, envelope: Envelope[Message], answer: Message | None) -> None:
        """Remember an answer; the oldest of this sender, or the oldest sender, is forgotten."""
        given = self._given.setdefault(envelope.sender, OrderedDict())
        self._given.move_to_end(envelope.sender)
        given[envelope.id] = answer
        if len(given) > self._sender_max:
            given.popitem(last=False)
        if len(self._given) > self._senders_max:
            self._given.popitem(last=False)


def crash_of(name: ActorName, error: BaseException) -> ActorFailed:
    """What those are told who wait for an actor that crashed with this."""
    return ActorFailed(to=name, reason=f"it crashed: {error!r}"[:REASON_CHARS_MAX])


async def run_actor(
    actor: Actor[_HeardT],
    name: ActorName,
    post: Post,
    *,
    mailbox_length: int = MAILBOX_LENGTH,
    stop_s: float = STOP_S,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run an actor until it is cancelled, crashes or is evicted. A child of a supervisor.

    It is started when `actor.start()` is done; messages that come before wait in the mailbox.
    When it ends, whoever waits for an answer is told at once, and `actor.stop()` has `stop_s`.

    Raises:
        whatever the actor raised: the supervisor decides.
    """
    mailbox = Mailbox(name, mailbox_length)
    try:
        with _Door(post, mailbox):
            if post.recorder is not None and post.recorder.wants(name):
                await post.recorder.started(name)
            await actor.start()
            task_status.started()
            await _hear_all(actor, post, mailbox)
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + stop_s):
            await actor.stop()


class _Door:
    """Keeps a mailbox registered, and tells everybody who waits at it when the actor has gone."""

    def __init__(self, post: Post, mailbox: Mailbox) -> None:
        self._post = post
        self._mailbox = mailbox

    def __enter__(self) -> None:
        self._post.register(self._mailbox)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._post.remove(self._mailbox)
        if self._mailbox.is_closed:
            return
        is_stopped = error is None or isinstance(error, trio.Cancelled)
        failed = ActorFailed(to=self._mailbox.name, reason="it was stopped")
        if error is not None and not is_stopped:
            failed = crash_of(self._mailbox.name, error)
        try:
            if not is_stopped:
                self._record(failed)
        finally:
            self._mailbox.close(failed)

    def _record(self, failed: ActorFailed) -> None:
        recorder, current = self._post.recorder, self._mailbox.current
        if current is not None and recorder is not None and recorder.wants(self._mailbox.name):
            recorder.crashed(current.envelope, failed)


async def _hear_all(actor: Actor[_HeardT], post: Post, mailbox: Mailbox) -> None:
    """Hear until the mailbox is closed: the actor was given up, and another has its name."""
    answers = Answers()
    recorder = post.recorder
    is_journalled = recorder is not None and recorder.wants(mailbox.name)
    refused: set[type[Message]] = set()
    while not mailbox.is_closed:
        try:
            request = (await mailbox.get()).envelope
        except trio.EndOfChannel:
            return
        answer: Message | None
        if answers.knows(request):
            answer = answers.get(request)
        elif not isinstance(request.message, actor.hears):
            answer = _refuse(request, refused)
        else:
            actor.envelope = request
            message = cast(_HeardT, request.message)
            answer = None
            if not actor.is_needless(message):
                if is_journalled and recorder is not None:
                    await recorder.heard(request)
                answer = await actor.hear(message)
                if is_journalled and recorder is not None and not mailbox.is_closed:
                    await recorder.answered(request, answer)
                answers.put(request, answer)
        mailbox.answer(answer)


def _refuse(request: Envelope[Message], refused: set[type[Message]]) -> ActorFailed:
    """Answer what this actor does not hear, whoever sent it; logged once a kind."""
    kind = type(request.message)
    reason = f"it does not hear {kind.__name__}"
    if kind not in refused:
        refused.add(kind)
        structlog.get_logger().warning(
            "message.refused", reason=f"{request.to}: {reason}", sender=request.sender
        )
    return ActorFailed(to=request.to, reason=reason)
