"""The same failure is not proved twice, and a success is never taken for one."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from envs_node.policy.failures import FailureMemory, state_key
from tests.fakes import signature_of

ends = st.lists(st.tuples(st.sampled_from("pq"), st.sampled_from("ab"), st.booleans()), max_size=12)


@given(ends)
def test_a_pair_is_proved_when_it_failed_and_never_succeeded(
    seen: list[tuple[str, str, bool]],
) -> None:
    memory = FailureMemory()

    for state, name, is_success in seen:
        memory.record(signature_of(state), name, is_success=is_success)

    for state in "pq":
        for name in "ab":
            results = [s for at, what, s in seen if (at, what) == (state, name)]
            is_proved = bool(results) and not any(results)
            assert memory.is_proved(signature_of(state), name) == is_proved


def test_a_state_is_the_same_however_it_was_reached() -> None:
    memory = FailureMemory()
    state = signature_of("p")

    memory.record(state, "a", is_success=False)

    assert memory.is_proved(msgspec.structs.replace(state, focus="elsewhere"), "a")
    assert not memory.is_proved(msgspec.structs.replace(state, files="another"), "a")


def test_files_make_a_state_another() -> None:
    state = signature_of("p")

    assert state_key(state) != state_key(msgspec.structs.replace(state, files="another"))


def test_statistics_count_the_pairs_that_lead_nowhere() -> None:
    memory = FailureMemory()
    memory.record(signature_of("p"), "a", is_success=False)
    memory.record(signature_of("p"), "b", is_success=False)
    memory.record(signature_of("p"), "b", is_success=True)

    assert memory.statistics() == {"pairs_failed": 1}
