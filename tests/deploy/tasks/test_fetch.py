"""Fetching task files from a real server: its faults, and what is left in the cache."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from envs_node.deploy.cli.tasks_fetch import Fetch, FetchError
from envs_node.deploy.tasks.cache import CacheError, FileCache
from envs_node.deploy.tasks.fetch import Fetched, FetchLimits, fetch_files
from envs_node.deploy.tasks.seed import find_seeds
from tests.deploy.tasks.file_server import BODY, FileServer, serving
from tests.deploy.tasks.osworld_tree import HUB, write_task

LIMITS = FetchLimits(tries=3, silence_s=0.3, connect_s=2.0, file_s=5.0, pause_s=0.01)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving() as server:
        yield server


async def fetch(cache: FileCache, *urls: str, **changes: Any) -> tuple[Fetched, ...]:
    limits = msgspec.structs.replace(LIMITS, **changes)
    return await fetch_files(urls, cache, limits, lambda *_: None)


async def test_files_are_fetched_once_and_kept(tmp_path: Path, server: FileServer):
    cache, urls = FileCache(tmp_path), [server.url(f"whole/{name}") for name in "ab"]

    first = await fetch(cache, *urls, urls[0])
    second = await fetch(cache, *urls)

    assert [file.how for file in first] == ["fetched", "fetched"]
    assert [file.how for file in second] == ["kept", "kept"]
    assert [cache.get(url) for url in urls] == [BODY, BODY]
    assert server.asked == {"/whole/a": 1, "/whole/b": 1}


async def test_a_damaged_file_is_fetched_again(tmp_path: Path, server: FileServer):
    cache, url = FileCache(tmp_path), server.url("whole/a")
    await fetch(cache, url)
    entry = cache.find(url)
    assert entry is not None
    cache.blob(entry).write_bytes(BODY.upper())

    (file,) = await fetch(cache, url)

    assert file.how == "fetched"
    assert cache.get(url) == BODY


@pytest.mark.parametrize(
    ("path", "tries", "problem"),
    [
        ("missing/a", 1, "is not there (status 404)"),
        ("private/a", 1, "wants an account (status 401)"),
        ("loop/a", 1, "leads on more than 5 times"),
        ("inside/a", 1, "leads to what is no http address"),
        ("silent/a", 3, "sent nothing for 0.3 s"),
    ],
)
async def test_a_fault_is_told_leaves_nothing_and_hinders_no_other_file(
    tmp_path: Path, server: FileServer, path: str, tries: int, problem: str
):
    cache, bad, good = FileCache(tmp_path), server.url(path), server.url("whole/good")

    failed, fetched = await fetch(cache, bad, good)

    assert (failed.how, failed.tries) == ("failed", tries)
    assert failed.problem.startswith(problem)
    assert fetched.how == "fetched"
    assert cache.find(bad) is None
    assert len(list((tmp_path / "blobs").iterdir())) == 1


@pytest.mark.parametrize(("path", "tries"), [("busy/a", 3), ("cut/a", 2), ("moved/a", 1)])
async def test_what_passes_is_tried_again(
    tmp_path: Path, server: FileServer, path: str, tries: int
):
    cache, url = FileCache(tmp_path), server.url(path)

    (file,) = await fetch(cache, url)

    assert (file.how, file.tries) == ("fetched", tries)
    assert cache.get(url) == BODY


async def test_a_file_without_an_end_is_refused_at_its_limit(tmp_path: Path, server: FileServer):
    (file,) = await fetch(FileCache(tmp_path), server.url("endless/a"), file_bytes=100_000)

    assert file.problem == "is larger than 100000 bytes, which is taken"
    assert file.tries == 1


async def test_a_file_that_comes_too_slowly_ends_at_its_deadline(
    tmp_path: Path, server: FileServer
):
    (file,) = await fetch(FileCache(tmp_path), server.url("dribble/a"), file_s=0.3, tries=1)

    assert file.problem == "was not there within 0.3 s"


async def test_a_server_that_is_not_reached_is_not_asked_for_every_file(tmp_path: Path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        urls = [f"http://127.0.0.1:{closed.getsockname()[1]}/{number}" for number in range(6)]

        files = await fetch(FileCache(tmp_path), *urls, jobs=1)

    first, *others = sorted(files, key=lambda file: -file.tries)
    assert "is not reached" in first.problem
    assert [file.tries for file in others] == [0] * 5
    assert all("was not reached for other files" in file.problem for file in others)


@pytest.mark.parametrize("jobs", [1, 3])
async def test_no_more_files_are_fetched_at_once_than_was_said(
    tmp_path: Path, server: FileServer, jobs: int
):
    server.hold_s = 0.03
    urls = [server.url(f"whole/{number}") for number in range(9)]

    await fetch(FileCache(tmp_path), *urls, jobs=jobs)

    assert server.most == jobs


async def test_a_cache_that_cannot_be_written_ends_the_fetch(tmp_path: Path, server: FileServer):
    (tmp_path / "cache").write_text("in the way", encoding="utf-8")

    with pytest.raises(CacheError):
        await fetch(FileCache(tmp_path / "cache"), *(server.url(f"whole/{n}") for n in range(3)))


def _task_json(tree: Path) -> Any:
    return json.loads(write_task(tree, "os", "a").read_text(encoding="utf-8"))


@pytest.mark.parametrize("place", ["hub.example.org/files/a/in.txt", "files/a/in.txt", "a/in.txt"])
def test_a_copy_of_the_hubs_folder_is_found(tmp_path: Path, place: str):
    copy = tmp_path / "copy" / place
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b"in")

    found, missing = find_seeds("a", _task_json(tmp_path), tmp_path / "copy")

    assert (found.url, found.file) == (f"{HUB}/a/in.txt", copy)
    assert missing.file is None


def test_a_name_alone_is_no_address(tmp_path: Path):
    (tmp_path / "in.txt").write_bytes(b"of another task")

    assert find_seeds("a", _task_json(tmp_path / "tree"), tmp_path)[0].file is None


def test_osworlds_own_cache_and_another_of_ours_are_read(tmp_path: Path):
    task = _task_json(tmp_path / "tree")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "gold.txt").write_bytes(b"gold")
    FileCache(tmp_path).put(f"{HUB}/a/in.txt", b"in")

    files = [seed.file for seed in find_seeds("a", task, tmp_path)]

    assert [file.read_bytes() for file in files if file] == [b"in", b"gold"]


def test_a_folder_fills_the_cache_and_what_it_lacks_is_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write_task(tmp_path, "os", "a")
    copy = tmp_path / "copy" / "a"
    copy.mkdir(parents=True)
    (copy / "in.txt").write_bytes(b"in")
    verb = Fetch(tree=tmp_path, source=tmp_path / "copy", cache=tmp_path / "cache")

    first = verb.run()
    (copy / "gold.txt").write_bytes(b"gold")
    second = verb.run()

    assert (first, second) == (1, 0)
    assert FileCache(tmp_path / "cache").get(f"{HUB}/a/gold.txt") == b"gold"
    assert f"{HUB}/a/gold.txt has no copy in" in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path):
    write_task(tmp_path, "os", "a")

    with pytest.raises(FetchError, match="is no folder"):
        Fetch(tree=tmp_path, source=tmp_path / "none", cache=tmp_path / "cache").run()


def test_a_tree_is_fetched_from_its_server(tmp_path: Path, server: FileServer):
    task = json.loads(write_task(tmp_path, "os", "a").read_text(encoding="utf-8"))
    task["config"][0]["parameters"]["files"][0]["url"] = server.url("whole/in.txt")
    task["evaluator"]["expected"]["path"] = server.url("missing/gold.txt")
    write_task(tmp_path, "os", "a", **task)

    status = Fetch(tree=tmp_path, cache=tmp_path / "cache").run()

    assert status == 1
    assert FileCache(tmp_path / "cache").get(server.url("whole/in.txt")) == BODY


@pytest.mark.parametrize("host", ["[", "[x]", "a..b", "a" * 300])
async def test_an_address_that_is_none_hinders_no_other_file(
    tmp_path: Path, server: FileServer, host: str
):
    cache, good = FileCache(tmp_path), server.url("whole/a")

    bad, fetched = await fetch(cache, f"http://{host}/a", good)

    assert (bad.how, fetched.how) == ("failed", "fetched")
    assert "no http address" in bad.problem


async def test_a_pause_that_is_no_number_is_not_kept(tmp_path: Path, server: FileServer):
    (file,) = await fetch(FileCache(tmp_path), server.url("odd_pause/a"))

    assert (file.how, file.tries) == ("failed", 3)
    assert "status 503" in file.problem


async def test_a_fetch_that_is_stopped_leaves_nothing_behind(tmp_path: Path, server: FileServer):
    cache = FileCache(tmp_path)
    with trio.fail_after(30), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: fetch(cache, server.url("silent/a"), silence_s=20.0))
            while not _unfinished(tmp_path):  # noqa: ASYNC110 - the file is written in a thread
                await trio.sleep(0.01)
            scope.cancel()

    assert not _unfinished(tmp_path)


def _unfinished(folder: Path) -> list[Path]:
    return list(folder.rglob(".new-*"))
