"""Every application comes up with its own window and no other, twice the same."""

from __future__ import annotations

import pytest

from envs_node.actors.desktop.sandbox import Sandbox
from tests.actors.desktop.applications import APPLICATIONS, Application
from tests.fakes_desktop import open_task

pytestmark = pytest.mark.live
QUICK = ("mousepad", "galculator", "eog")


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in APPLICATIONS
    ],
)
def test_an_application_opens_its_window_and_no_other_twice_the_same(
    sandbox: Sandbox, name: str
) -> None:
    application = APPLICATIONS[name]

    starts, ends = [], []
    for _ in range(2):
        starts.append(sandbox.reset(open_task(*application.argv, files=application.files)))
        ends.append(sandbox.act(application.act))

    for seen in (*starts, *ends):
        assert seen.settled
        assert unknown(application, seen.signature.windows) == []
    assert starts[0].signature.windows == application.windows
    assert ends[0].signature.frame != starts[0].signature.frame
    for first, second in (starts, ends):
        assert first.signature.windows == second.signature.windows
        assert first.signature.frame == second.signature.frame


def unknown(application: Application, titles: tuple[str, ...]) -> list[str]:
    """The windows that are none of this application's own."""
    return [title for title in titles if title not in application.known]
