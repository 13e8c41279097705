"""Who may say what over `tls+tcp`: each kind of intruder is refused, and nobody else notices."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pynng
import pytest
import structlog
import trio
from hypothesis import given
from hypothesis import strategies as st

from envs_node.actors.address import AddressError, UntrustedError
from envs_node.actors.knock import knock
from envs_node.actors.mailbox import ActorCrashedError
from envs_node.actors.nng import open_links, serve
from envs_node.actors.post import Post
from envs_node.actors.sockets import failed_handshakes, listening, relisten
from envs_node.actors.tls import AUTHORITY, STRANGER, Peers, Security, sender_belongs
from envs_node.deploy.authority import Authority
from envs_node.deploy.certificates import read_request
from envs_node.deploy.credentials import own_key
from envs_node.deploy.signing import make_request, sign
from envs_node.messages import codec
from envs_node.messages.base import WIRE_BYTES_MAX, ActorName, Message, RunId
from envs_node.messages.enrol import FetchAuthority
from envs_node.messages.lifecycle import ActorFailed, Join, JoinFailed
from envs_node.messages.search import Idle, Tick, WorkerFreed, WorkWanted
from tests.actors.secure_world import ECHO, TLS, World, dial_at_last, until

ASK = WorkWanted(worker=ECHO)


def refusals(logs: list[structlog.typing.EventDict]) -> list[structlog.typing.EventDict]:
    return [log for log in logs if log["event"].endswith(".refused")]


def encoded(message: Message, sender: str, to: str = ECHO) -> bytes:
    post = Post(RunId("r"))
    return codec.encode(post.envelope(message, sender=ActorName(sender), to=ActorName(to)))


async def knocked(url: str, security: Security | None, request: bytes) -> Message | bytes | None:
    """What is answered: decoded, where it is an envelope."""
    answer = await knock(url, security, request)
    if answer is None or len(answer) < 3:
        return answer
    return codec.decode(answer).message if answer[0] > 2 else answer


async def test_a_node_with_a_certificate_is_answered(tmp_path: Path) -> None:
    world = World(tmp_path)
    with structlog.testing.capture_logs() as logs:
        async with world.open(), open_links(security=world.node("gpu-0")) as links:
            answer = await world.ref(links, "work/gpu-0-3").ask(ASK, timeout_s=10)

    assert isinstance(answer, Idle)
    assert not refusals(logs)


@pytest.mark.parametrize(
    "sender", ["head", "ledger", "scheduler", "search/t-0", "work/gpu-1-0", "node/gpu-1"]
)
async def test_a_node_may_not_speak_as_another_or_as_the_head(tmp_path: Path, sender: str) -> None:
    world = World(tmp_path)
    with structlog.testing.capture_logs() as logs:
        async with world.open(), open_links(security=world.node("gpu-0")) as links:
            for _ in range(3):
                with pytest.raises(ActorCrashedError, match="that of gpu-0: it may not speak as"):
                    await world.ref(links, sender).ask(ASK, timeout_s=10)

    assert [log["event"] for log in refusals(logs)] == ["peer.refused"]
    assert refusals(logs)[0]["peer"] == "gpu-0"


async def test_a_node_may_not_join_as_another(tmp_path: Path) -> None:
    world = World(tmp_path)
    join = Join(node="gpu-1", role="desktop", url="", actors=(), version="1")
    async with world.open(), open_links(security=world.node("gpu-0")) as links:
        answer = await world.ref(links, "node/gpu-0").ask(join, timeout_s=10)

    assert isinstance(answer, JoinFailed)
    assert "may not come or go as gpu-1" in answer.reason


async def test_a_node_may_not_ask_for_the_work_of_another(tmp_path: Path) -> None:
    world = World(tmp_path)
    other = WorkWanted(worker=ActorName("work/gpu-1-0"))
    async with world.open(), open_links(security=world.node("gpu-0")) as links:
        with pytest.raises(ActorCrashedError, match="may not work as work/gpu-1-0"):
            await world.ref(links, "work/gpu-0-0").ask(other, timeout_s=10)


@pytest.mark.parametrize("said", [Tick(), WorkerFreed(worker=ActorName("work/gpu-1-0"))])
async def test_a_node_may_not_say_what_only_the_head_says(tmp_path: Path, said: Message) -> None:
    world = World(tmp_path)
    async with world.open(), open_links(security=world.node("gpu-0")) as links:
        with pytest.raises(ActorCrashedError, match=f"gpu-0: it may not say {type(said).__name__}"):
            await world.ref(links, "work/gpu-0-0").ask(said, timeout_s=10)


async def test_a_node_cannot_sign_for_others(tmp_path: Path) -> None:
    world = World(tmp_path)
    own = world.node("gpu-0")
    assert own.certificate is not None
    assert own.key is not None
    forged = sign(
        read_request(make_request(own_key(tmp_path / "forged"), "gpu-1")),
        names=("gpu-1",),
        certificate=own.certificate.read_bytes(),
        key=own.key.read_bytes(),
        now_s=time.time(),
    )
    chain = tmp_path / "forged" / "node.pem"
    chain.write_bytes(forged + own.certificate.read_bytes())
    liar = Security(
        node="gpu-1", authority=own.authority, certificate=chain, key=tmp_path / "forged/key.pem"
    )
    async with world.open():
        answer = await knocked(world.url, liar, encoded(ASK, "work/gpu-1-0"))

    assert isinstance(answer, ActorFailed)
    assert "its certificate is not one of ours" in answer.reason


async def test_a_stranger_is_told_to_enrol_and_logged_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    stranger = Security(node="x", authority=tmp_path / "own" / "authority.pem")
    with structlog.testing.capture_logs() as logs:
        async with world.open():
            for sender, to in [("work/x-0", ECHO), (STRANGER, ECHO), ("work/x-0", AUTHORITY)]:
                answer = await knocked(world.url, stranger, encoded(ASK, sender, to))
                assert isinstance(answer, ActorFailed)
                assert answer.reason == (
                    "refused: it has no certificate: it must enrol with a join token first"
                )
            allowed = await knocked(
                world.url, stranger, encoded(FetchAuthority(), STRANGER, AUTHORITY)
            )

    assert allowed == ActorFailed(to=AUTHORITY, reason="nobody of that name is here")
    assert [log["event"] for log in refusals(logs)] == ["peer.refused"]


async def test_a_foreign_certificate_is_refused_with_the_reason(tmp_path: Path) -> None:
    world = World(tmp_path / "ours")
    foreign = world.node("gpu-0", authority=Authority.open(tmp_path / "theirs", 1.79e9))
    liar = Security(
        node="gpu-0",
        authority=tmp_path / "ours" / "own" / "authority.pem",
        certificate=foreign.certificate,
        key=foreign.key,
    )
    with structlog.testing.capture_logs() as logs:
        async with world.open():
            answer = await knocked(world.url, liar, encoded(ASK, "work/gpu-0-0"))
            with pytest.raises(UntrustedError, match="does not prove to be head"):
                await knocked(world.url, foreign, encoded(ASK, "work/gpu-0-0"))

    assert isinstance(answer, ActorFailed)
    assert "its certificate is not one of ours" in answer.reason
    assert "peer.refused" in [log["event"] for log in refusals(logs)]


async def test_a_lapsed_certificate_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    lapsed = world.authority.equip("gpu-0", tmp_path / "old", now_s=1_700_000_000)
    async with world.open():
        answer = await knocked(world.url, lapsed, encoded(ASK, "work/gpu-0-0"))

    assert isinstance(answer, ActorFailed)
    assert "its certificate is not one of ours" in answer.reason


async def test_who_dials_wants_the_node_that_the_address_names(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.open():
        own = world.node("gpu-0")
        port = world.url.rpartition(":")[2]
        for name in ("box-head", "head", "BOX-HEAD"):
            there = f"tls+tcp://{name}@127.0.0.1:{port}"
            assert isinstance(await knocked(there, own, encoded(ASK, "work/gpu-0-0")), Idle)
        with pytest.raises(UntrustedError, match="does not prove to be gpu-7"):
            await knocked(f"tls+tcp://gpu-7@127.0.0.1:{port}", own, encoded(ASK, "work/gpu-0-0"))


async def test_plain_and_secure_do_not_meet_and_both_ends_are_told(tmp_path: Path) -> None:
    world = World(tmp_path)
    plain = Post(RunId("r"))
    async with world.open(), trio.open_nursery() as nursery:
        with pytest.raises(UntrustedError, match=r"if it encrypts, write tls\+tcp"):
            await knocked(world.url.removeprefix("tls+"), None, encoded(ASK, "x"))
        plain_url = await nursery.start(serve, plain.deliver, "tcp://127.0.0.1:0")
        with pytest.raises(UntrustedError, match="or does not encrypt"):
            await knocked(f"tls+{plain_url}", world.node("gpu-0"), encoded(ASK, "x"))
        nursery.cancel_scope.cancel()


async def test_a_node_without_a_certificate_cannot_listen_or_dial_securely() -> None:
    with pytest.raises(AddressError, match="give it a join token"):
        await serve(Post(RunId("r")).deliver, TLS)
    async with open_links() as links:
        with pytest.raises(AddressError, match="give it a join token"):
            links.to("tls+tcp://127.0.0.1:5")


async def test_where_strangers_have_no_business_they_cannot_even_connect(tmp_path: Path) -> None:
    world = World(tmp_path, is_open=False)
    stranger = Security(node="x", authority=tmp_path / "own" / "authority.pem")
    async with world.open():
        assert await _fails(world.url, stranger)


async def _fails(url: str, security: Security) -> bool:
    """Whether nothing comes back: refused at once, or cut off."""
    request = encoded(FetchAuthority(), STRANGER, AUTHORITY)
    try:
        return await knock(url, security, request) is None
    except UntrustedError:
        return True


async def test_garbage_and_too_much_from_strangers_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    stranger = Security(node="x", authority=tmp_path / "own" / "authority.pem")
    with structlog.testing.capture_logs() as logs:
        async with world.open():
            garbage = [await knocked(world.url, stranger, b"\xff\xffgarbage") for _ in range(3)]
            with pynng.Req0(reconnect_time_min=20, reconnect_time_max=20) as flood:
                flood.tls_config = stranger.client_config("head")
                flood.dial(world.url, block=False)
                await flood.asend(bytes(100_000))
                await until(lambda: len(refusals(logs)) >= 2)

    assert all(isinstance(answer, bytes) and answer.startswith(b"\x02") for answer in garbage)
    reasons = [log["reason"] for log in refusals(logs)]
    assert reasons == [
        "it has no certificate, and what it sent is no message",
        "it has no certificate, and it sent 100000 bytes",
    ]


async def test_who_sends_more_than_anybody_may_disturbs_nobody(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.open():
        seen = world.answers
        with pynng.Req0(reconnect_time_min=20, reconnect_time_max=20) as flood:
            flood.tls_config = world.node("gpu-0").client_config("head")
            flood.dial(world.url, block=False)
            await flood.asend(bytes(WIRE_BYTES_MAX + 1))
            await until(lambda: world.answers >= seen + 20)


async def test_a_stranger_that_goes_on_after_refusals_is_cut_off(tmp_path: Path) -> None:
    world = World(tmp_path)
    stranger = Security(node="x", authority=tmp_path / "own" / "authority.pem")
    gone: list[int] = []
    async with world.open():
        with pynng.Req0(recv_timeout=300, reconnect_time_min=60_000) as socket_:
            socket_.add_post_pipe_remove_cb(lambda pipe: gone.append(pipe.id))
            socket_.tls_config = stranger.client_config("head")
            await trio.to_thread.run_sync(dial_at_last, socket_, world.url)
            for _ in range(20):
                if gone:
                    break
                await socket_.asend(encoded(ASK, "x"))
                try:
                    await socket_.arecv()
                except pynng.Timeout:
                    break
            assert gone, "its pipe was closed"


async def test_bytes_that_are_no_handshake_are_refused_and_counted(tmp_path: Path) -> None:
    world = World(tmp_path)
    head = world.authority.equip("box-head", tmp_path / "h", now_s=1.79e9, is_head=True)
    with listening(TLS, head, Peers(is_open=True)) as opened:
        port = int(opened.url.rpartition(":")[2])
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
                raw.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                raw.recv(1000)
        await until(lambda: failed_handshakes(opened.socket).total())
        reasons = failed_handshakes(opened.socket)

    told = "it does not encrypt, cannot prove who it is, or does not believe us"
    assert reasons[told] >= 1, "nng counts one of several that come at once"


async def test_who_connects_and_says_nothing_keeps_nobody_out(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.open():
        port = int(world.url.rpartition(":")[2])
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
        answer = await knocked(world.url, world.node("gpu-0"), encoded(ASK, "work/gpu-0-0"))
        for raw in silent:
            raw.close()

    assert isinstance(answer, Idle)


async def test_another_protocol_of_nng_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.open():
        with pynng.Pair0(recv_timeout=300, send_timeout=300) as pair:
            pair.tls_config = world.node("gpu-0").client_config("head")
            pair.dial(world.url, block=False)
            with pytest.raises(pynng.Timeout):
                await pair.arecv()


async def test_asks_outlive_a_renewal_at_either_end(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.open(), open_links(security=world.node("gpu-0")) as links:
        ref = world.ref(links, "work/gpu-0-0")
        assert isinstance(await ref.ask(ASK, timeout_s=10), Idle)
        links.to(world.url).renew()

        assert isinstance(await ref.ask(ASK, timeout_s=10), Idle)


async def test_a_listener_takes_up_its_renewed_certificate_at_the_same_address(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    old_s, now_s = time.time() - 40 * 86_400, time.time()
    head = world.authority.equip("box-head", tmp_path / "h", now_s=old_s, is_head=True)
    own, peers = world.node("gpu-0"), Peers(is_open=True)
    with listening(TLS, head, peers) as opened:
        stamp = head.stamp()
        with pytest.raises(UntrustedError):
            await knocked(opened.url, own, encoded(ASK, "work/gpu-0-0"))
        world.authority.equip("box-head", tmp_path / "h", now_s=now_s, is_head=True)
        assert head.stamp() != stamp

        assert relisten(opened.socket, opened.url, head, peers) == opened.url
        with pynng.Req0() as client:
            client.tls_config = own.client_config("head")
            await trio.to_thread.run_sync(lambda: client.dial(opened.url, block=True))


async def test_nobody_is_there_is_no_mistrust(tmp_path: Path) -> None:
    world = World(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"tls+tcp://127.0.0.1:{free.getsockname()[1]}"

        assert await knocked(url, world.node("gpu-0"), b"x") is None


@pytest.mark.parametrize(
    ("sender", "node", "belongs"),
    [
        ("node/a", "a", True),
        ("node/a-0", "a", False),
        ("node/a-0", "a-0", True),
        ("work/a-0", "a", True),
        ("work/a-0", "a-0", False),
        ("work/a-0-1", "a-0", True),
        ("work/a-0-1", "a", False),
        ("work/a", "a", False),
        ("desktop/b-0", "a", False),
        ("replay/a-x", "a", False),
        ("proposer", "a", True),
        ("client", "a", True),
        ("search/a", "a", False),
        ("head", "a", False),
        ("authority", "a", False),
        ("", "a", True),
    ],
)
def test_a_name_belongs_to_one_node(sender: str, node: str, belongs: bool) -> None:
    assert sender_belongs(sender, node) is belongs


names = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,8}[A-Za-z0-9])?", fullmatch=True)


@given(one=names, other=names, kind=st.sampled_from(["work", "node"]), slot=st.integers(0, 99))
def test_no_name_of_a_node_or_its_slots_belongs_to_two(
    one: str, other: str, kind: str, slot: int
) -> None:
    sender = f"{kind}/{one}" if kind == "node" else f"{kind}/{one}-{slot}"

    assert sender_belongs(sender, one)
    assert sender_belongs(sender, other) is (one == other)


async def test_a_secret_key_is_in_no_text_of_what_holds_it(tmp_path: Path) -> None:
    security = World(tmp_path).node("gpu-0")

    assert security.key is not None
    assert "PRIVATE" in security.key.read_text()
    assert "PRIVATE" not in repr(security)
