"""The packing plan: the smaller bound is the plan, and the curve follows from what was measured."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.deploy.cli.plan import PlanVerb, read_mix, read_size, share_out
from envs_node.deploy.fleet import APPLICATIONS
from envs_node.deploy.plan import Host, can_merge, make_plan, predict
from envs_node.deploy.plan_chart import svg_of
from envs_node.deploy.profiles import PlanError, Profile, Profiles, keep_others, read_profiles

MIB, GIB = 1 << 20, 1 << 30
SMALL = Profile(
    app="small", private_bytes=50 * MIB, shared_bytes=100 * MIB, step_s=0.1, step_cpu_s=0.02,
    reset_s=1.0, reset_cpu_s=0.5, merged_bytes=20 * MIB,
)  # fmt: skip
LARGE = Profile(
    app="large", private_bytes=500 * MIB, shared_bytes=200 * MIB, step_s=0.2, step_cpu_s=0.1,
    reset_s=3.0, reset_cpu_s=2.0,
)  # fmt: skip
PROFILES = Profiles(machine="m", date="2026-11-30", width=1280, height=720, profiles=(SMALL, LARGE))
BIG = Host(ram_bytes=64 * GIB, cores=16)


def test_a_host_with_little_memory_is_bound_by_it_and_one_with_few_processors_by_them() -> None:
    poor = make_plan(PROFILES, {"large": 1}, Host(ram_bytes=4 * GIB, cores=64))
    slow = make_plan(PROFILES, {"large": 1}, Host(ram_bytes=1024 * GIB, cores=2))

    assert (poor.binds, poor.desktops) == ("memory", (2048 - 200) // 500)
    assert slow.binds == "processors"
    # An episode: 3 + 15 x (0.2 + 1) = 21 s, of which 2 + 15 x 0.1 = 3.5 on a processor.
    assert slow.desktops == int(0.9 * 2 * 21 / 3.5)


def test_a_host_with_too_little_memory_for_one_holds_none() -> None:
    plan = make_plan(PROFILES, {"large": 1}, Host(ram_bytes=2 * GIB, cores=2))

    assert plan.desktops == 0
    assert not any(point.fits for point in plan.curve)


def test_a_mix_keeps_room_for_more_large_ones_at_once_than_on_average() -> None:
    mixed = make_plan(PROFILES, {"small": 1, "large": 1}, BIG)
    naive = (62 * 1024 - 300) // 275

    assert 0.8 * naive < mixed.memory_bound < naive


def test_a_desktop_is_cheaper_the_more_stand_on_a_host_until_a_bound_binds() -> None:
    plan = make_plan(PROFILES, {"small": 1}, msgspec.structs.replace(BIG, price_hour=1.0))

    working = [point.working_day for point in plan.curve]
    assert [point.desktop_day for point in plan.curve] == [24 / p.desktops for p in plan.curve]
    assert working == sorted(working, reverse=True)
    past = [point for point in plan.curve if point.desktops > plan.cpu_bound]
    assert past
    assert {point.working_day for point in past} == {24 / plan.cpu_bound}
    assert plan.desktop_day == 24 / plan.desktops
    assert plan.desktops in [point.desktops for point in plan.curve]


def test_merged_pages_let_more_desktops_in_where_they_were_measured() -> None:
    host = Host(ram_bytes=4 * GIB, cores=64)

    assert can_merge(PROFILES, {"small": 1})
    assert not can_merge(PROFILES, {"small": 1, "large": 1})
    merged = make_plan(PROFILES, {"small": 1}, host, is_merged=True)
    assert merged.memory_bound > 2 * make_plan(PROFILES, {"small": 1}, host).memory_bound
    with pytest.raises(PlanError, match="were not measured"):
        make_plan(PROFILES, {"large": 1}, host, is_merged=True)


@given(st.integers(1, 512), st.integers(1, 256), st.floats(0.01, 1), st.floats(0, 1))
def test_more_of_a_host_never_holds_fewer_and_the_plan_always_fits(
    gib: int, cores: int, small: float, large: float
) -> None:
    mix = {"small": small, "large": large}
    plan = make_plan(PROFILES, mix, Host(ram_bytes=gib * GIB, cores=cores))
    more = make_plan(PROFILES, mix, Host(ram_bytes=2 * gib * GIB, cores=2 * cores))

    assert more.desktops >= plan.desktops
    assert all(p.fits for p in plan.curve if p.desktops <= plan.desktops)
    assert all(p.memory_bytes <= (gib - 2) * GIB for p in plan.curve if p.fits)


def test_what_runs_as_fast_as_it_goes_is_predicted_by_processors_or_by_itself() -> None:
    assert predict(PROFILES, {"large": 2}, cores=16) == (1200 * MIB, pytest.approx(10.0))
    assert predict(PROFILES, {"large": 40}, cores=2)[1] == pytest.approx(20.0)


def test_shares_become_whole_desktops() -> None:
    assert share_out({"a": 0.5, "b": 0.25, "c": 0.25}, 4) == {"a": 2, "b": 1, "c": 1}
    assert sum(share_out({"a": 1, "b": 1, "c": 1}, 10).values()) == 10
    assert share_out({"a": 1, "b": 0}, 3) == {"a": 3}


@pytest.mark.parametrize(
    ("text", "words"),
    [("calc=x", "is no share"), ("nothing=1", "no such application: nothing"), ("", None)],
)
def test_a_mix_that_makes_no_sense_is_refused_in_one_line(text: str, words: str | None) -> None:
    if words is None:
        with pytest.raises(PlanError, match="the mix has no application"):
            make_plan(PROFILES, read_mix(text) or {"small": 0}, BIG)
    else:
        with pytest.raises(PlanError, match=words):
            read_mix(text)


def test_sizes_are_read_with_their_unit() -> None:
    assert read_size("64G") == 64 * GIB
    assert read_size("1.5 gib") == 1.5 * GIB
    with pytest.raises(PlanError, match="'64' is no size"):
        read_size("64")


def test_the_profiles_that_we_ship_are_of_every_application_that_is_driven() -> None:
    shipped = read_profiles()

    assert {profile.app for profile in shipped.profiles} == set(APPLICATIONS)
    assert all(profile.private_bytes > 10 * MIB for profile in shipped.profiles)
    assert all(profile.step_cpu_s > 0 and profile.step_s > 0 for profile in shipped.profiles)


def test_the_picture_is_well_formed_and_names_the_bound() -> None:
    plan = make_plan(read_profiles(), {"calc": 1, "chromium": 1}, BIG)

    root = ElementTree.fromstring(svg_of(plan))

    texts = ["".join(element.itertext()) for element in root.iter() if element.tag.endswith("text")]
    assert f"{plan.desktops}: {plan.binds} bind" in texts
    assert str(plan.curve[-1].desktops) in texts


def test_the_verb_prints_the_plan_and_writes_the_picture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:

    picture = tmp_path / "curve.svg"
    verb = PlanVerb(
        ram="64G", cores=16, app_mix="calc=.5,chromium=.5", price_per_hour=0.5, picture=picture
    )

    assert verb.run() == 0

    told = capsys.readouterr().out
    assert "calc 0.5, chromium 0.5: " in told
    assert "a desktop-day" in told
    assert picture.read_text().startswith("<svg")


def test_measuring_one_application_keeps_what_was_measured_of_others_on_the_same_machine() -> None:
    old = read_profiles()
    new = msgspec.structs.replace(old, date="2030-01-01", profiles=old.profiles[:1])
    elsewhere = msgspec.structs.replace(new, machine="another one")

    kept = keep_others(old, new)

    assert {profile.app for profile in kept.profiles} == {profile.app for profile in old.profiles}
    assert kept.date == "2030-01-01"
    assert keep_others(old, elsewhere) == elsewhere


def test_no_profiles_say_how_to_measure_some(tmp_path: Path) -> None:

    with pytest.raises(PlanError, match="envs-node plan --measure"):
        read_profiles(tmp_path / "none.json")
