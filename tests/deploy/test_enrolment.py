"""A node with a join token gets a certificate from a head, over real sockets; others do not."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import structlog
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envs_node.actors.address import AddressError, UntrustedError
from envs_node.actors.loop import run_actor
from envs_node.actors.mailbox import Ref
from envs_node.actors.nng import NngLinks, open_links, serve
from envs_node.actors.post import Post
from envs_node.actors.refusals import Refusals
from envs_node.actors.tls import AUTHORITY, STRANGER, Security
from envs_node.deploy.authority import Authority
from envs_node.deploy.certificates import LIFETIME_S, read_certificate
from envs_node.deploy.config import ConfigError, LinkSettings
from envs_node.deploy.credentials import own_key, read_present
from envs_node.deploy.enrolment import EnrolError, EnrolmentActor, enrol, keep_certified
from envs_node.deploy.links import HeadSecurity, open_links_to, secure_node
from envs_node.deploy.signing import make_key, make_request
from envs_node.deploy.tokens import JoinToken, TokenError
from envs_node.messages.base import ActorName, Envelope, MessageId, RunId
from envs_node.messages.enrol import Authority as AuthorityIs
from envs_node.messages.enrol import Enrol, EnrolFailed, Enrolled, FetchAuthority
from envs_node.messages.search import Idle, WorkWanted
from tests.actors.node_process import EchoActor

ECHO = ActorName("echo")
ASK = WorkWanted(worker=ECHO)
ENVIRONMENT = "ENVS_NODE_TOKEN"


class Head:
    """What a head does with its security, and an echo actor."""

    def __init__(self, root: Path) -> None:
        self.secured = HeadSecurity(root, "box-head", Refusals())
        self.authority = Authority.open(root, time.time())
        self.post = Post(RunId("r"))
        self.url = ""

    def token(self, uses: int = 1) -> JoinToken:
        """A token of this head."""
        return self.authority.create_token(uses=uses, hours=1, now_s=time.time())

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Listen."""

        async def serving(*, task_status: trio.TaskStatus[str]) -> None:
            where, own = "tls+tcp://127.0.0.1:0", self.secured
            await serve(
                self.post.deliver,
                where,
                security=own.security,
                peers=own.peers,
                task_status=task_status,
            )

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                await nursery.start(run_actor, EchoActor(), ECHO, self.post)
                await nursery.start(self.secured.run, self.post)
                self.url = await nursery.start(serving)
                yield
                nursery.cancel_scope.cancel()

    async def ask(self, security: Security) -> object:
        """Ask the echo actor as this node."""
        async with open_links(security=security) as links:
            return await ref(links, self.url, f"work/{security.node}-0").ask(ASK, timeout_s=5)


def ref(links: NngLinks, url: str, sender: str) -> Ref:
    post = Post(RunId("r"))
    post.add_route("", links.to(url))
    return post.ref(ECHO, sender=ActorName(sender))


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Head:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    return Head(tmp_path / "runs")


def _fails(kind: type[Exception], match: str) -> pytest.RaisesGroup[Exception]:
    return pytest.RaisesGroup(
        pytest.RaisesExc(kind, match=match), flatten_subgroups=True, allow_unwrapped=True
    )


async def test_a_node_with_a_token_gets_a_certificate_and_is_answered(
    head: Head, tmp_path: Path
) -> None:
    token = head.token()
    with structlog.testing.capture_logs() as logs:
        async with head.open():
            own = await enrol(head.url, node="gpu-0", tls_folder=tmp_path / "tls", token=token)
            answer = await head.ask(own)

    assert isinstance(answer, Idle)
    assert [log["event"] for log in logs] == ["node.enrolled"]
    assert stat.S_IMODE((tmp_path / "tls" / "key.pem").stat().st_mode) == 0o600
    assert token.secret not in str(logs)


async def test_a_lost_answer_is_given_again_and_spends_nothing(head: Head, tmp_path: Path) -> None:
    token, tls = head.token(), tmp_path / "tls"
    async with head.open():
        for _ in range(2):
            await enrol(head.url, node="gpu-0", tls_folder=tls, token=token)
            (tls / "node.pem").rename(tls / "kept.pem")

    assert len(head.authority.tokens.records()[0].used) == 1


async def test_a_replayed_token_is_refused_and_told_of_once(head: Head, tmp_path: Path) -> None:
    token = head.token()
    with structlog.testing.capture_logs() as logs:
        async with head.open():
            await enrol(head.url, node="gpu-0", tls_folder=tmp_path / "a", token=token)
            for _ in range(3):
                with _fails(EnrolError, "let gpu-1 in: the join token .* is spent"):
                    await enrol(head.url, node="gpu-1", tls_folder=tmp_path / "b", token=token)

    refused = [log for log in logs if log["event"] == "peer.refused"]
    assert [log["peer"] for log in refused] == ["gpu-1"]
    assert token.secret not in str(logs)


