"""Many desktops at once: each shows and saves its own mark, and takes what the plan says."""

from __future__ import annotations

import pytest

from envs_node.deploy.cli.plan import check_here
from envs_node.deploy.fleet import Fleet
from envs_node.deploy.profiles import read_profiles

pytestmark = pytest.mark.live
MIB = 1 << 20


def test_desktops_side_by_side_show_and_save_each_its_own_mark() -> None:
    fleet = Fleet(["mousepad", "mousepad", "mousepad", "xterm"])
    try:
        driven = fleet.drive(4)
    finally:
        fleet.close()

    assert all(one.is_saved for one in driven)
    assert len({one.start_frame for one in driven[:3]}) == 1
    assert len({one.marked_frame for one in driven}) == 4
    assert all(15 * MIB < one.memory_bytes < 90 * MIB for one in driven)


@pytest.mark.slow
def test_what_a_mix_takes_is_what_was_predicted() -> None:
    checked = check_here(read_profiles(), {"mousepad": 1, "gedit": 1}, 4)

    assert checked.apps == {"mousepad": 2, "gedit": 2}
    assert checked.unsaved == 0
    assert abs(checked.memory_deviation) < 0.3
    assert checked.measured_steps_s > 0


@pytest.mark.slow
@pytest.mark.parametrize(("app", "count", "limit_mb"), [("mousepad", 24, 70), ("calc", 10, 250)])
def test_so_many_desktops_at_once_take_so_little_and_are_all_right(
    app: str, count: int, limit_mb: int
) -> None:
    fleet = Fleet([app] * count)
    try:
        driven = fleet.drive(4)
    finally:
        fleet.close()

    assert all(one.is_saved for one in driven)
    assert len({one.start_frame for one in driven}) == 1
    assert len({one.marked_frame for one in driven}) == count
    assert max(one.memory_bytes for one in driven) < limit_mb * MIB
