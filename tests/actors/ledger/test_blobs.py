"""Blobs are found under the digest of their bytes, whole or not at all."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs_node.actors.ledger.blobs import BlobFolder
from envs_node.actors.ledger.errors import BlobMismatchError


@given(st.lists(st.binary(max_size=64), max_size=4))
@settings(deadline=None)  # it waits for a disk
def test_what_is_kept_is_read_back(blobs: list[bytes]):
    with tempfile.TemporaryDirectory() as name:
        folder = BlobFolder(Path(name))
        digests = [hashlib.sha256(data).hexdigest() for data in blobs]
        kept = [folder.keep(data, d, "png") for data, d in zip(blobs, digests, strict=True)]

        assert [folder.read(digest, "png") for digest in digests] == blobs
        assert sum(kept) == len(set(blobs))


def test_a_torn_file_is_written_anew(tmp_path):
    folder = BlobFolder(tmp_path)
    digest = hashlib.sha256(b"pixels").hexdigest()
    folder.keep(b"pixels", digest, "png")
    folder.path(digest, "png").write_bytes(b"pix")

    assert folder.keep(b"pixels", digest, "png")
    assert folder.read(digest, "png") == b"pixels"


def test_a_changed_file_is_not_given_out(tmp_path):
    folder = BlobFolder(tmp_path)
    digest = hashlib.sha256(b"pixels").hexdigest()
    folder.keep(b"pixels", digest, "png")
    folder.path(digest, "png").write_bytes(b"pixelz")

    with pytest.raises(BlobMismatchError):
        folder.read(digest, "png")


@pytest.mark.parametrize("kind", ["", "../png", "p.g", "PNG"])
def test_a_kind_that_could_name_another_file_is_refused(tmp_path, kind: str):
    with pytest.raises(ValueError, match="kind"):
        BlobFolder(tmp_path).path("ab" * 32, kind)
