"""One nng context, as a request or as a reply, on nng's own calls.

pynng wakes a task by way of a thread after each sending *and* each receiving, and loses the memory
of a message whose sending is cancelled. Here a sending wakes nobody: a request waits for its reply
alone, and a reply is on its way when the call returns. What could not be sent is freed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

import pynng
import trio

ResultT = TypeVar("ResultT")
Read: TypeAlias = Callable[[memoryview, Any], ResultT]
"""Makes something of the bytes that came, which are gone when it returns, and of nng's handle of
the pipe that they came by."""
_ffi, _lib = pynng.ffi, pynng.lib
SEND_S = 30.0
"""How long a reply waits while its asker's connection is busy with others: then it is dropped, and
the asker, who is frozen or gone, asks again when it wakes."""
_POLL_S = (0.001, 0.05)


@_ffi.callback("void (void *)")  # type: ignore[untyped-decorator]  # cffi has no types
def _wake(handle: Any) -> None:
    """nng has received, or given up. Called on a thread of its own."""
    receiver: _Receiver = _ffi.from_handle(handle)
    receiver.wake()


def _allocate(callback: Any, handle: Any) -> Any:
    pointer = _ffi.new("nng_aio **")
    pynng.check_err(_lib.nng_aio_alloc(pointer, callback, handle))
    return pointer[0]


def _nothing() -> None:
    """Do nothing on arrival."""


class _Caught:
    """Keeps an error for the task that it belongs to."""

    error: BaseException | None = None

    def __enter__(self) -> None:
        self.error = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self.error = error
        return True


class _Receiver:
    """A receiving that one task at a time waits for."""

    def __init__(self) -> None:
        self._handle = _ffi.new_handle(self)
        self.aio = _allocate(_wake, self._handle)
        self._token = trio.lowlevel.current_trio_token()
        self._task: trio.lowlevel.Task | None = None
        self._on_arrival: Callable[[], None] = _nothing
        self._caught = _Caught()

    def free(self) -> None:
        """Stop receiving and free the aio: nng calls back no more."""
        _lib.nng_aio_free(self.aio)
        self._handle = None

    def wake(self) -> None:
        """Let the task go on. Called on a thread of nng."""
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._go_on)

    async def wait(
        self,
        context: Any,
        cancel: Callable[[], None] | None = None,
        on_arrival: Callable[[], None] = _nothing,
    ) -> int:
        """Receive into the aio. Returns nng's result.

        Args:
            cancel: is called before the receiving is cancelled.
            on_arrival: is called as soon as something came, before this task has its turn, and
                raises from here what it raises.
        """
        self._task = trio.lowlevel.current_task()
        self._on_arrival = on_arrival
        raise_cancelled: Callable[[], None] | None = None

        def abort(raising: Callable[[], None]) -> trio.lowlevel.Abort:
            nonlocal raise_cancelled
            raise_cancelled = raising
            if cancel is not None:
                cancel()
            _lib.nng_aio_cancel(self.aio)
            return trio.lowlevel.Abort.FAILED  # it wakes us when it has stopped, or was faster

        _lib.nng_ctx_recv(context, self.aio)
        await trio.lowlevel.wait_task_rescheduled(abort)
        result: int = _lib.nng_aio_result(self.aio)
        if result == _lib.NNG_ECANCELED and raise_cancelled is not None:
            raise_cancelled()
        if self._caught.error is not None:
            raise self._caught.error
        return result

    def _go_on(self) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        with self._caught:
            if _lib.nng_aio_result(self.aio) == 0:
                self._on_arrival()
        trio.lowlevel.reschedule(task)


class _Context:
    """A context and its two operations."""

    def __init__(self, socket: pynng.Socket) -> None:
        self._context = socket.new_context()
        self._receiver = _Receiver()
        self._sending = _allocate(_ffi.NULL, _ffi.NULL)

    def close(self) -> None:
        """Stop both operations and free them; nothing of this context is waited for any more."""
        with contextlib.suppress(pynng.Closed):  # the socket was closed before
            self._context.close()
        self._end_sending()
        self._receiver.free()
        _lib.nng_aio_free(self._sending)

    def _start_sending(self, data: bytes) -> None:
        pointer = _ffi.new("nng_msg **")
        pynng.check_err(_lib.nng_msg_alloc(pointer, 0))
        pynng.check_err(_lib.nng_msg_append(pointer[0], data, len(data)))
        _lib.nng_aio_set_msg(self._sending, pointer[0])
        _lib.nng_ctx_send(self._context.context, self._sending)

    def _end_sending(self) -> int:
        """Cancel it unless it is done, and free what was not sent. Returns nng's result."""
        if _lib.nng_aio_busy(self._sending):
            _lib.nng_aio_cancel(self._sending)
            _lib.nng_aio_wait(self._sending)
        result: int = _lib.nng_aio_result(self._sending)
        if result:
            unsent = _lib.nng_aio_get_msg(self._sending)
            _lib.nng_aio_set_msg(self._sending, _ffi.NULL)
            if unsent:
                _lib.nng_msg_free(unsent)
        return result

    def _take(self, read: Read[ResultT]) -> ResultT:
        """Hand out what was received, without a copy, and free it."""
        message = _lib.nng_aio_get_msg(self._receiver.aio)
        _lib.nng_aio_set_msg(self._receiver.aio, _ffi.NULL)
        try:
            body = _ffi.buffer(_lib.nng_msg_body(message), _lib.nng_msg_len(message))
            with memoryview(body) as view:
                return read(view, _lib.nng_msg_get_pipe(message))
        finally:
            _lib.nng_msg_free(message)


class RequestContext(_Context):
    """Sends a request and waits for its reply. Close it when a call did not end well."""

    async def call(self, data: bytes, read: Read[ResultT]) -> ResultT:
        """One request and its reply.

        Raises:
            pynng.NNGException: `Closed` when the socket was closed here.
        """
        self._start_sending(data)
        result = await self._receiver.wait(self._context.context, self._end_sending_first)
        if result:
            pynng.check_err(self._end_sending() or result)
        _lib.nng_aio_wait(self._sending)
        return self._take(read)

    def _end_sending_first(self) -> None:
        self._end_sending()


class ReplyContext(_Context):
    """Takes a request, and answers it before it takes another."""

    def __init__(self, socket: pynng.Socket, *, send_s: float = SEND_S) -> None:
        super().__init__(socket)
        self._send_s = send_s

    async def receive(self, read: Read[None]) -> None:
        """Wait for a request.

        `read` is called at its arrival, before this task has its turn: what arrived is never lost,
        and whoever is to answer it need not wait for this task.
        """
        on_arrival = partial(self._take, read)
        pynng.check_err(await self._receiver.wait(self._context.context, on_arrival=on_arrival))

    def answer(self, data: bytes) -> None:
        """Send the answer. Does not wait: see `wait_sent`."""
        self._start_sending(data)

    async def wait_sent(self) -> bool:
        """Wait until the answer is on its way; False when its asker took nothing for too long."""
        if _lib.nng_aio_busy(self._sending):
            await self._poll_sending()
        return self._end_sending() == 0

    async def _poll_sending(self) -> None:
        pause_s, longest_s = _POLL_S
        with trio.move_on_after(self._send_s):
            while _lib.nng_aio_busy(self._sending):  # nng has no event for that
                await trio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, longest_s)