async def test_a_wrong_token_is_refused(head: Head, tmp_path: Path) -> None:
    wrong = JoinToken(head.authority.digest, head.token().id, "x" * 32)
    async with head.open():
        with _fails(EnrolError, "no such join token"):
            await enrol(head.url, node="gpu-0", tls_folder=tmp_path / "tls", token=wrong)

    assert not (tmp_path / "tls" / "node.pem").exists()


async def test_to_another_authority_nothing_is_sent(head: Head, tmp_path: Path) -> None:
    other = Authority.open(tmp_path / "other", time.time())
    token = other.create_token(uses=1, hours=1, now_s=time.time())
    with structlog.testing.capture_logs() as logs:
        async with head.open():
            with _fails(EnrolError, "is not the one that made the join token .*: nothing was sent"):
                await enrol(head.url, node="gpu-0", tls_folder=tmp_path / "tls", token=token)

    assert not logs, "a token that is shown to a head that does not know it is logged there"
    assert not (tmp_path / "tls").exists()


async def test_a_name_whose_node_is_here_is_refused_to_another_key(
    head: Head, tmp_path: Path
) -> None:
    token = head.token(uses=5)
    async with head.open():
        own = await enrol(head.url, node="gpu-0", tls_folder=tmp_path / "a", token=token)
        await head.ask(own)
        with _fails(EnrolError, "a node named gpu-0 is here already, with another key"):
            await enrol(head.url, node="gpu-0", tls_folder=tmp_path / "b", token=token)
        with _fails(EnrolError, "a node named box-head is here already"):
            await enrol(head.url, node="box-head", tls_folder=tmp_path / "c", token=token)


