"""What need not be proved twice: actions that led to nothing from a state already seen."""

from __future__ import annotations

from envs_node.messages.desktop import Signature

StateKey = tuple[str, str, tuple[str, ...]]


def state_key(signature: Signature) -> StateKey:
    """What makes two states the same to the search, however they were reached."""
    return (signature.frame, signature.files, signature.windows)


class FailureMemory:
    """Counts, for each (state, fingerprint), the leaves below it that failed and that succeeded."""

    def __init__(self) -> None:
        self._failed: dict[tuple[StateKey, str], int] = {}
        self._succeeded: dict[tuple[StateKey, str], int] = {}

    def record(self, signature: Signature, fingerprint: str, *, is_success: bool) -> None:
        """Remember how one leaf below this pair ended."""
        counts = self._succeeded if is_success else self._failed
        pair = (state_key(signature), fingerprint)
        counts[pair] = counts.get(pair, 0) + 1

    def is_proved(self, signature: Signature, fingerprint: str) -> bool:
        """True when every leaf seen below this pair failed, and there was at least one."""
        pair = (state_key(signature), fingerprint)
        return self._failed.get(pair, 0) > 0 and self._succeeded.get(pair, 0) == 0

    def statistics(self) -> dict[str, int]:
        """How many pairs are known to lead nowhere."""
        return {"pairs_failed": sum(1 for pair in self._failed if pair not in self._succeeded)}
