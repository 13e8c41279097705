"""The tree keeps what was reached and proposed, and leads back to every node."""

from __future__ import annotations

import math

import pytest

from envs_node.messages.actions import Type
from envs_node.messages.base import BranchId
from envs_node.messages.desktop import Signature
from envs_node.messages.propose import Proposal
from envs_node.messages.search import BranchCost, Bucket
from envs_node.policy.tree import Price, Rank, Tree
from tests.fakes import signature_of


def _bucket(name: str, support: int, samples: int = 8) -> Bucket:
    proposal = Proposal(action=Type(text=name), text=f"I type {name}", log_prob=-0.5)
    return Bucket(fingerprint=name, proposal=proposal, support=support, samples=samples)


def _add(
    tree: Tree,
    path: tuple[str, ...],
    signature: Signature,
    buckets: tuple[Bucket, ...],
    followed: str,
    *,
    branch: str = "b#1",
    rank: Rank = (1, ()),
) -> None:
    tree.add(path, signature, buckets, followed, branch_id=BranchId(branch), rank=rank)


def _open(tree: Tree) -> list[tuple[tuple[str, ...], str]]:
    return [(node.path, bucket.fingerprint) for node, bucket in tree.open_buckets()]


@pytest.fixture
def tree() -> Tree:
    """Root with a and b agreed and c not; a followed, and below it d."""
    tree = Tree(support_min=2, branches_node_max=2)
    root = (_bucket("a", 4), _bucket("b", 3), _bucket("c", 1))
    _add(tree, (), signature_of("root"), root, "a")
    _add(tree, ("a",), signature_of("at a"), (_bucket("d", 6), _bucket("e", 2)), "d")
    return tree


def test_open_buckets_are_agreed_and_not_followed(tree: Tree) -> None:
    assert _open(tree) == [((), "b"), (("a",), "e")]
    assert len(tree) == 2


def test_no_more_buckets_of_a_node_earn_a_branch_than_are_allowed() -> None:
    tree = Tree(support_min=1, branches_node_max=2)

    _add(tree, (), signature_of("root"), tuple(_bucket(name, 2) for name in "abcd"), "a")

    assert _open(tree) == [((), "b")]


def test_a_taken_bucket_is_closed(tree: Tree) -> None:
    tree.take((), "b")

    assert _open(tree) == [(("a",), "e")]


def test_a_node_reached_twice_keeps_its_buckets_and_takes_in_new_ones(tree: Tree) -> None:
    more = (_bucket("b", 8), _bucket("f", 2))
    _add(tree, (), signature_of("root"), more, "f", branch="b#2", rank=(2, ()))

    assert len(tree) == 2
    assert tree.prefix(("f",))[0].fingerprint == "f"
    assert _open(tree) == [((), "b"), (("a",), "e")]
    assert math.isclose(tree.share(("b",)), 3 / 8)


def test_a_share_is_the_product_of_the_shares_on_the_way(tree: Tree) -> None:
    assert tree.share(()) == 1.0
    assert math.isclose(tree.share(("a",)), 4 / 8)
    assert math.isclose(tree.share(("a", "d")), 4 / 8 * 6 / 8)


def test_a_prefix_has_each_action_and_the_state_it_led_to(tree: Tree) -> None:
    first, second = tree.prefix(("a", "d"))

    assert (first.action, first.text) == (Type(text="a"), "I type a")
    assert first.reached == signature_of("at a")
    assert (second.fingerprint, second.reached) == ("d", None)


def test_a_path_that_nobody_walked_has_no_prefix(tree: Tree) -> None:
    with pytest.raises(KeyError):
        tree.prefix(("z",))
    with pytest.raises(KeyError):
        tree.prefix(("a", "d", "z"))


def test_a_price_grows_with_depth_and_learns_from_what_was_paid() -> None:
    price = Price()
    before = price.of(3)
    assert price.of(4) > before

    for _ in range(60):
        price.learn(BranchCost(reset_ms=100, new_actions=2, act_ms=20))

    assert math.isclose(price.of(3), 100 + 10 * (3 + 2), rel_tol=0.01)


def test_a_branch_without_steps_teaches_the_price_of_a_reset_only() -> None:
    price = Price()

    price.learn(BranchCost(reset_ms=1000))

    assert (price.reset_ms, price.step_ms, price.remainder_steps) == (1800.0, 500.0, 4.0)
