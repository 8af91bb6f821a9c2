"""Simulated subscribers, and the moods that they can have."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Final, Protocol

from tests.simulation.history import Answered, Arrived, History
from tests.simulation.network import Request, Response
from tests.simulation.virtual_loop import VirtualLoop

DIGEST_BYTES: Final = 8


def digest_of(body: bytes) -> str:
    """Return a short digest of a body."""
    return blake2b(body, digest_size=DIGEST_BYTES).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mood:
    """How a subscriber treats requests. Each fraction is of all requests, and the rest is accepted.

    Attributes:
        name: The name of the mood.
        refuses: The fraction of refused requests.
        status: The status of a refusal.
        retry_after: The seconds in the header `Retry-After` of a refusal.
        hangs: The fraction of requests that are never answered.
        drops: The fraction of requests after which the connection is closed without an answer. Half
            of them were accepted before.
        garbles: The fraction of requests with an invalid answer.
        latency_s: The longest time until an answer.
        takes: Whether connections are accepted; None if connections are not even refused.
        keeps_alive: Whether a connection stays open after an answer.
    """

    name: str
    refuses: float = 0.0
    status: int = 503
    retry_after: float | None = None
    hangs: float = 0.0
    drops: float = 0.0
    garbles: float = 0.0
    latency_s: float = 0.01
    # Whether connections are accepted; None if connections are not even refused.
    takes: bool | None = True
    keeps_alive: bool = True


WELL: Final = Mood(name="well")
MOODS: Final[Mapping[str, Mood]] = {
    each.name: each
    for each in (
        WELL,
        Mood(name="slow", latency_s=0.9),
        Mood(name="too slow", latency_s=4.0),
        Mood(name="flaky", refuses=0.3, drops=0.1),
        Mood(name="failing", refuses=1.0, status=500),
        Mood(name="later", refuses=0.5, status=503, retry_after=3.0),
        Mood(name="much later", refuses=1.0, status=429, retry_after=12.0),
        Mood(name="redirecting", refuses=1.0, status=302),
        Mood(name="refusing some", refuses=0.3, status=400),
        Mood(name="hanging", hangs=1.0),
        Mood(name="hanging at times", hangs=0.3),
        Mood(name="dropping", drops=0.5),
        Mood(name="garbling", garbles=0.5),
        Mood(name="without keep-alive", keeps_alive=False),
        Mood(name="down", takes=False),
        Mood(name="away", takes=None),
    )
}


class Guard(Protocol):
    """Knows which requests have a valid token."""

    def admits(self, request: Request) -> bool:
        """Whether a request has a valid token."""


class Subscriber:
    """The endpoint of a subscription. With a `guard`, it accepts only requests with a token."""

    is_subscriber = True

    def __init__(self, name: str, loop: VirtualLoop, history: History) -> None:
        self.name = name
        self.mood = WELL
        self.guard: Guard | None = None
        self._loop = loop
        self._history = history

    @property
    def _random(self) -> Random:
        return self._loop.random

    def accepts(self) -> bool | None:
        return self.mood.takes

    def on_request(self, request: Request, respond: Callable[[Response], None]) -> None:
        self._arrived(request)
        mood, drawn = self.mood, self._random.random()
        think_s = self._random.random() * mood.latency_s
        for share, act in (
            (mood.hangs, self._hang),
            (mood.drops, self._drop),
            (mood.garbles, self._garble),
            (mood.refuses, self._refuse),
        ):
            if drawn < share:
                self._loop.call_outside(think_s, act, request, respond, mood)
                return
            drawn -= share
        self._loop.call_outside(think_s, self._accept, request, respond, mood)

    def _arrived(self, request: Request) -> None:
        self._history.add(
            Arrived(
                at=self._loop.time(),
                request=request.number,
                message=request.message,
                body=digest_of(request.body),
            )
        )

    def _accept(self, request: Request, respond: Callable[[Response], None], mood: Mood) -> None:
        status = 200 if self.guard is None or self.guard.admits(request) else 401
        self._decided(request, status)
        respond(Response(answer(status, mood), status, closes=not mood.keeps_alive))

    def _refuse(self, request: Request, respond: Callable[[Response], None], mood: Mood) -> None:
        self._decided(request, mood.status, mood.retry_after)
        payload = answer(mood.status, mood)
        respond(Response(payload, mood.status, mood.retry_after, closes=not mood.keeps_alive))

    def _hang(self, request: Request, _respond: Callable[[Response], None], _mood: Mood) -> None:
        self._decided(request, 0)

    def _drop(self, request: Request, respond: Callable[[Response], None], _mood: Mood) -> None:
        self._decided(request, self._random.choice((0, 200)))
        respond(Response(b"", closes=True))

    def _garble(self, request: Request, respond: Callable[[Response], None], _mood: Mood) -> None:
        self._decided(request, self._random.choice((0, 200)))
        payload = self._random.choice((b"HTTP/1.1 20", b"\x00\x01\x02\x03 not HTTP\r\n\r\n"))
        respond(Response(payload, closes=True))

    def _decided(self, request: Request, status: int, retry_after: float | None = None) -> None:
        self._history.add(
            Answered(
                at=self._loop.time(),
                request=request.number,
                message=request.message,
                status=status,
                retry_after=retry_after,
            )
        )


def answer(status: int, mood: Mood, body: bytes = b"") -> bytes:
    """Return an answer as bytes."""
    lines = [f"HTTP/1.1 {status} Said"]
    if mood.retry_after is not None and status == mood.status:
        lines.append(f"Retry-After: {mood.retry_after:.0f}")
    if not mood.keeps_alive:
        lines.append("Connection: close")
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body
