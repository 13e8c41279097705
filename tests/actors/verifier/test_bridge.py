"""The checker judges a machine that is elsewhere, and reaches that one server alone."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from envs_node.actors.verifier.checker import Checker, Door
from envs_node.actors.verifier.vocabulary import CheckerSource
from tests.actors.verifier.conftest import OVERLAID, OVERLAY
from tests.actors.verifier.guest import Handler


class Elsewhere:
    """A machine's server on a port of this host. Wants a token if it has one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[tuple[str, str]] = []
        machine = self

        class Machine(Handler):
            def handle_one_request(self) -> None:
                self.folder = machine.folder
                super().handle_one_request()

            def parse_request(self) -> bool:
                is_one = super().parse_request()
                if is_one:
                    machine.asked.append((self.path, self.headers.get("Authorization", "")))
                return is_one

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Machine)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.door = Door("127.0.0.1", self._server.server_address[1], "Zx9-secret")

    def write(self, text: bytes) -> None:
        """Put the file there that the task asks for."""
        path = self.folder / "home/user/a.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    """A machine, closed in the end."""
    elsewhere = Elsewhere(tmp_path)
    yield elsewhere
    elsewhere.close()


@pytest.fixture
def judge(source: CheckerSource, elsewhere: Elsewhere) -> Iterator[Checker]:
    """A checker of that machine."""
    overlay = dict.fromkeys(OVERLAID, OVERLAY)
    checker = Checker(source, verdict_s=10.0, overlay=overlay, find_door=lambda: elsewhere.door)
    yield checker
    checker.close()


def test_a_machine_elsewhere_is_judged_by_what_is_on_it(judge, elsewhere, make_task):
    elsewhere.write(b"right\n")
    right = judge.verify(make_task(), 0, "DONE")
    elsewhere.write(b"wrong\n")
    wrong = judge.verify(make_task(), 0, "DONE")

    assert (right.verdict, right.score) == ("success", 1.0), right.reason
    assert (wrong.verdict, wrong.score) == ("failure", 0.0), wrong.reason
    assert {token for _, token in elsewhere.asked} == {"Bearer Zx9-secret"}
    assert b"Zx9" not in repr((right, wrong)).encode()


def test_a_machine_elsewhere_that_is_gone_is_infra(judge, elsewhere, make_task):
    elsewhere.close()

    verdict = judge.verify(make_task(), 0, "DONE")

    assert verdict.verdict == "infra"
    assert verdict.reason.startswith("GET /terminal got no answer: ")


def test_who_judges_a_machine_elsewhere_is_nobody_and_reaches_nothing_of_this_host(
    judge, elsewhere, make_task
):
    elsewhere.write(b"right\n")
    port = elsewhere.door.port

    nobody = judge.verify(make_task(func="who", expected=None), 0, "DONE")
    alone = judge.verify(
        make_task(func="alone", expected=None, options={"host_port": port}), 0, "DONE"
    )

    assert nobody.verdict == "success", nobody.reason
    assert alone.verdict == "success", alone.reason
