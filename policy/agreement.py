"""Proposals into buckets, and which buckets are worth a desktop."""

from __future__ import annotations

from collections.abc import Sequence

from envs_node.messages.propose import Proposal
from envs_node.messages.search import Bucket
from envs_node.policy.fingerprint import FingerprintMode, fingerprint


def bucket_proposals(
    proposals: Sequence[Proposal], mode: FingerprintMode = "element"
) -> tuple[Bucket, ...]:
    """Group proposals by fingerprint: largest support first, then likelier, then earlier."""
    groups: dict[str, list[Proposal]] = {}
    for proposal in proposals:
        groups.setdefault(fingerprint(proposal.action, mode), []).append(proposal)
    buckets = [
        Bucket(
            fingerprint=name,
            proposal=max(members, key=lambda proposal: proposal.log_prob),
            support=len(members),
            samples=len(proposals),
        )
        for name, members in groups.items()
    ]
    # `sorted` is stable, so equal buckets keep the order in which they were proposed.
    return tuple(sorted(buckets, key=lambda b: (-b.support, -b.proposal.log_prob)))


def agreed(buckets: Sequence[Bucket], support_min: int, branches_max: int) -> tuple[Bucket, ...]:
    """The buckets that may earn a branch: proposed `support_min` times or more, largest first."""
    return tuple(bucket for bucket in buckets if bucket.support >= support_min)[:branches_max]
