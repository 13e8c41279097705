"""The cache of task files: bytes by address, whole or not at all, for many at once."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs_node.deploy.tasks.cache import CacheError, DamagedFileError, FileCache, cache_folder

URL = "https://example.org/a/notes.txt"


def test_what_was_put_is_what_is_got(tmp_path: Path):
    cache = FileCache(tmp_path / "cache")

    entry = cache.put(URL, b"tea")

    assert cache.get(URL) == b"tea"
    assert entry.sha256 == hashlib.sha256(b"tea").hexdigest()
    assert cache.find(URL) == entry


def test_an_address_that_was_never_put_is_not_there(tmp_path: Path):
    assert FileCache(tmp_path / "cache").get(URL) is None
    assert not (tmp_path / "cache").exists()


def test_a_file_is_copied_in_and_stays_where_it_was(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"tea")
    cache = FileCache(tmp_path / "cache")

    cache.put_file(URL, path)

    assert cache.get(URL) == b"tea"
    assert path.read_bytes() == b"tea"


def test_the_same_bytes_of_two_addresses_are_kept_once(tmp_path: Path):
    cache = FileCache(tmp_path)

    cache.put(URL, b"tea")
    cache.put(f"{URL}?download=true", b"tea")

    assert len(list((tmp_path / "blobs").iterdir())) == 1


@pytest.mark.parametrize("damage", [b"TEA", b"te", b""])
def test_a_damaged_file_is_never_given_out(tmp_path: Path, damage: bytes):
    cache = FileCache(tmp_path)
    path = cache.blob(cache.put(URL, b"tea"))

    path.write_bytes(damage)

    if len(damage) == 3:
        with pytest.raises(DamagedFileError, match=r"notes\.txt is damaged"):
            cache.get(URL)
    else:
        assert cache.get(URL) is None
    assert cache.is_damaged(URL)
    cache.put(URL, b"tea")
    assert cache.get(URL) == b"tea"


def test_a_broken_index_is_like_a_file_that_is_not_there(tmp_path: Path):
    cache = FileCache(tmp_path)
    cache.put(URL, b"tea")
    (address,) = (tmp_path / "addresses").iterdir()

    address.write_bytes(b'{"url": 1')

    assert cache.find(URL) is None


def test_a_writer_that_fails_leaves_nothing_behind(tmp_path: Path):
    cache = FileCache(tmp_path)

    def write() -> None:
        with cache.writing(URL) as (sink, _):
            sink.write(b"te")
            raise ConnectionError("cut")

    with pytest.raises(ConnectionError):
        write()

    assert cache.find(URL) is None
    assert list((tmp_path / "blobs").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named_with_the_way_out(tmp_path: Path):
    (tmp_path / "cache").write_text("in the way", encoding="utf-8")

    with pytest.raises(CacheError, match="XDG_CACHE_HOME"):
        FileCache(tmp_path / "cache").put(URL, b"tea")


def test_many_writers_of_one_address_leave_one_whole_file(tmp_path: Path):
    contents = [bytes([number]) * 200_000 for number in range(8)]
    threads = [
        threading.Thread(target=FileCache(tmp_path).put, args=(URL, data)) for data in contents
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert FileCache(tmp_path).get(URL) in contents
    assert not [path for path in (tmp_path / "blobs").iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("value", ["", "relative/folder"])
def test_a_cache_folder_that_is_not_absolute_is_not_used(
    monkeypatch: pytest.MonkeyPatch, value: str
):
    monkeypatch.setenv("XDG_CACHE_HOME", value)

    assert cache_folder() == Path.home() / ".cache" / "envs-node" / "task-files"


@given(st.dictionaries(st.text(min_size=1), st.binary(max_size=50), max_size=5))
def test_every_address_gives_its_own_bytes(tmp_path_factory: pytest.TempPathFactory, kept):
    cache = FileCache(tmp_path_factory.mktemp("cache"))

    for url, data in kept.items():
        cache.put(url, data)

    assert {url: cache.get(url) for url in kept} == kept


def test_what_a_dead_writer_left_is_removed_after_a_day(tmp_path: Path):
    cache = FileCache(tmp_path)
    cache.put(URL, b"tea")
    for name, hours in ((".new-old", 25), (".new-young", 1)):
        path = tmp_path / "blobs" / name
        path.write_bytes(b"t")
        os.utime(path, (time.time() - hours * 3600,) * 2)

    assert cache.sweep() == 1
    assert cache.get(URL) == b"tea"
    assert (tmp_path / "blobs" / ".new-young").exists()


def test_a_disk_that_is_full_is_told_as_the_caches_and_leaves_nothing(tmp_path: Path):
    source = tmp_path / "large"
    source.write_bytes(bytes(1 << 16))
    limits, cache = resource.getrlimit(resource.RLIMIT_FSIZE), FileCache(tmp_path / "cache")
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, limits[1]))
    try:
        with pytest.raises(CacheError, match="cannot be used"):
            cache.put_file(URL, source)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)

    assert [path for path in cache.root.rglob("*") if path.is_file()] == []


def test_an_address_that_cannot_be_kept_leaves_nothing(tmp_path: Path):
    cache = FileCache(tmp_path)
    address = tmp_path / "addresses" / hashlib.sha256(URL.encode()).hexdigest()
    (address / "in the way").mkdir(parents=True)

    with pytest.raises(CacheError):
        cache.put(URL, b"tea")

    assert list(tmp_path.rglob(".new-*")) == []
