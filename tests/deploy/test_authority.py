"""The authority of a head: made once, signs what it should, and lets each token in so often."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envs_node.deploy.authority import Authority, AuthorityError
from envs_node.deploy.certificates import (
    LIFETIME_S,
    CertificateError,
    digest_of,
    read_certificate,
    read_request,
)
from envs_node.deploy.signing import make_authority, make_key, make_request
from envs_node.deploy.tokens import JoinToken, TokenError, read_token
from envs_node.messages.base import EnvsError

NOW_S = 1_800_000_000.0
HOUR_S = 3600.0


def nobody(_node: str) -> bool:
    return False


def everybody(_node: str) -> bool:
    return True


def request(node: str, key: bytes | None = None) -> bytes:
    return make_request(key or make_key(), node)


def token(authority: Authority, uses: int = 1) -> JoinToken:
    return authority.create_token(uses=uses, hours=1, now_s=NOW_S)


def enrol(authority: Authority, node: str, asked: bytes, by: JoinToken, **given: object) -> bytes:
    now_s = given.get("now_s", NOW_S)
    assert isinstance(now_s, float)
    is_alive = everybody if given.get("is_alive") else nobody
    return authority.enrol(node, asked, by.grant, is_alive=is_alive, now_s=now_s)


def test_an_authority_is_made_once_and_its_key_is_its_owners_alone(tmp_path: Path) -> None:
    made = Authority.open(tmp_path, NOW_S)

    again = Authority.open(tmp_path, NOW_S + LIFETIME_S)

    assert again.certificate == made.certificate
    assert stat.S_IMODE((made.path / "key.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    assert sorted(path.name for path in tmp_path.iterdir()) == ["authority"]


@pytest.mark.slow
def test_a_damaged_authority_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "authority").mkdir()
    (tmp_path / "authority" / "authority.pem").write_text("junk")

    with pytest.raises(AuthorityError, match=f"{tmp_path}/authority is damaged.*remove the folder"):
        Authority.open(tmp_path, NOW_S)


def test_of_heads_that_race_one_makes_the_authority(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from envs_node.deploy.authority import Authority\n"
        "sys.stdin.readline(); print(Authority.open(Path(sys.argv[1]), 1.8e9).digest)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "runs")]
    heads = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]

    said = [head.communicate("go\n", timeout=60)[0].strip() for head in heads]

    assert set(said) == {Authority.open(tmp_path / "runs", NOW_S).digest}
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["authority"]


def test_of_threads_that_race_one_makes_the_authority(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: Authority.open(tmp_path, NOW_S).digest, range(8)))

    assert len(set(found)) == 1


def test_a_node_gets_a_certificate_with_its_name_and_a_stated_end(tmp_path: Path) -> None:
    authority = Authority.open(tmp_path, NOW_S)

    signed = enrol(authority, "gpu-0", request("gpu-0"), token(authority))

    found = read_certificate(signed)
    assert (found.node, found.until_s) == ("gpu-0", NOW_S + LIFETIME_S)


def test_a_node_that_asks_twice_is_answered_alike_and_spends_one_use(tmp_path: Path) -> None:
    authority, asked = Authority.open(tmp_path, NOW_S), request("gpu-0")
    by = token(authority)

    first = enrol(authority, "gpu-0", asked, by)

    assert enrol(authority, "gpu-0", asked, by, now_s=NOW_S + 2 * HOUR_S) == first
    assert len(authority.tokens.records()[0].used) == 1


def test_a_replayed_token_is_refused_to_another_key(tmp_path: Path) -> None:
    authority = Authority.open(tmp_path, NOW_S)
    by = token(authority)
    enrol(authority, "gpu-0", request("gpu-0"), by)

    for node in ("gpu-0", "gpu-1"):
        with pytest.raises(TokenError, match="is spent: it was good for 1 nodes"):
            enrol(authority, node, request(node), by)


def test_a_token_lets_in_as_many_nodes_as_it_says(tmp_path: Path) -> None:
    authority = Authority.open(tmp_path, NOW_S)
    by = token(authority, uses=20)

    def join(number: int) -> bytes:
        return enrol(authority, f"gpu-{number}", request(f"gpu-{number}"), by)

    with ThreadPoolExecutor(8) as threads:
        signed = list(threads.map(join, range(20)))

    assert len(set(signed)) == 20
    with pytest.raises(TokenError, match="spent"):
        join(20)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no such join token"),
        ("0123456789ab." + "x" * 32, "no such join token"),
        ("../../etc/pas." + "x" * 32, "no such join token"),
    ],
)
def test_a_wrong_token_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    authority = Authority.open(tmp_path, NOW_S)
    token(authority)

    with pytest.raises(TokenError, match=reason):
        authority.enrol("a", request("a"), text, is_alive=nobody, now_s=NOW_S)


def test_a_token_with_a_wrong_secret_is_refused_like_one_that_is_not_there(tmp_path: Path) -> None:
    authority = Authority.open(tmp_path, NOW_S)
    by = JoinToken(authority.digest, token(authority).id, "x" * 32)

    with pytest.raises(TokenError, match="no such join token"):
        enrol(authority, "a", request("a"), by)


def test_lapsed_and_revoked_tokens_let_nobody_in(tmp_path: Path) -> None:
    authority = Authority.open(tmp_path, NOW_S)
    lapsed, revoked = token(authority), token(authority)
    authority.revoke_token(revoked.id)

    with pytest.raises(TokenError, match="has lapsed"):
        enrol(authority, "a", request("a"), lapsed, now_s=NOW_S + HOUR_S)
    with pytest.raises(TokenError, match="no such join token"):
        enrol(authority, "a", request("a"), revoked)
    with pytest.raises(TokenError, match="see `envs-node token ls`"):
        authority.revoke_token(revoked.id)


def test_only_the_hash_of_a_secret_is_kept(tmp_path: Path) -> None:
    by = token(Authority.open(tmp_path, NOW_S))

    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    assert by.secret.encode() not in kept
    assert by.secret not in repr(by)


def test_a_name_whose_node_lives_is_refused_to_another_key(tmp_path: Path) -> None:
    authority = Authority.open(tmp_path, NOW_S)
    by = token(authority, uses=9)
    enrol(authority, "gpu-0", request("gpu-0"), by)

    for node in ("gpu-0", "GPU-0"):
        with pytest.raises(AuthorityError, match=r"gpu-0 is here already, with another key: stop"):
            enrol(authority, node, request(node), by, is_alive=True)
    enrol(authority, "gpu-0", request("gpu-0"), by)
    assert len(authority.tokens.records()[0].used) == 2, "a refusal spends nothing"


@pytest.mark.parametrize("node", ["head", "Head", "authority", "stranger"])
def test_no_node_gets_the_name_of_a_head(tmp_path: Path, node: str) -> None:
    authority = Authority.open(tmp_path, NOW_S)

    with pytest.raises(AuthorityError, match="no node may be named"):
        enrol(authority, node, request(node), token(authority))


def test_one_key_has_one_name(tmp_path: Path) -> None:
    authority, key = Authority.open(tmp_path, NOW_S), make_key()
    by = token(authority, uses=2)
    enrol(authority, "a", request("a", key), by)

    with pytest.raises(AuthorityError, match="one key, one name"):
        enrol(authority, "b", request("b", key), by)
    with pytest.raises(AuthorityError, match="is that of a, not of b"):
        enrol(authority, "b", request("a"), by)


def test_a_node_renews_by_its_own_key_only(tmp_path: Path) -> None:
    authority, asked = Authority.open(tmp_path, NOW_S), request("a")
    first = enrol(authority, "a", asked, token(authority))
    later_s = NOW_S + 0.7 * LIFETIME_S

    assert not read_certificate(first).is_fresh(later_s)
    assert read_certificate(authority.renew("a", asked, later_s)).is_fresh(later_s)
    with pytest.raises(AuthorityError, match="not the key of a"):
        authority.renew("a", request("a"), later_s)
    with pytest.raises(AuthorityError, match="not the key of b"):
        authority.renew("b", request("b"), later_s)


def test_a_node_of_this_host_keeps_its_files_until_they_grow_old(tmp_path: Path) -> None:
    authority, tls = Authority.open(tmp_path, NOW_S), tmp_path / "a" / "tls"

    def equipped(now_s: float) -> tuple[bytes, bytes]:
        authority.equip("a", tls, now_s=now_s)
        return (tls / "key.pem").read_bytes(), (tls / "node.pem").read_bytes()

    first, second, third = (equipped(NOW_S + part * LIFETIME_S) for part in (0, 0.5, 0.7))

    assert first == second
    assert (third[0], third[1]) != first
    assert third[0] == first[0], "the key stays"
    assert {stat.S_IMODE(path.stat().st_mode) for path in tls.iterdir()} == {0o600}


@pytest.mark.parametrize("node", ["", "-a", "a-", "a/b", "../a", "*", "*.b", "a b", "ä", "a" * 64])
def test_names_that_cannot_stand_in_a_certificate_are_refused(tmp_path: Path, node: str) -> None:
    authority = Authority.open(tmp_path, NOW_S)

    with pytest.raises(CertificateError):
        authority.equip(node, tmp_path / "x", now_s=NOW_S)


def test_a_token_reads_back_and_pins_its_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.open(tmp_path, NOW_S)
    by = token(authority)
    (tmp_path / "token").write_text(f"{by.text}\n")
    monkeypatch.setenv("ENVS_NODE_TOKEN", by.text)

    assert read_token(None) == by
    assert "ENVS_NODE_TOKEN" not in os.environ, "what is started does not inherit it"
    assert read_token(tmp_path / "token") == by
    assert by.authority == digest_of(authority.certificate)


def test_what_is_no_token_is_refused_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENVS_NODE_TOKEN", "s3cret")
    (tmp_path / "big").write_bytes(b"1" * 1_000_000)

    with pytest.raises(TokenError, match="ENVS_NODE_TOKEN is no join token") as caught:
        read_token(None)
    assert read_token(None) is None
    with pytest.raises(TokenError, match="is no join token"):
        read_token(tmp_path / "big")
    with pytest.raises(TokenError, match="No such file"):
        read_token(tmp_path / "none")
    assert "s3cret" not in str(caught.value)


GOOD_REQUEST = request("a", make_key())
mangled = st.builds(
    lambda at, cut, put: GOOD_REQUEST[:at] + put + GOOD_REQUEST[at + cut :],
    st.integers(0, len(GOOD_REQUEST)),
    st.integers(0, 40),
    st.binary(max_size=40),
)


def _of_another_version(pem: bytes, at: bytes) -> bytes:
    """The same with the byte after these, its version, changed."""
    label, *body, _ = pem.decode().strip().splitlines()
    der = base64.b64decode("".join(body)).replace(at, at[:-1] + b"\x07", 1)
    text = base64.encodebytes(der).decode()
    return f"{label}\n{text}{label.replace('BEGIN', 'END')}\n".encode()


def test_requests_and_certificates_of_unknown_versions_are_refused() -> None:
    """Found by fuzzing: it crashed the authority, and a node that asked a stranger for its own."""
    asked = _of_another_version(GOOD_REQUEST, b"\x02\x01\x00")
    own = make_authority(make_key(), "authority", NOW_S)
    signed = _of_another_version(own, b"\x02\x01\x02")

    with pytest.raises(CertificateError, match="7 is not a valid CSR version"):
        read_request(asked)
    for read in (digest_of, read_certificate):
        with pytest.raises(CertificateError, match="7 is not a valid X509 version"):
            read(signed)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(node=st.text(max_size=80), asked=st.binary(max_size=9000) | mangled, grant=st.text())
def test_nothing_that_a_stranger_sends_crashes_the_authority_or_gets_in(
    tmp_path: Path, node: str, asked: bytes, grant: str
) -> None:
    authority = Authority.open(tmp_path, NOW_S)

    with pytest.raises(EnvsError):
        authority.enrol(node, asked, grant, is_alive=nobody, now_s=NOW_S)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(asked=st.binary(max_size=9000) | mangled, node=st.text(max_size=70) | st.just("a"))
def test_a_request_is_read_or_refused_also_by_one_who_has_a_token(
    tmp_path: Path, asked: bytes, node: str
) -> None:
    authority = Authority.open(tmp_path, NOW_S)
    records = authority.tokens.records() if (authority.path / "tokens").exists() else []
    by = token(authority, uses=10_000)

    try:
        signed = enrol(authority, node, asked, by)
    except EnvsError:
        pass
    else:
        assert read_certificate(signed).node == node == read_request(asked).node
    authority.revoke_token(by.id)
    assert len(authority.tokens.records()) == len(records)
