"""The roll of a head: one living node a name, and the dead ones remembered for a while."""

from __future__ import annotations

from envs_node.actors.head.roll import NODES_MAX, Roll
from envs_node.messages.base import ActorName
from envs_node.messages.lifecycle import Join, JoinFailed, Place

S = 10**9


def _join(node: str, instance: str = "i", *, url: str = "tcp://p") -> Join:
    actors = (ActorName("proposer"),)
    return Join(node=node, role="policy", url=url, actors=actors, version="1", instance=instance)


def test_a_second_living_node_of_one_name_is_refused_with_the_reason() -> None:
    roll = Roll()
    roll.take(_join("p", "first"), 0)

    refused = roll.take(_join("p", "second", url="tcp://q"), 3 * S)

    assert isinstance(refused, JoinFailed)
    assert refused.is_taken
    assert "p is alive at tcp://p" in refused.reason
    assert "--link.node" in refused.reason
    assert roll.places("proposer", 3 * S) == (Place(ActorName("proposer"), "tcp://p"),)


def test_a_restarted_node_has_its_name_back_after_two_silent_heartbeats() -> None:
    roll = Roll()
    roll.take(_join("p", "killed"), 0)

    taken = roll.take(_join("p", "restarted", url="tcp://q"), 4 * S)

    assert taken is True
    assert roll.places("proposer", 4 * S) == (Place(ActorName("proposer"), "tcp://q"),)
    assert len(roll) == 1


def test_a_frozen_node_that_wakes_does_not_take_its_name_back() -> None:
    roll = Roll()
    roll.take(_join("p", "frozen"), 0)
    roll.take(_join("p", "new"), 60 * S)

    assert isinstance(roll.take(_join("p", "frozen"), 61 * S), JoinFailed)
    assert roll.take(_join("p", "new"), 62 * S) is False


def test_the_dead_stay_listed_until_the_next_run_and_are_nobodys_place() -> None:
    roll = Roll()
    roll.take(_join("p"), 0)

    (status,) = roll.statuses(30 * S)

    assert not status.is_alive
    assert status.heard_ms == 30_000
    assert roll.places("", 30 * S) == ()
    roll.forget_dead(30 * S)
    assert roll.statuses(30 * S) == ()


def test_who_takes_its_leave_is_forgotten_but_not_for_another_of_its_name() -> None:
    roll = Roll()
    roll.take(_join("p", "one"), 0)

    assert not roll.strike("p", "two")
    assert roll.strike("p", "one")
    assert len(roll) == 0


def test_the_roll_is_bounded_and_drops_those_that_died_first() -> None:
    roll = Roll()
    for number in range(NODES_MAX):
        roll.take(_join(f"n-{number}"), number)
    full = roll.take(_join("late"), 5 * S)
    later = roll.take(_join("late"), 60 * S)

    assert isinstance(full, JoinFailed)
    assert not full.is_taken
    assert later is True
    assert len(roll) == NODES_MAX
    assert "n-0" not in {status.node for status in roll.statuses(60 * S)}
