"""A small HTTP/1.1 proxy on loopback that does to requests what networks do to them."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType
from typing import Self

_HOST = "127.0.0.1"
_HEAD_END = b"\r\n\r\n"


class Fault(Enum):
    """What can go wrong."""

    STATUS = auto()
    """Answer with `Action.status`; the server behind sees nothing."""
    RESET_BEFORE = auto()
    """Reset the connection; the server behind sees nothing."""
    LOSE_ANSWER = auto()
    """Let the server do it, then reset the connection instead of passing on the answer."""
    CUT_RESET = auto()
    """Pass on `Action.after_bytes` of the body, then reset the connection."""
    CUT_CLOSE = auto()
    """Pass on `Action.after_bytes` of the body, then close the connection."""
    STALL = auto()
    """Pass on `Action.after_bytes` of the body, then nothing for `Action.seconds`."""
    HANG = auto()
    """Let the server do it, then say nothing for `Action.seconds`."""
    FLIP_BIT = auto()
    """Change one bit of the body."""
    DELAY = auto()
    """Wait `Action.seconds` before anything else."""


@dataclass(frozen=True, slots=True)
class Action:
    """One fault and its parameters."""

    fault: Fault
    status: int = 503
    after_bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Request:
    """What a rule sees of a request."""

    number: int
    """Counted from 1 over all requests of the proxy."""
    method: str
    target: str
    """Path and query."""
    headers: bytes


Rule = Callable[[Request], Action | None]


def nth(matches: Callable[[Request], bool], action: Action, *, first: int = 1) -> Rule:
    """Return a rule that meets the first `first` requests that match, and no others."""
    left = [first]

    def rule(request: Request) -> Action | None:
        if not left[0] or not matches(request):
            return None
        left[0] -= 1
        return action

    return rule


class FaultProxy:
    """Stands before a server at `upstream_port`; `rule` decides about each request.

    The Host header is passed on as it is, so signatures made for the proxy stay valid for servers
    that look at the header only.
    """

    def __init__(self, upstream_port: int, rule: Rule | None = None) -> None:
        self.rule = rule
        self.requests: list[Request] = []
        self.port = 0
        self._upstream_port = upstream_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def count(self, method: str) -> int:
        """Return how many requests of a method came."""
        return sum(request.method == method for request in self.requests)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._meet, _HOST, 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._loop.close()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            await self._handle(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            _reset(writer)
        finally:
            writer.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(_HEAD_END)
        body = await reader.readexactly(_content_length(head))
        method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        request = Request(len(self.requests) + 1, method, target, head)
        self.requests.append(request)
        action = self.rule(request) if self.rule else None
        if action is not None and action.fault is Fault.DELAY:
            await asyncio.sleep(action.seconds)
            action = None
        if action is not None and action.fault is Fault.RESET_BEFORE:
            _reset(writer)
        elif action is not None and action.fault is Fault.STATUS:
            writer.write(_status_answer(action.status))
            await writer.drain()
        else:
            answer = await self._ask_upstream(head, body)
            await _pass_on(writer, answer, action)

    async def _ask_upstream(self, head: bytes, body: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(_HOST, self._upstream_port)
        try:
            writer.write(_closing(head) + body)
            await writer.drain()
            return await reader.read(-1)
        finally:
            writer.close()


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


def _closing(head: bytes) -> bytes:
    """Return the head with the wish that the connection ends after one exchange."""
    lines = head.removesuffix(_HEAD_END).split(b"\r\n")
    kept = [line for line in lines if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*kept, b"Connection: close"]) + _HEAD_END


def _status_answer(status: int) -> bytes:
    return f"HTTP/1.1 {status} Fault\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


async def _pass_on(writer: asyncio.StreamWriter, answer: bytes, action: Action | None) -> None:
    head, _, body = answer.partition(_HEAD_END)
    head = _closing(head + _HEAD_END)
    if action is None:
        writer.write(head + body)
    elif action.fault is Fault.LOSE_ANSWER:
        _reset(writer)
        return
    elif action.fault is Fault.HANG:
        await asyncio.sleep(action.seconds)
        return
    elif action.fault is Fault.FLIP_BIT:
        writer.write(head + body[:-1] + bytes([body[-1] ^ 1]))
    else:
        writer.write(head + body[: action.after_bytes])
    await writer.drain()
    if action is not None and action.fault is Fault.STALL:
        await asyncio.sleep(action.seconds)
    if action is not None and action.fault in {Fault.CUT_RESET, Fault.STALL}:
        _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close at once, so that the other side sees a reset and not an end."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
