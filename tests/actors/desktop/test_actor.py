"""The desktop's actor: what is asked twice is done once."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from envs_node.actors.desktop.actor import DesktopActor
from envs_node.actors.desktop.errors import DesktopLostError
from envs_node.messages.actions import Action, Type, Wait
from envs_node.messages.base import DesktopId
from envs_node.messages.desktop import (
    Act,
    Acted,
    ActFailed,
    Close,
    Closed,
    Configure,
    Configured,
    ConfigureFailed,
    FetchFrame,
    ForkKept,
    ForkRefused,
    FrameFetched,
    FrameUnknown,
    KeepFork,
    Observation,
    Observe,
    Observed,
    Reset,
    ResetDone,
    ResetFailed,
)
from tests.fakes_desktop import FakeDesktop, make_task

D0 = DesktopId("desktop-0")


def act(step: int, action: Action, episode: int = 1) -> Act:
    return Act(desktop_id=D0, episode=episode, step=step, action=action)


async def running(desktop: FakeDesktop) -> DesktopActor:
    actor = DesktopActor(D0, desktop)
    await actor.hear(Configure(desktop_id=D0, task=make_task()))
    assert isinstance(await actor.hear(Reset(desktop_id=D0, episode=1)), ResetDone)
    return actor


async def test_a_repeated_step_is_answered_and_not_performed_again() -> None:
    desktop = FakeDesktop()
    actor = await running(desktop)

    first = await actor.hear(act(0, Type(text="a")))
    again = await actor.hear(act(0, Type(text="a")))

    assert isinstance(first, Acted)
    assert again == first
    assert desktop.text == "a"


async def test_a_repeated_reset_is_answered_and_not_done_again() -> None:
    desktop = FakeDesktop()
    actor = await running(desktop)
    await actor.hear(act(0, Type(text="a")))

    again = await actor.hear(Reset(desktop_id=D0, episode=1))

    assert isinstance(again, ResetDone)
    assert again.guest_pid == 4321
    assert desktop.calls == ["reset", "Type"]


async def test_a_new_episode_starts_over() -> None:
    desktop = FakeDesktop()
    actor = await running(desktop)
    await actor.hear(act(0, Type(text="a")))

    await actor.hear(Reset(desktop_id=D0, episode=2))
    answer = await actor.hear(act(0, Type(text="b"), episode=2))

    assert isinstance(answer, Acted)
    assert desktop.text == "b"


async def test_resets_say_how_long_they_take() -> None:
    """Row C3."""
    actor = DesktopActor(D0, FakeDesktop())
    before = actor.statistics()
    await actor.hear(Configure(desktop_id=D0, task=make_task()))

    answers = [await actor.hear(Reset(desktop_id=D0, episode=number)) for number in range(20)]

    times = sorted(answer.reset_ms for answer in answers if isinstance(answer, ResetDone))
    assert "reset_ms_p50" not in before
    assert actor.statistics()["reset_ms_p50"] == times[9]
    assert actor.statistics()["reset_ms_p95"] == times[18]


async def test_steps_of_another_episode_or_out_of_turn_are_refused() -> None:
    desktop = FakeDesktop()
    actor = await running(desktop)

    late = await actor.hear(act(0, Type(text="a"), episode=0))
    early = await actor.hear(act(3, Type(text="a")))

    assert isinstance(late, ActFailed)
    assert late.reason == "episode 0 is not the one that runs"
    assert isinstance(early, ActFailed)
    assert early.reason == "step 3 comes after step 0"
    assert desktop.text == ""


async def test_an_action_that_was_decided_on_a_frame_of_another_episode_is_refused() -> None:
    desktop = FakeDesktop()
    actor = await running(desktop)
    first = await actor.hear(act(0, Type(text="a")))
    assert isinstance(first, Acted)
    frame = first.observation.signature.frame

    fitting = await actor.hear(msgspec.structs.replace(act(1, Type(text="b")), frame=frame))
    stale = await actor.hear(msgspec.structs.replace(act(2, Type(text="c")), frame="old"))

    assert isinstance(fitting, Acted)
    assert isinstance(stale, ActFailed)
    assert stale.reason == "frame old is not of this episode: decide on one that is"
    assert desktop.text == "ab"


async def test_a_refused_action_is_a_reply_and_not_a_crash() -> None:
    actor = await running(FakeDesktop())

    answer = await actor.hear(act(0, Wait(wait_ms=70_000)))

    assert answer == ActFailed(
        desktop_id=D0, episode=1, step=0, reason="too long a wait", is_refused=True
    )


async def test_a_lost_desktop_is_a_crash() -> None:
    actor = await running(FakeDesktop())

    with pytest.raises(DesktopLostError):
        await actor.hear(act(0, Type(text="boom")))


async def test_a_task_that_cannot_be_set_up_is_refused_before_the_desktop_is_touched() -> None:
    desktop = FakeDesktop()
    actor = DesktopActor(D0, desktop)

    refused = await actor.hear(Configure(desktop_id=D0, task=make_task(template="unknown")))
    reset = await actor.hear(Reset(desktop_id=D0, episode=0))

    assert isinstance(refused, ConfigureFailed)
    assert refused.reason == "set-up step 0 (dance): unknown type"
    assert isinstance(reset, ResetFailed)
    assert desktop.calls == []


async def test_a_failed_set_up_is_a_refusal_and_the_next_episode_may_try_again() -> None:
    actor = DesktopActor(D0, FakeDesktop())
    broken = make_task(template="broken")
    assert isinstance(await actor.hear(Configure(desktop_id=D0, task=broken)), Configured)

    first = await actor.hear(Reset(desktop_id=D0, episode=0))
    await actor.hear(Configure(desktop_id=D0, task=make_task()))
    second = await actor.hear(Reset(desktop_id=D0, episode=1))

    assert isinstance(first, ResetFailed)
    assert first.reason == "set-up step 1 (launch): no new window"
    assert first.is_setup
    assert isinstance(second, ResetDone)


async def test_frames_of_the_episode_are_fetched_and_others_unknown() -> None:
    actor = await running(FakeDesktop())
    await actor.hear(act(0, Type(text="a")))

    known = await actor.hear(FetchFrame(desktop_id=D0, frame="a"))
    unknown = await actor.hear(FetchFrame(desktop_id=D0, frame="zzz"))

    assert known == FrameFetched(frame="a", png=b"png of a")
    assert isinstance(unknown, FrameUnknown)


async def test_a_closed_desktop_acts_no_more() -> None:
    desktop = FakeDesktop()
    actor = await running(desktop)
    assert isinstance(await actor.hear(Observe(desktop_id=D0)), Observed)

    closed = await actor.hear(Close(desktop_id=D0))
    answer = await actor.hear(act(0, Type(text="a")))

    assert closed == Closed(desktop_id=D0)
    assert isinstance(answer, ActFailed)
    assert desktop.calls == ["reset", "close"]


def test_importing_the_actor_loads_no_x_library() -> None:
    source = "import envs_node.actors.desktop.actor, sys; print('Xlib' in sys.modules)"

    answer = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)

    assert answer.stdout == "False\n"


async def forked(store: dict[str, tuple[Observation, ...]]) -> DesktopActor:
    """A desktop that was kept behind `a`, and went on."""
    actor = await running(FakeDesktop(store))
    await actor.hear(act(0, Type(text="a")))
    await actor.hear(KeepFork(desktop_id=D0, episode=1, step=1))
    await actor.hear(act(1, Type(text="b")))
    return actor


async def test_a_reset_to_a_prefix_takes_the_deepest_clone_and_tells_what_was_seen() -> None:
    store: dict[str, tuple[Observation, ...]] = {}
    actor = await forked(store)
    prefix = (Type(text="a"), Type(text="c"))

    done = await actor.hear(Reset(desktop_id=D0, episode=2, prefix=prefix))

    assert isinstance(done, ResetDone)
    assert (done.can_fork, done.forked_steps) == (True, 1)
    assert [seen.signature.frame for seen in (*done.seen, done.observation)] == ["", "a"]
    refused = await actor.hear(act(0, Type(text="a"), episode=2))
    assert isinstance(refused, ActFailed), "that step is behind it"
    acted = await actor.hear(act(1, Type(text="c"), episode=2))
    assert isinstance(acted, Acted)
    assert acted.observation.signature.frame == "ac"
    assert await actor.hear(Reset(desktop_id=D0, episode=2, prefix=prefix)) == done


async def test_a_desktop_is_kept_once_though_it_is_asked_twice_and_only_where_it_stands() -> None:
    store: dict[str, tuple[Observation, ...]] = {}
    desktop = FakeDesktop(store)
    actor = await running(desktop)
    await actor.hear(act(0, Type(text="a")))
    keep = KeepFork(desktop_id=D0, episode=1, step=1)

    first = await actor.hear(keep)
    await actor.hear(act(1, Type(text="b")))

    assert isinstance(first, ForkKept)
    assert await actor.hear(keep) == first
    assert desktop.calls.count("keep_fork") == 1
    for episode, step in ((1, 0), (1, 3), (2, 2)):
        wish = KeepFork(desktop_id=D0, episode=episode, step=step)
        assert isinstance(await actor.hear(wish), ForkRefused)


async def test_a_state_behind_a_refused_action_has_no_name_to_keep_it_by() -> None:
    actor = await running(FakeDesktop({}))
    await actor.hear(act(0, Wait(wait_ms=90_000)))

    answer = await actor.hear(KeepFork(desktop_id=D0, episode=1, step=1))

    assert isinstance(answer, ForkRefused)
    assert "refused" in answer.reason


async def test_a_desktop_that_cannot_fork_is_reset_in_full() -> None:
    actor = await running(FakeDesktop())

    done = await actor.hear(Reset(desktop_id=D0, episode=2, prefix=(Type(text="a"),)))
    kept = await actor.hear(KeepFork(desktop_id=D0, episode=2, step=0))

    assert isinstance(done, ResetDone)
    assert (done.can_fork, done.forked_steps, done.seen) == (False, 0, ())
    assert isinstance(kept, ForkRefused)
