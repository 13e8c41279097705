"""Fetches what tasks download into the cache, where there is a network; each file for itself."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import httpx2
import msgspec
import trio

from envs_node.deploy.tasks.cache import CacheError, FileCache

_REDIRECTS_MAX = 5
_UNREACHED_MAX = 3
"""Failed calls to a server that never answered, after which its other files are not tried."""
_PAUSE_S_MAX = 30.0
_WORTH_ANOTHER = frozenset({408, 425, 429, 500, 502, 503, 504})
_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "envs-node"}
Tell: TypeAlias = Callable[["Fetched", int, int], None]


class FetchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a fetch may use."""

    jobs: int = 4
    """Files at once."""
    tries: int = 3
    """For each file."""
    file_bytes: int = 512 << 20
    file_s: float = 600.0
    """For one try of one file."""
    connect_s: float = 10.0
    """How long a server may take to answer the call."""
    silence_s: float = 30.0
    """How long it may take to send the next byte."""
    pause_s: float = 0.5
    """Before the second try; doubled before each further one."""


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one address."""

    url: str
    how: Literal["kept", "fetched", "failed"]
    """`kept`: it was in the cache."""
    problem: str = ""
    size_bytes: int = 0
    tries: int = 0


class _FileFailedError(Exception):
    """One try did not succeed."""

    def __init__(self, problem: str, *, is_final: bool, wait_s: float = 0.0) -> None:
        super().__init__(problem)
        self.is_final = is_final
        self.wait_s = wait_s


async def fetch_files(
    urls: Iterable[str], cache: FileCache, limits: FetchLimits, tell: Tell
) -> tuple[Fetched, ...]:
    """Fetch what the cache lacks, or has damaged; one that fails hinders no other.

    Args:
        urls: addresses, each once.
        cache: where they go.
        limits: files at once, tries, sizes and times.
        tell: called after each file with it, how many are done, and how many there are.

    Raises:
        CacheError: the cache cannot be written.
    """
    wanted = tuple(dict.fromkeys(urls))
    done: dict[str, Fetched] = {}
    turns = trio.CapacityLimiter(limits.jobs)
    cache.sweep()
    timeout = httpx2.Timeout(limits.silence_s, connect=limits.connect_s, pool=None)
    with httpx2.Client(
        follow_redirects=True, max_redirects=_REDIRECTS_MAX, timeout=timeout, headers=_HEADERS
    ) as client:
        fetcher = _Fetcher(client, cache, limits)

        async def fetch(url: str) -> None:
            async with turns:
                done[url] = await fetcher.fetch(url)
                tell(done[url], len(done), len(wanted))

        try:
            async with trio.open_nursery() as nursery:
                for url in wanted:
                    nursery.start_soon(fetch, url)
        except* CacheError as group:
            raise group.exceptions[0] from None
        finally:
            fetcher.stop()
    return tuple(done[url] for url in wanted)


class _Fetcher:
    def __init__(self, client: httpx2.Client, cache: FileCache, limits: FetchLimits) -> None:
        self._client = client
        self._cache = cache
        self._limits = limits
        self._unreached: Counter[str] = Counter()
        self._reached: set[str] = set()
        self._lock = threading.Lock()
        self._is_stopped = False
        self._writing: set[Path] = set()

    def stop(self) -> None:
        """Remove what downloads that were given up have written; they write no more."""
        with self._lock:
            self._is_stopped = True
            for path in self._writing:
                path.unlink(missing_ok=True)

    def _note(self, path: Path) -> None:
        with self._lock:
            if self._is_stopped:
                path.unlink(missing_ok=True)
            self._writing.add(path)

    async def fetch(self, url: str) -> Fetched:
        entry = self._cache.find(url)
        if entry and not await trio.to_thread.run_sync(self._cache.is_damaged, url):
            return Fetched(url=url, how="kept", size_bytes=entry.size_bytes)
        try:
            host = urlsplit(url).netloc
        except ValueError as error:
            return Fetched(url=url, how="failed", problem=f"is no http address ({error})")
        problem = ""
        for number in range(self._limits.tries):
            if host not in self._reached and self._unreached[host] >= _UNREACHED_MAX:
                problem = problem or f"{host} was not reached for other files"
                return Fetched(url=url, how="failed", problem=problem, tries=number)
            try:
                size_bytes = await trio.to_thread.run_sync(
                    self._try, url, host, abandon_on_cancel=True
                )
            except _FileFailedError as error:
                problem = str(error)
                if error.is_final:
                    return Fetched(url=url, how="failed", problem=problem, tries=number + 1)
                if number + 1 < self._limits.tries:
                    await trio.sleep(
                        min(error.wait_s or self._limits.pause_s * 2**number, _PAUSE_S_MAX)
                    )
            else:
                return Fetched(url=url, how="fetched", size_bytes=size_bytes, tries=number + 1)
        return Fetched(url=url, how="failed", problem=problem, tries=self._limits.tries)

    def _try(self, url: str, host: str) -> int:
        """Fetch once; the size. Raises `_FileFailedError`."""
        try:
            return self._download(url, host, time.monotonic() + self._limits.file_s)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            self._unreached[host] += 1
            problem = f"{host} is not reached ({error or type(error).__name__})"
            raise _FileFailedError(problem, is_final=False) from error
        except httpx2.TooManyRedirects:
            problem = f"leads on more than {_REDIRECTS_MAX} times"
            raise _FileFailedError(problem, is_final=True) from None
        except (httpx2.UnsupportedProtocol, httpx2.InvalidURL, ValueError) as error:
            # ValueError: a host that no name server could be asked for
            problem = f"leads to what is no http address ({error})"
            raise _FileFailedError(problem, is_final=True) from error
        except httpx2.TimeoutException:
            problem = f"sent nothing for {self._limits.silence_s:g} s"
            raise _FileFailedError(problem, is_final=False) from None
        except httpx2.HTTPError as error:
            problem = f"broke off ({error or type(error).__name__})"
            raise _FileFailedError(problem, is_final=False) from error

    def _download(self, url: str, host: str, deadline: float) -> int:
        size_bytes = 0
        with self._client.stream("GET", url) as answer:
            self._reached.add(host)
            if answer.status_code != httpx2.codes.OK:
                raise _refused(answer)
            with self._cache.writing(url) as (sink, path):
                self._note(path)
                for piece in answer.iter_bytes():
                    if self._is_stopped:
                        raise _FileFailedError("was given up", is_final=True)
                    size_bytes += len(piece)
                    if size_bytes > self._limits.file_bytes:
                        problem = f"is larger than {self._limits.file_bytes} bytes, which is taken"
                        raise _FileFailedError(problem, is_final=True)
                    if time.monotonic() > deadline:
                        problem = f"was not there within {self._limits.file_s:g} s"
                        raise _FileFailedError(problem, is_final=False)
                    sink.write(piece)
        return size_bytes


def _refused(answer: httpx2.Response) -> _FileFailedError:
    """What an answer other than 200 means."""
    status = answer.status_code
    meaning = {401: "wants an account", 403: "is forbidden", 404: "is not there"}.get(status, "")
    problem = f"{meaning} (status {status})" if meaning else f"was answered with status {status}"
    wait = answer.headers.get("Retry-After", "")
    return _FileFailedError(
        problem,
        is_final=status not in _WORTH_ANOTHER,
        wait_s=float(wait) if wait.isascii() and wait.isdigit() else 0,
    )
