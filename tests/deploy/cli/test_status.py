"""What `envs-node status` shows, and when it calls everything well."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from envs_node.deploy.cli.main import main
from envs_node.deploy.cli.status import is_healthy, status_table
from envs_node.messages.base import ActorName, BranchId, DesktopId
from envs_node.messages.status import (
    DesktopReport,
    LeaseStatus,
    NodeReport,
    NodeStatus,
    Status,
)

WELL = NodeStatus(
    node="desk-0",
    role="desktop",
    url="",
    heard_ms=900,
    is_alive=True,
    report=NodeReport(
        desktops=(
            DesktopReport(desktop_id=DesktopId("desk-0-0"), state="working"),
            DesktopReport(desktop_id=DesktopId("desk-0-1"), state="idle"),
        ),
        queues=((ActorName("replay/desk-0-0"), 3),),
        restarts=2,
    ),
)
DEAD = msgspec.structs.replace(WELL, node="desk-1", is_alive=False, heard_ms=180_000)
STATUS = Status(
    head="h",
    version="1",
    run="night",
    nodes=(WELL,),
    leases=(
        LeaseStatus(
            branch_id=BranchId("t#2"), holder=ActorName("work/desk-0-0"), number=7, left_ms=12_340
        ),
    ),
    tasks=(("running", 2), ("solved", 1)),
    reassigned=4,
    refused=5,
)


def _text(status: Status, *, width: int = 160) -> str:
    console = Console(width=width, record=True, file=Path("/dev/null").open("w"))  # noqa: SIM115
    console.print(status_table(status))
    console.file.close()
    return console.export_text()


def test_the_table_tells_of_the_run_the_nodes_and_who_drives_what() -> None:
    text = _text(STATUS)

    assert "run night: tasks 2 running, 1 solved" in text
    assert "branches sent out again 4, given up 0; late reports refused 5" in text
    assert "1 idle, 1 working" in text
    assert "replay/desk-0-0 3" in text
    assert "12.3 s" in text
    assert is_healthy(STATUS)


def test_dead_degraded_and_paused_are_not_well_and_say_why() -> None:
    full = NodeReport(degraded=("0.40 GiB are free where /runs is: make room",))
    degraded = msgspec.structs.replace(WELL, report=full)
    dead = msgspec.structs.replace(STATUS, nodes=(WELL, DEAD))
    poor = msgspec.structs.replace(STATUS, nodes=(degraded,))
    paused = msgspec.structs.replace(STATUS, paused="no policy answers: start one")

    assert [is_healthy(status) for status in (dead, poor, paused)] == [False, False, False]
    assert "desk-1 was not heard for 3 min" in _text(dead)
    late = msgspec.structs.replace(STATUS, nodes=(msgspec.structs.replace(DEAD, report=full),))
    assert "desk-1 had said: 0.40 GiB are free" in _text(late)
    assert "desk-0: 0.40 GiB are free" in _text(poor)
    assert "paused: no policy answers" in _text(paused)


def test_eighty_columns_show_whole_addresses_and_what_is_done() -> None:
    policy = msgspec.structs.replace(
        WELL, node="policy-0", role="policy", url="tls+tcp://policy-0@a-host.example:7712"
    )
    trainer = msgspec.structs.replace(
        WELL, node="trainer", report=NodeReport(doing="a fit into /runs/night/policy, step 3 of 9")
    )
    dead = msgspec.structs.replace(DEAD, heard_ms=12_000)

    text = _text(msgspec.structs.replace(STATUS, nodes=(dead, policy, trainer)), width=80)

    assert "policy-0: at tls+tcp://policy-0@a-host.example:7712\n" in text
    assert "trainer: a fit into /runs/night/policy, step 3 of 9\n" in text
    assert "dead, 12 s" in text


def test_a_node_cannot_paint_on_the_terminal() -> None:
    evil = NodeReport(degraded=("\x1b[2J[bold red]gone[/]",))
    status = msgspec.structs.replace(
        STATUS, nodes=(msgspec.structs.replace(WELL, node="a\x07b", report=evil),)
    )

    text = _text(status)

    assert "\x07" not in text
    assert "?[2J[bold red]gone[/]" in text


def test_five_hundred_leases_are_not_all_shown() -> None:
    leases = tuple(
        msgspec.structs.replace(STATUS.leases[0], number=number) for number in range(500)
    )

    text = _text(msgspec.structs.replace(STATUS, leases=leases))

    assert "and 460 more" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "status of what? Give the folder of a run, or --head URL"),
        (["nowhere"], "no run can be looked at in nowhere: No such file or directory"),
        (["--head", "ftp://x"], "cannot use the address ftp://x"),
    ],
)
def test_a_status_of_nothing_is_refused_in_one_line(
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(SystemExit) as exit_:
        main(["status", *arguments])

    assert exit_.value.code == 2
    assert said in capsys.readouterr().err
