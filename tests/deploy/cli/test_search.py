"""`envs-node search --head`: where a client finds what it proves itself with."""

from pathlib import Path

import pytest

from envs_node.deploy.cli.search import client_folder


def test_a_run_known_by_its_name_is_commanded_from_where_all_clients_look() -> None:
    assert client_folder(Path("night")) == Path("runs")


def test_an_authority_beside_the_run_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("elsewhere/authority").mkdir(parents=True)

    assert client_folder(Path("elsewhere/night")) == Path("elsewhere")
