"""Bytes to envelopes and back: the only place that encodes or decodes messages."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from envs_node.messages import (
    desktop,
    enrol,
    fit,
    ledger,
    lifecycle,
    propose,
    search,
    status,
    tasks,
    verify,
)
from envs_node.messages.base import WIRE_BYTES_MAX, Envelope, EnvsError, Message

AnyMessage: TypeAlias = (
    desktop.Configure | desktop.Configured | desktop.ConfigureFailed
    | desktop.Reset | desktop.ResetDone | desktop.ResetFailed
    | desktop.KeepFork | desktop.ForkKept | desktop.ForkRefused
    | desktop.Act | desktop.Acted | desktop.ActFailed
    | desktop.Observe | desktop.Observed
    | desktop.FetchFrame | desktop.FrameFetched | desktop.FrameUnknown
    | desktop.Close | desktop.Closed
    | tasks.FetchTask | tasks.TaskFetched | tasks.TaskUnknown
    | verify.Verify | verify.Verified
    | propose.Propose | propose.Proposed | propose.ProposeFailed | propose.Score | propose.Scored
    | search.WorkWanted | search.Idle | search.Assign | search.Renew | search.Renewed
    | search.LeaseLapsed | search.NodeReached | search.LeafReached
    | search.Drive | search.ProgressWanted | search.Progress | search.Tick | search.WorkerFreed
    | ledger.BlobsWanted | ledger.BlobsLacking
    | ledger.StoreBlob | ledger.BlobStored | ledger.BlobRefused
    | ledger.Admit | ledger.Admitted | ledger.AlreadyKnown
    | ledger.TaskOutcome | ledger.OutcomeKept | ledger.Query | ledger.LedgerStats
    | fit.Fit | fit.FitRunning | fit.Fitted | fit.FitFailed
    | enrol.FetchAuthority | enrol.Authority | enrol.Enrol | enrol.Enrolled | enrol.EnrolFailed
    | status.StatusWanted | status.Status
    | lifecycle.Join | lifecycle.Joined | lifecycle.JoinFailed
    | lifecycle.Leave | lifecycle.Left
    | lifecycle.Resolve | lifecycle.Resolved | lifecycle.Crashed | lifecycle.ActorFailed
    | lifecycle.ActorBusy
    | lifecycle.StartRun | lifecycle.RunStarted | lifecycle.RunRefused
    | lifecycle.StopRun | lifecycle.RunStopped
)  # fmt: skip


class CodecError(EnvsError):
    """Bytes that are no envelope, or an envelope that is too large to send."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Envelope[AnyMessage])


def encode(envelope: Envelope[Message]) -> bytes:
    """Encode an envelope as MessagePack.

    Raises:
        CodecError: it is larger than `WIRE_BYTES_MAX`.
    """
    data = _encoder.encode(envelope)
    if len(data) > WIRE_BYTES_MAX:
        name = type(envelope.message).__name__
        raise CodecError(f"{name} is {len(data)} bytes; at most {WIRE_BYTES_MAX} can be sent")
    return data


def decode(data: bytes | memoryview) -> Envelope[AnyMessage]:
    """Decode and validate an envelope.

    Raises:
        CodecError: the bytes are too many, damaged, or of an unknown message.
    """
    if len(data) > WIRE_BYTES_MAX:
        raise CodecError(f"{len(data)} bytes; at most {WIRE_BYTES_MAX} are taken")
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise CodecError(f"not an envelope: {error}") from error
