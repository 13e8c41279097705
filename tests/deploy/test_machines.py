"""The desktop role over a machine that runs OSWorld's server: reset, driven and judged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio

from envs_node.actors.desktop.launcher import Launcher
from envs_node.actors.post import Post
from envs_node.actors.verifier.vocabulary import read_checker
from envs_node.deploy.checker import checker_folder
from envs_node.deploy.config import Config, ConfigError, DesktopSettings, check_config
from envs_node.deploy.machines import Machines, make_desktops
from envs_node.deploy.slots import Desktops
from envs_node.deploy.tasks.bundle import bundled_tasks
from envs_node.messages.base import ActorName, DesktopId, RunId
from envs_node.messages.desktop import Configure, Configured, Reset, ResetDone
from envs_node.messages.verify import Verified, Verify
from tests.actors.desktop.machines import BridgedMachine

D0 = DesktopId("n-0")


@pytest.fixture
def bridged() -> Iterator[BridgedMachine]:
    """A machine, and how it is reverted."""
    with Launcher() as launcher:
        bridged = BridgedMachine(launcher)
        yield bridged
        bridged.close()


@pytest.mark.live
async def test_a_machine_is_reset_and_judged_like_any_desktop(bridged: BridgedMachine):
    task = next(t for t in bundled_tasks("train", 1) if t.apps == ("mousepad",))
    settings = DesktopSettings(
        backend="osworld-http",
        machines=(str(bridged.address),),
        revert_command=bridged.revert_command,
    )
    post = Post(RunId("test"))
    role = make_desktops(post, settings, read_checker(checker_folder()), node="n")
    answers = []

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            await nursery.start(role.child().start)
            desktop = post.ref(ActorName("desktop/n-0"), sender=ActorName("test"))
            verifier = post.ref(ActorName("verifier/n-0"), sender=ActorName("test"))
            answers.append(await desktop.ask(Configure(desktop_id=D0, task=task), timeout_s=60))
            answers.append(await desktop.ask(Reset(desktop_id=D0, episode=1), timeout_s=90))
            verify = Verify(verify_id="v", task=task, guest_pid=0, last_action="DONE")
            answers.append(await verifier.ask(verify, timeout_s=90))
            nursery.cancel_scope.cancel()

    configured, reset, judged = answers
    assert isinstance(configured, Configured)
    assert isinstance(reset, ResetDone), reset
    assert (reset.guest_pid, reset.can_fork) == (0, False)
    assert reset.observation.signature.boxes
    assert isinstance(judged, Verified)
    assert (judged.verdict.verdict, judged.verdict.score) == ("failure", 0.0), judged
    assert bridged.reverts == 1


def test_the_backend_chooses_the_role():
    checker = read_checker(checker_folder())
    remote = DesktopSettings(backend="osworld-http", machines=("http://10.0.0.7:5000",))

    made = make_desktops(Post(RunId("t")), remote, checker, node="n")
    usual = make_desktops(Post(RunId("t")), DesktopSettings(), checker, node="n")

    assert isinstance(made, Machines)
    assert isinstance(usual, Desktops)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"machines": ("http://a:1",)}, 'need desktop.backend = "osworld-http"'),
        ({"backend": "osworld-http"}, "desktop.machines is empty"),
        ({"backend": "osworld-http", "machines": ("a:5000",)}, "write http://HOST:PORT"),
        ({"backend": "osworld-http", "machines": ("http://a:1", "http://a:1")}, "names one twice"),
        (
            {"backend": "osworld-http", "machines": ("http://a:1",), "record": True},
            "desktop.record is for desktops of this host",
        ),
    ],
)
def test_settings_of_machines_that_make_no_sense_are_refused(settings, reason):
    with pytest.raises(ConfigError, match=reason):
        check_config(Config(desktop=DesktopSettings(**settings)))
