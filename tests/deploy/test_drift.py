"""A branch that is driven again is measured state by state against its record."""

from __future__ import annotations

from io import BytesIO

import msgspec
from PIL import Image

from envs_node.deploy.drift import is_equal, measure, states_of, strip_rows
from envs_node.messages.actions import Action, Finish, Key, Type
from envs_node.messages.search import LeafReached
from envs_node.messages.verify import Verdict
from envs_node.policy.fingerprint import fingerprint
from tests.actors.replay.driving import World, assign, prefix
from tests.fakes import note_screen, signature_of

SCREEN = note_screen()
TYPE, SAVE = Type(text="hi"), Key(keys=("ctrl", "s"))


async def drive(*actions: Action) -> LeafReached:
    """A branch of these actions, as a desktop that is a fake went along."""
    return await World(screen=SCREEN).drive(assign("certify", prefix=prefix(SCREEN, *actions)))


async def test_what_goes_the_same_way_is_equal_to_the_end(autojump_clock: object) -> None:
    then, now = await drive(TYPE, SAVE, Finish()), await drive(TYPE, SAVE, Finish())

    drifts = measure(then, now, {}, {})

    assert [d.outcome for d in drifts] == ["equal"] * 4
    assert [d.action for d in drifts] == [
        "",
        "type hi",
        "key ctrl+s",
        "finish (nothing is performed)",
    ]
    assert is_equal(then, now, drifts)


async def test_the_step_that_leads_elsewhere_diverges_and_says_in_what(
    autojump_clock: object,
) -> None:
    then, now = await drive(TYPE, SAVE), await drive(TYPE, Type(text="more"))

    drifts = measure(then, now, {}, {})

    assert [d.outcome for d in drifts] == ["equal", "equal", "diverged"]
    assert drifts[2].parts == ("windows", "focus", "elements", "files")
    assert "windows are 'typed' instead of 'saved'" in drifts[2].words()
    assert not is_equal(then, now, drifts)


async def test_what_was_not_reached_again_says_why(autojump_clock: object) -> None:
    then, now = await drive(TYPE, SAVE), await drive(TYPE)

    drifts = measure(then, msgspec.structs.replace(now, detail="refused it"), {}, {})

    assert (drifts[2].outcome, drifts[2].words()) == ("not reached", "refused it")


async def test_another_verdict_over_equal_states_is_not_equal(autojump_clock: object) -> None:
    then = await drive(TYPE, SAVE)
    now = msgspec.structs.replace(then, verdict=Verdict(verdict="failure", score=0.0))

    assert not is_equal(then, now, measure(then, now, {}, {}))


async def test_a_record_that_was_never_judged_has_no_verdict_to_differ_from(
    autojump_clock: object,
) -> None:
    now = await drive(TYPE, SAVE)
    then = msgspec.structs.replace(now, verdict=None, reason="diverged")

    assert is_equal(then, now, measure(then, now, {}, {}))


async def test_a_gate_has_a_start_that_nobody_wrote_down(autojump_clock: object) -> None:
    then = await World(screen=SCREEN).drive(assign("gate"))

    drifts = measure(then, then, {}, {})

    assert states_of(then) == [None]
    assert [d.outcome for d in drifts] == ["unrecorded"]
    assert is_equal(then, then, drifts)
    assert strip_rows(then, then, drifts, {}, {})[0].lack == "the start was not recorded"


async def test_rows_show_the_pictures_that_are_there_and_what_was_done(
    autojump_clock: object,
) -> None:
    then = now = await drive(TYPE, SAVE)
    white, black = _png(255), _png(0)
    start, saved = (signature_of(state).frame for state in ("empty", "saved"))

    drifts = measure(then, now, {saved: white}, {start: black, saved: black})
    rows = strip_rows(then, now, drifts, {saved: white}, {start: black, saved: black})

    assert [d.pixels for d in drifts] == [None, None, 1.0]
    assert [row.title for row in rows] == ["start", "1. type hi", "2. key ctrl+s"]
    assert [row.action for row in rows] == [None, TYPE, SAVE]
    assert [row.then for row in rows] == [None, None, white]
    assert [row.now for row in rows] == [black, None, black]
    assert rows[1].lack == "this picture was not kept"
    assert fingerprint(TYPE) in rows[1].title


def _png(grey: int) -> bytes:
    packed = BytesIO()
    Image.new("RGB", (64, 48), (grey, grey, grey)).save(packed, "PNG")
    return packed.getvalue()