async def test_a_restarted_node_needs_no_token(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with head.open():
        link = LinkSettings(head=head.url)
        with pytest.raises(ConfigError, match="put a join token, by `envs-node token create`"):
            await secure_node(link, "gpu-0", folder=tmp_path / "far")
        monkeypatch.setenv(ENVIRONMENT, head.token().text)
        first = await secure_node(link, "gpu-0", folder=tmp_path / "far")
        monkeypatch.setenv(ENVIRONMENT, head.token().text)
        again = await secure_node(link, "gpu-0", folder=tmp_path / "far")
        bare = await secure_node(link, "gpu-0", folder=tmp_path / "far")

        assert first == again == bare
        assert bare is not None
        assert isinstance(await head.ask(bare), Idle)


async def test_a_token_may_come_in_a_file(head: Head, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(head.token().text + "\n")
    async with head.open():
        link = LinkSettings(head=head.url, token_file=str(tmp_path / "token"))
        assert await secure_node(link, "gpu-0", folder=tmp_path / "far")
        with pytest.raises(TokenError, match="No such file"):
            await secure_node(
                LinkSettings(head=head.url, token_file="none"), "gpu-1", folder=tmp_path / "far"
            )


async def test_a_client_that_can_read_the_authority_needs_no_token(
    head: Head, tmp_path: Path
) -> None:
    async with head.open(), open_links_to(head.url, folder=tmp_path / "runs") as links:
        answer = await ref(links, head.url, "client").ask(ASK, timeout_s=5)

    assert isinstance(answer, Idle)


async def test_a_node_of_a_head_that_was_made_anew_is_told_so(head: Head, tmp_path: Path) -> None:
    old = Authority.open(tmp_path / "old", time.time())
    old.equip("gpu-0", tmp_path / "far" / "gpu-0" / "tls", now_s=time.time())
    async with head.open():
        with pytest.raises(UntrustedError, match="the join token of another head"):
            await secure_node(LinkSettings(head=head.url), "gpu-0", folder=tmp_path / "far")


async def test_a_node_waits_for_a_head_that_is_not_there_yet(head: Head, tmp_path: Path) -> None:
    done: list[Security | None] = []
    async with head.open():
        url = head.url

    async def join() -> None:
        link = LinkSettings(head=url)
        done.append(await secure_node(link, "gpu-0", folder=tmp_path / "runs"))

    with structlog.testing.capture_logs() as logs, trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(join)
            while not logs:
                await trio.lowlevel.checkpoint()
            again = Head(tmp_path / "runs")
            nursery.start_soon(_serve_at, again, url, nursery.cancel_scope, done)

    assert logs[0]["event"] == "head.missed"
    assert done[0] is not None


async def _serve_at(
    head: Head, url: str, scope: trio.CancelScope, done: list[Security | None]
) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(head.secured.run, head.post)

        async def serving() -> None:
            own = head.secured
            await serve(head.post.deliver, url, security=own.security, peers=own.peers)

        nursery.start_soon(serving)
        while not done:
            await trio.lowlevel.checkpoint()
        scope.cancel()


async def test_a_node_renews_its_certificate_by_itself(head: Head, tmp_path: Path) -> None:
    tls = tmp_path / "gpu-0" / "tls"
    own = head.authority.equip("gpu-0", tls, now_s=time.time() - 0.8 * LIFETIME_S)
    old = read_present(tls)
    assert old is not None
    async with head.open(), open_links(security=own) as links, trio.open_nursery() as nursery:
        post = Post(RunId("r"))
        post.add_route(AUTHORITY, links.to(head.url))
        nursery.start_soon(keep_certified, post, "gpu-0", tls)
        while read_present(tls) == old:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()

    new = read_present(tls)
    assert new is not None
    assert (new.key_digest, new.is_fresh(time.time())) == (old.key_digest, True)


async def test_a_secure_address_needs_a_secure_head_and_the_other_way_round(
    head: Head, tmp_path: Path
) -> None:
    plain = LinkSettings(head="tcp://127.0.0.1:1", listen="tls+tcp://0.0.0.0:0")
    with pytest.raises(ConfigError, match=r"which a head at .* cannot give"):
        await secure_node(plain, "p", folder=tmp_path, listens=True)
    far = LinkSettings(head="tls+tcp://far.lan:1", listen="tcp://127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"cannot reach .*: give --listen tls\+tcp"):
        await secure_node(far, "p", folder=tmp_path, listens=True)
    async with head.open():
        with pytest.raises(UntrustedError, match=r"if it encrypts, write tls\+tcp"):
            await secure_node(
                LinkSettings(head=head.url.removeprefix("tls+")), "p", folder=tmp_path
            )


async def test_a_client_gives_up_where_no_head_is(tmp_path: Path, autojump_clock: object) -> None:
    del autojump_clock  # no socket of ours is waited on: the probe is a thread
    Authority.open(tmp_path, time.time())
    with _fails(AddressError, "no head answers there; is `envs-node start --role head` running"):
        async with open_links_to("tls+tcp://127.0.0.1:9", folder=tmp_path):
            pass


def _envelope(message: Enrol | FetchAuthority, sender: str) -> Envelope[Enrol | FetchAuthority]:
    return Envelope(
        id=MessageId("m"),
        sender=ActorName(sender),
        to=AUTHORITY,
        run=RunId("r"),
        sequence=0,
        time_ns=0,
        message=message,
    )


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    node=st.text(max_size=100) | st.just("gpu-0"),
    request=st.binary(max_size=20_000) | st.just(make_request(make_key(), "gpu-0")),
    token=st.text(max_size=300),
    is_renewing=st.booleans(),
)
async def test_nothing_that_is_asked_of_the_authority_crashes_it(
    tmp_path: Path, node: str, request: bytes, token: str, is_renewing: bool
) -> None:
    actor = EnrolmentActor(Authority.open(tmp_path, time.time()), lambda name: True)
    asked = Enrol(node=node, request=request, token=token)
    actor.envelope = _envelope(asked, f"node/{node}" if is_renewing else STRANGER)

    with structlog.testing.capture_logs():
        answer = await actor.hear(asked)

    assert isinstance(answer, EnrolFailed)
    assert isinstance(await actor.hear(FetchAuthority()), AuthorityIs)


async def test_hundreds_of_refusals_keep_memory_and_log_bounded(tmp_path: Path) -> None:
    actor = EnrolmentActor(Authority.open(tmp_path, time.time()), lambda name: True)
    before = _resident_bytes()
    with structlog.testing.capture_logs() as logs:
        for number in range(400):
            asked = Enrol(node=f"{number}" * 50, request=os.urandom(5000), token="no")
            actor.envelope = _envelope(asked, STRANGER)
            await actor.hear(asked)

    assert len(logs) == 200
    assert _resident_bytes() - before < 20_000_000


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def test_what_is_signed_is_what_was_asked(tmp_path: Path) -> None:
    authority = Authority.open(tmp_path, time.time())
    token = authority.create_token(uses=1, hours=1, now_s=time.time())
    actor = EnrolmentActor(authority, lambda name: False)
    request = make_request(own_key(tmp_path / "tls"), "gpu-0")
    asked = Enrol(node="gpu-0", request=request, token=token.grant)
    actor.envelope = _envelope(asked, STRANGER)

    answer = await actor.hear(asked)

    assert isinstance(answer, Enrolled)
    assert read_certificate(answer.certificate).node == "gpu-0"
    assert token.secret not in str(msgspec.json.encode(answer))


@pytest.mark.slow
async def test_two_hundred_nodes_of_a_job_share_a_token(head: Head, tmp_path: Path) -> None:
    token = head.token(uses=200)
    joined: list[Security] = []

    async def join(number: int) -> None:
        name = f"gpu-{number}"
        joined.append(await enrol(head.url, node=name, tls_folder=tmp_path / name, token=token))

    async with head.open():
        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(join, number)
        with _fails(EnrolError, "is spent: it was good for 200 nodes"):
            await join(200)
        answer = await head.ask(joined[-1])

    assert isinstance(answer, Idle)
    assert len(head.authority.tokens.records()[0].used) == 200
