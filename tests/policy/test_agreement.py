"""Proposals are grouped by what they mean, and only what agrees earns a branch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envs_node.messages.actions import Key, Type
from envs_node.messages.propose import Proposal
from envs_node.policy.agreement import agreed, bucket_proposals


def _proposal(text: str, log_prob: float) -> Proposal:
    return Proposal(action=Type(text=text), text=text, log_prob=log_prob)


proposals = st.lists(
    st.builds(_proposal, st.sampled_from("abcd"), st.sampled_from((-3.0, -2.0, -1.0))), max_size=12
)


@given(proposals)
def test_supports_sum_to_the_samples_and_names_are_distinct(drawn: list[Proposal]) -> None:
    buckets = bucket_proposals(drawn)

    assert sum(bucket.support for bucket in buckets) == len(drawn)
    assert all(bucket.samples == len(drawn) for bucket in buckets)
    assert len({bucket.fingerprint for bucket in buckets}) == len(buckets)


@given(proposals)
def test_largest_support_comes_first_and_then_the_likelier(drawn: list[Proposal]) -> None:
    order = [(-b.support, -b.proposal.log_prob) for b in bucket_proposals(drawn)]

    assert order == sorted(order)


@given(proposals)
def test_a_bucket_shows_the_likeliest_of_its_members(drawn: list[Proposal]) -> None:
    for bucket in bucket_proposals(drawn):
        members = [p for p in drawn if p.action == bucket.proposal.action]
        assert bucket.proposal.log_prob == max(p.log_prob for p in members)


def test_equal_buckets_keep_the_order_in_which_they_were_proposed() -> None:
    drawn = [_proposal(text, -1.0) for text in "babacc"]

    assert [b.fingerprint for b in bucket_proposals(drawn)] == ["type b", "type a", "type c"]


def test_of_equal_members_the_first_is_shown() -> None:
    first = Proposal(action=Key(keys=("ctrl", "s")), text="first", log_prob=-1.0)
    second = Proposal(action=Key(keys=("CTRL", "S")), text="second", log_prob=-1.0)

    (bucket,) = bucket_proposals([first, second])

    assert bucket.proposal is first


@given(proposals, st.integers(1, 4), st.integers(0, 4))
def test_agreed_buckets_have_the_support_and_are_no_more_than_allowed(
    drawn: list[Proposal], support_min: int, branches_max: int
) -> None:
    buckets = bucket_proposals(drawn)

    earned = agreed(buckets, support_min, branches_max)

    assert all(bucket.support >= support_min for bucket in earned)
    assert earned == tuple(b for b in buckets if b.support >= support_min)[:branches_max]


def test_nothing_proposed_is_no_bucket() -> None:
    assert bucket_proposals([]) == ()
