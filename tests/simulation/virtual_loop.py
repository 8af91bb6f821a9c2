"""An asyncio event loop in virtual time, which runs several simulated processes in one thread.

Nothing takes real time: when no callback is ready, the virtual time jumps to the next timer. Each
callback belongs to the process in whose context it was scheduled. The callbacks of one process run
in the order that asyncio promises. The seed decides which process runs next, and which of two
timers for the same time comes first.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from itertools import count
from random import Random
from typing import Any, Final, Protocol, TypeVar, cast

T = TypeVar("T")

# The wall clock at the start of each run, in seconds since 1970: 2026-01-05 08:00 UTC, and a
# fraction.
EPOCH_S: Final = 1_767_600_000.25
# The monotonic clock at the start of each run, in seconds.
START_S: Final = 5_000.0
# A run with more callbacks than this never ends. The longest runs have a tenth of this number.
CALLBACKS_MAX: Final = 4_000_000
# The module of the product that looks up hosts, in threads. The shortest and the longest time of a
# look-up, in seconds.
_LOOKS_UP: Final = "workers.transport.resolver"
_LOOK_UP_S: Final = (0.0005, 0.02)
# The fraction of a process's turns in which only some of the ready callbacks run.
_BROKEN_TURNS: Final = 0.1


class SimulationStuckError(Exception):
    """Nothing can happen any more, or too much happens while no virtual time passes."""


class SimulatedProcess:
    """One simulated process.

    Its callbacks run, wait while it is paused, or after its death never run. `wall_offset_s` is the
    error of the process's wall clock, in seconds.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[asyncio.Handle] = deque()
        self.paused = False
        self.dead = False
        self.wall_offset_s = 0.0
        self.scheduled = False

    @property
    def runs(self) -> bool:
        """Whether the callbacks of the process run now."""
        return not (self.paused or self.dead)


PROCESS: Final[ContextVar[SimulatedProcess]] = ContextVar("process")
"""The simulated process of the running callback."""


