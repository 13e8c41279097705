"""Which addresses there are, which are ours to open, and what others dial."""

from __future__ import annotations

import pytest

from envs_node.actors.address import (
    AddressError,
    PlainSocketError,
    check_address,
    parse_address,
    public_address,
)


@pytest.mark.parametrize("url", ["tcp://0.0.0.0:0", "tcp://10.0.0.1:5", "tcp://head.lan:5"])
def test_plain_sockets_beyond_this_machine_are_refused_with_the_way_out(url: str) -> None:
    with pytest.raises(PlainSocketError, match=rf"use tls\+{url} with a join token"):
        check_address(url)
    check_address(url, allow_plain=True)


def test_a_node_name_in_the_address_does_not_make_a_far_host_ours() -> None:
    with pytest.raises(PlainSocketError):
        check_address("tcp://127.0.0.1@10.0.0.1:5")
    with pytest.raises(PlainSocketError):
        check_address("tcp://localhost:7@10.0.0.1:5")


@pytest.mark.parametrize(
    "url",
    [
        "tls+tcp://0.0.0.0:7711",
        "tls+tcp://head.lan:7711",
        "tls+tcp://gpu-0@10.0.0.1:5",
        "tcp://127.0.0.1:5",
        "tcp://localhost:5",
        "tcp://[::1]:5",
        "ipc:///run/x",
    ],
)
def test_secure_addresses_and_those_of_this_machine_are_ours_to_open(url: str) -> None:
    check_address(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://127.0.0.1:5",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:x",
        "tcp://127.0.0.1:99999",
        "tls+tcp://head",
        "tls+tcp://:5",
        "ws://127.0.0.1:5",
        "inproc://x",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(AddressError):
        check_address(url)


def test_an_address_may_say_which_node_must_be_there() -> None:
    address = parse_address("tls+tcp://gpu-0@10.0.0.1:5")

    assert (address.node, address.bare) == ("gpu-0", "tls+tcp://10.0.0.1:5")


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("tls+tcp://0.0.0.0:7", "tls+tcp://gpu-0@box.lan:7"),
        ("tls+tcp://10.0.0.1:7", "tls+tcp://gpu-0@10.0.0.1:7"),
        ("tls+tcp://[::]:7", "tls+tcp://gpu-0@box.lan:7"),
        ("tcp://127.0.0.1:7", "tcp://127.0.0.1:7"),
        ("ipc:///run/x", "ipc:///run/x"),
    ],
)
def test_others_dial_a_host_that_they_can_reach_and_know_whom_to_expect(
    url: str, public: str
) -> None:
    assert public_address(url, node="gpu-0", host="box.lan") == public
