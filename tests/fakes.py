"""A small screen that behaves as a table says, and the actors that drive and judge it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import msgspec
import trio

from envs_node.actors.base import Actor
from envs_node.messages.actions import Action, Click, Fail, Finish, Key, Target, Type
from envs_node.messages.base import EnvsError, Message, TaskId
from envs_node.messages.desktop import (
    Act,
    Acted,
    ActFailed,
    Close,
    Closed,
    Configure,
    Configured,
    Element,
    FetchFrame,
    ForkKept,
    ForkRefused,
    FrameFetched,
    KeepFork,
    Observation,
    Observe,
    Observed,
    Reset,
    ResetDone,
    ResetFailed,
    Signature,
)
from envs_node.messages.propose import Proposal, Propose, Proposed, ProposeFailed
from envs_node.messages.tasks import Task
from envs_node.messages.verify import Verdict, Verified, Verify
from envs_node.policy.fingerprint import fingerprint

START, SAVED = "empty", "saved"


class FakeLostError(EnvsError):
    """A fake broke because its test wanted it to."""


class FakeScreen(msgspec.Struct, frozen=True, kw_only=True):
    """An application as a table: where each action leads; any other leaves all as it is."""

    moves: Mapping[tuple[str, str], str]
    proposals: Mapping[str, Sequence[tuple[Action, int]]]
    """What the policy would do in each state, and how often of all samples."""
    successes: frozenset[str] = frozenset({SAVED})

    def after(self, state: str, action: Action) -> str:
        """The state that an action leads to."""
        return self.moves.get((state, fingerprint(action)), state)

    def observe(self, state: str, time_ns: int = 0) -> Observation:
        """What a state looks like."""
        element = Element("push button", f"in {state}", "", 10, 10, 80, 20)
        return Observation(
            width=640,
            height=480,
            elements=(element,),
            signature=signature_of(state),
            time_ns=time_ns,
        )


def click(name: str) -> Click:
    """A click on a button of the screen."""
    return Click(x=20, y=20, target=Target(role="push button", name=name))


def signature_of(state: str) -> Signature:
    """How a state is told from others."""
    digest = hashlib.sha256(state.encode()).digest()
    return Signature(
        frame=digest.hex()[:32],
        tiles=digest,
        columns=4,
        windows=(state,),
        focus=state,
        elements=digest.hex()[:16],
        files=state.partition(":")[0],
    )


def fake_task(name: str = "note-000") -> Task:
    """A task of the fake screen."""
    return Task(
        id=TaskId(name),
        instruction="Write hi and save it.",
        template=name.rpartition("-")[0],
        split="train",
        apps=("note",),
        json=b"{}",
        sha256=hashlib.sha256(name.encode()).hexdigest(),
    )


def note_screen() -> FakeScreen:
    """A note that is typed and saved: by a chord or a button, at once or after a detour."""
    save, menu, text, chord = click("Save"), click("Menu"), Type(text="hi"), Key(keys=("ctrl", "s"))
    named = {action: fingerprint(action) for action in (save, menu, text, chord)}
    return FakeScreen(
        moves={
            ("empty", named[text]): "typed",
            ("empty", named[menu]): "menu",
            ("menu", named[text]): "typed",
            ("typed", named[chord]): "saved",
            ("typed", named[save]): "saved",
        },
        proposals={
            "empty": ((text, 4), (menu, 3), (save, 1)),
            "menu": ((text, 6), (menu, 2)),
            "typed": ((chord, 4), (save, 3), (Finish(), 1)),
            "saved": ((Finish(), 7), (Fail(), 1)),
        },
    )


class FakeDesktop(Actor[Message]):
    """Shows a `FakeScreen`. `trouble` may raise or wait before an `Act` is performed."""

    def __init__(
        self,
        screen: FakeScreen,
        *,
        resets: bool = True,
        trouble: Callable[[Act], Message | None] = lambda act: None,
        silent_at: int = -1,
        reset_ms: int = 300,
        kept: dict[tuple[Action, ...], tuple[Observation, ...]] | None = None,
    ) -> None:
        """With `kept` it forks: those that share it are of one node."""
        self.kept = kept
        self.forks_refused = 0
        self._reset_ms = reset_ms
        self._seen: list[Observation] = []
        self.screen = screen
        self.state = ""
        self.performed: list[Action] = []
        self.episode = 0
        self.episodes: list[int] = []
        self._resets = resets
        self._trouble = trouble
        self._silent_at = silent_at

    async def hear(self, message: Message) -> Message | None:
        match message:
            case Configure(desktop_id=desktop_id):
                return Configured(desktop_id=desktop_id)
            case Reset(desktop_id=desktop_id, episode=episode):
                return (
                    self._reset(message)
                    if self._resets
                    else ResetFailed(
                        desktop_id=desktop_id,
                        episode=episode,
                        reason="set-up step 1: no such file",
                        is_setup=True,
                    )
                )
            case Act():
                return await self._act(message)
            case KeepFork():
                return self._keep(message)
            case Observe(desktop_id=desktop_id):
                observation = self.screen.observe(self.state)
                return Observed(desktop_id=desktop_id, observation=observation)
            case FetchFrame(frame=frame):
                return FrameFetched(frame=frame, png=b"png of " + frame.encode())
            case Close(desktop_id=desktop_id):
                return Closed(desktop_id=desktop_id)
        raise AssertionError(f"a desktop hears no {message!r}")

    def _reset(self, reset: Reset) -> ResetDone:
        self.state, self.episode, self.performed = START, reset.episode, []
        self.episodes.append(reset.episode)
        self._seen = [self.screen.observe(self.state)]
        prefix = reset.prefix or ()
        depths = range(len(prefix), -1, -1) if reset.prefix is not None else ()
        depth = next((n for n in depths if prefix[:n] in (self.kept or {})), -1)
        if self.kept and depth >= 0:
            self.performed = list(prefix[:depth])
            self._seen = list(self.kept[prefix[:depth]])
            for action in self.performed:
                self.state = self.screen.after(self.state, action)
        return ResetDone(
            desktop_id=reset.desktop_id,
            episode=reset.episode,
            observation=self._seen[-1],
            seen=tuple(self._seen[:-1]),
            guest_pid=4242,
            reset_ms=0 if depth >= 0 else self._reset_ms,
            can_fork=self.kept is not None,
            forked_steps=max(depth, 0),
            fork_ms=40 if depth >= 0 else 0,
        )

    def _keep(self, keep: KeepFork) -> Message:
        assert self.kept is not None, "a desktop that cannot fork is not asked to"
        where = {"desktop_id": keep.desktop_id, "episode": keep.episode, "step": keep.step}
        if self.forks_refused:
            self.forks_refused -= 1
            return ForkRefused(**where, reason="there is no room")  # type: ignore[arg-type]
        self.kept[tuple(self.performed)] = tuple(self._seen)
        return ForkKept(**where, size_bytes=1 << 20, fork_ms=60)  # type: ignore[arg-type]

    async def _act(self, act: Act) -> Message:
        assert act.episode == self.episode, "an action of another episode"
        assert act.step == len(self.performed), "an action twice, or one left out"
        if act.step == self._silent_at:
            await trio.sleep_forever()
        refusal = self._trouble(act)
        if refusal is not None:
            return refusal
        self.performed.append(act.action)
        self.state = self.screen.after(self.state, act.action)
        self._seen.append(self.screen.observe(self.state))
        return Acted(
            desktop_id=act.desktop_id,
            episode=act.episode,
            step=act.step,
            observation=self._seen[-1],
            act_ms=10,
        )


class FakeProposer(Actor[Propose]):
    """Proposes what the screen's table says; eight samples unless fewer are asked for."""

    def __init__(self, screen: FakeScreen) -> None:
        self._screen = screen

    async def hear(self, message: Propose) -> Message:
        state = message.state.observation.signature.windows[0].partition(":")[0]
        drawn = [a for a, count in self._screen.proposals.get(state, ()) for _ in range(count)]
        if state == "mute":
            return ProposeFailed(reason="the policy has lost its voice")
        start = 0 if message.greedy or message.samples > 1 else message.seed % max(len(drawn), 1)
        return Proposed(
            proposals=tuple(
                Proposal(action=action, text=fingerprint(action), log_prob=-1.0 - number / 8)
                for number, action in enumerate(drawn[start : start + message.samples])
            ),
            policy="fake table",
            entropy=1.0,
            propose_ms=5,
        )


class FakeVerifier(Actor[Verify]):
    """Judges the state of a desktop by the screen's table, or as told beforehand."""

    def __init__(self, desktop: FakeDesktop, *, verdicts: Sequence[Verdict] = ()) -> None:
        self._desktop = desktop
        self._verdicts = list(verdicts)

    async def hear(self, message: Verify) -> Verified:
        if self._verdicts:
            return Verified(verify_id=message.verify_id, verdict=self._verdicts.pop(0))
        is_done = self._desktop.state in self._desktop.screen.successes
        verdict = Verdict(
            verdict="success" if is_done else "failure", score=float(is_done), wall_ms=20
        )
        return Verified(verify_id=message.verify_id, verdict=verdict)


def refuse(act: Act, reason: str = "no such window") -> ActFailed:
    """How a desktop refuses an action."""
    return ActFailed(desktop_id=act.desktop_id, episode=act.episode, step=act.step, reason=reason)