class Accepts(Protocol):
    """A simulated socket, which makes a transport for a protocol."""

    def transport_for(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        """Return the transport. The method `connection_made` of `protocol` was not called yet."""


class Connects(Protocol):
    """The simulated network."""

    def look_up(self, host: str) -> list[str]:
        """Return the addresses of a host."""

    async def connect(self, address: tuple[str, int]) -> Accepts:
        """Return a socket that is connected to `address`."""


class _Task(asyncio.Task[T]):
    """A task whose hash is a number, so that sets of tasks have the same order in each run."""

    number: int

    def __new__(cls, *_args: object, loop: "VirtualLoop", **_kwargs: object) -> "_Task[T]":
        task = super().__new__(cls)
        task.number = next(loop.tasks)
        return task

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop of one simulated run. `random` decides everything that asyncio leaves open."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random
        self.outside = SimulatedProcess("outside")
        self.network: Connects | None = None
        self.failures: list[str] = []
        self.callbacks = 0
        self.tasks = count()
        self._now = START_S
        self._timers: list[tuple[float, float, int, asyncio.TimerHandle, SimulatedProcess]] = []
        self._numbers = count()
        self._ring: list[SimulatedProcess] = []
        self._finished = False
        self.set_task_factory(self._task)
        self.set_exception_handler(self._failed)

    def time(self) -> float:
        return self._now

    def wall_s(self) -> float:
        """Return the wall clock of the running process, in seconds since 1970."""
        return EPOCH_S + self._now - START_S + PROCESS.get(self.outside).wall_offset_s

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        process = self._process_of(context)
        process.ready.append(handle)
        self._schedule(process)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: object,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        entry = (when, self.random.random(), next(self._numbers), timer, self._process_of(context))
        heapq.heappush(self._timers, entry)
        return timer

    def call_outside(
        self, delay_s: float, callback: Callable[..., object], *args: object
    ) -> asyncio.TimerHandle:
        """Call `callback` after a delay, outside of all processes: in the network or a service."""
        return self.call_at(self._now + delay_s, callback, *args, context=Context())

    async def create_connection(  # type: ignore[override]  # only what the product calls
        self, factory: Callable[[], asyncio.Protocol], *, sock: Accepts
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        protocol = factory()
        transport = sock.transport_for(protocol)
        await asyncio.sleep(0)
        protocol.connection_made(transport)
        return transport, protocol

    def run_in_executor(
        self, _executor: object, function: Callable[..., T], *args: object
    ) -> "asyncio.Future[T]":
        """Look up a host. Nothing else runs in threads."""
        if function.__module__ != _LOOKS_UP:
            raise SimulationStuckError("a simulated process has no threads")
        found: asyncio.Future[T] = self.create_future()

        def answer() -> None:
            if not found.done():
                found.set_result(function(*args))

        self.call_outside(self.random.uniform(*_LOOK_UP_S), answer)
        return found

    def pause(self, process: SimulatedProcess) -> None:
        """Stop all callbacks of the process, as SIGSTOP does."""
        process.paused = True

    def resume(self, process: SimulatedProcess) -> None:
        """Let the process continue."""
        process.paused = False
        self._schedule(process)

    def finish(self) -> None:
        """Stop everything, so that the objects of the run can be removed."""
        self._finished = True
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - dead processes leave their tasks
        self._timers.clear()
        self._ring.clear()
        self.close()

    def _check_closed(self) -> None:
        """Do nothing: coroutines that are removed after the run may still call the loop."""

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer stays in the heap, and is removed when it is due."""

    def _process_events(self, event_list: object) -> None:
        raise NotImplementedError

    def _process_of(self, context: Context | None) -> SimulatedProcess:
        if context is None:
            return PROCESS.get(self.outside)
        return context.get(PROCESS, self.outside)

    def _schedule(self, process: SimulatedProcess) -> None:
        if process.ready and process.runs and not process.scheduled and not self._finished:
            process.scheduled = True
            self._ring.append(process)

    def _run_once(self) -> None:
        if not self._ring:
            self._jump()
        if self._ring:
            self._turn(self._ring.pop(self.random.randrange(len(self._ring))))

    def _jump(self) -> None:
        """Move the clock to the next timer, and make all timers ready that are due then."""
        timers = self._timers
        while timers and timers[0][3].cancelled():
            heapq.heappop(timers)
        if not timers:
            raise SimulationStuckError("nothing will ever happen")
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            *_, timer, process = heapq.heappop(timers)
            if not timer.cancelled() and not process.dead:
                process.ready.append(timer)
                self._schedule(process)

    def _turn(self, process: SimulatedProcess) -> None:
        """Run the ready callbacks of a process, as one turn of its own event loop."""
        process.scheduled = False
        ready = process.ready
        size = len(ready)
        if size > 1 and self.random.random() < _BROKEN_TURNS:
            # Let another process or a fault come between the ready callbacks.
            size = self.random.randrange(1, size)
        for _ in range(size):
            if not process.runs:
                return
            handle = ready.popleft()
            if not handle.cancelled():
                self.callbacks += 1
                handle._run()  # noqa: SLF001 - as asyncio's own loops do
        if self.callbacks > CALLBACKS_MAX:
            raise SimulationStuckError("too much happens at once")
        self._schedule(process)

    def _task(
        self,
        _loop: asyncio.AbstractEventLoop,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        **kwargs: Any,  # noqa: ANN401 - as asyncio
    ) -> asyncio.Task[T]:
        return _Task(cast("Coroutine[Any, Any, T]", coro), loop=self, **kwargs)

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")


def virtual() -> VirtualLoop:
    """Return the running loop, which must be a VirtualLoop."""
    return cast("VirtualLoop", asyncio.get_running_loop())


def context_of(process: SimulatedProcess) -> Context:
    """Return a new context for callbacks of `process`."""
    context = copy_context()
    context.run(PROCESS.set, process)
    return context


async def passes(seconds: float) -> None:
    """Wait until this many seconds of virtual time have passed."""
    over = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not over.done():
            over.set_result(None)

    timer = asyncio.get_running_loop().call_later(seconds, end)
    try:
        await over
    finally:
        timer.cancel()
