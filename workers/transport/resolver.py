"""Looks up the addresses of hosts, caches them, and checks whether they are allowed."""

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Final, NamedTuple

import httpx
import structlog

from app.domain.network.egress import Address, EgressPolicy, spelled_address

# How long addresses are cached. The system's resolver reports no time to live.
KEPT_S: Final = 30.0
# How long a failed look-up is cached.
FAILURE_KEPT_S: Final = 1.0
# How long the last known addresses of a host are used while its name cannot be looked up.
LAST_KNOWN_S: Final = 3_600.0
# The errors of a name server that answers that there is no such name. All other errors tell nothing
# about the name.
_NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None)})
HOSTS_MAX: Final = 10_000
# How long a refusal of an address is not logged again. It is then logged again, so that it appears
# in each day's log.
LOG_AGAIN_S: Final = 3_600.0
# The maximum number of look-ups at the same time. A look-up occupies a thread while it runs, and
# may hang in the system's resolver.
LOOKUPS_MAX: Final = 32

Found = asyncio.Future[Sequence[Address]]

_log = structlog.get_logger()


class RefusedAddressError(httpx.ConnectError):
    """Nothing may be sent to the host, because the egress policy refuses one of its addresses."""


class _Known(NamedTuple):
    """A look-up of a host, running or finished. All requests to the host wait for the same look-up.

    While the look-up runs, and if it fails, the addresses of an earlier look-up are used
    (`before`).
    """

    found: Found
    started_at: float
    before: "_Addresses | None" = None

    @property
    def failed(self) -> bool:
        return self.found.cancelled() or self.found.exception() is not None

    def latest(self) -> "_Addresses | None":
        """Return the last known addresses. The look-up must be finished."""
        if not self.failed:
            return _Addresses(self.found.result(), self.started_at)
        there_is_none = not self.found.cancelled() and _is_no_such_name(self.found.exception())
        return None if there_is_none else self.before


class _Addresses(NamedTuple):
    addresses: Sequence[Address]
    found_at: float


class Resolver:
    """Returns the allowed addresses of hosts.

    If one address of a host is refused, the whole host is refused, because such a host is an attack
    or a mistake.

    If the name server does not answer, the last known addresses of the host are used for up to an
    hour. If it answers that there is no such name, they are not used.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        look_up: Callable[[str], Found] | None = None,
        *,
        kept_s: float = KEPT_S,
        failure_kept_s: float = FAILURE_KEPT_S,
        last_known_s: float = LAST_KNOWN_S,
        hosts_max: int = HOSTS_MAX,
        log_again_s: float = LOG_AGAIN_S,
    ) -> None:
        self._policy = policy
        self._threads: ThreadPoolExecutor | None = None
        self._look_up = look_up or self._system_found
        self._kept_s = kept_s
        self._failure_kept_s = failure_kept_s
        self._last_known_s = last_known_s
        self._hosts_max = hosts_max
        self._loop = asyncio.get_running_loop()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._log_again_s = log_again_s
        # For each host and refused address, when the refusal was last logged, and for each host
        # without an address, when a failure was last logged. Without these times, an endpoint with
        # a backlog would fill the log output.
        self._logged: OrderedDict[tuple[str, Address | None], float] = OrderedDict()

    async def addresses(self, host: str, port: int) -> Sequence[Address]:
        """Return the addresses to dial, the preferred ones first.

        Raises:
            OSError: The look-up failed.
            RefusedAddressError: The egress policy refuses an address.
        """
        spelled = spelled_address(host)
        found = (spelled,) if spelled is not None else await self._found(host)
        for address in found:
            problem = self._policy.problem(address, port)
            if problem is not None:
                self._log_problem(host, address, problem)
                raise RefusedAddressError(problem)
        return found

    def close(self) -> None:
        """Stop all look-ups, without waiting for look-ups that hang."""
        for known in self._known.values():
            known.found.cancel()
        self._known.clear()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _found(self, host: str) -> Sequence[Address]:
        now = self._loop.time()
        known = self._known.get(host)
        if known is None or self._is_stale(known, now):
            found = self._look_up(host)
            # Read the error of the look-up here. asyncio logs an error that nobody reads, and the
            # caller does not read it if it was cancelled.
            found.add_done_callback(lambda done: done.cancelled() or done.exception())
            known = self._known[host] = _Known(found, now, known and known.latest())
            self._drop_surplus()
        self._known.move_to_end(host)
        last = known.latest() if known.found.done() else known.before
        if last is not None and now - last.found_at < self._last_known_s:
            if known.found.done() and known.failed:
                self._log_failure(host, known.found)
            return last.addresses
        # Let the look-up continue for other callers if this caller is cancelled.
        try:
            return await asyncio.shield(known.found)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not known.found.cancelled() or task is None or task.cancelling():
                raise
            # The look-up was cancelled, but this request was not. Raise an error, because the
            # request needs an outcome.
            message = "the look-up was given up: too many names at once, or the end"
            raise OSError(message) from None

    def _is_stale(self, known: _Known, now: float) -> bool:
        if not known.found.done():
            return False
        return now - known.started_at >= (self._failure_kept_s if known.failed else self._kept_s)

    def _drop_surplus(self) -> None:
        while len(self._known) > self._hosts_max:
            _, dropped = self._known.popitem(last=False)
            dropped.found.cancel()

    def _log_problem(self, host: str, address: Address, problem: str) -> None:
        if self._is_news(host, address):
            _log.warning("egress_refused", host=host, address=str(address), reason=problem)

    def _log_failure(self, host: str, failed: Found) -> None:
        if self._is_news(host, None):
            error = None if failed.cancelled() else failed.exception()
            _log.warning("last_known_addresses_used", host=host, error=str(error or "given up"))

    def _is_news(self, host: str, address: Address | None) -> bool:
        """Whether this was not logged lately. If so, remember that it is logged now."""
        key = (host, address)
        now, last = self._loop.time(), self._logged.get(key)
        if last is not None and now - last < self._log_again_s:
            return False
        self._logged[key] = now
        self._logged.move_to_end(key)
        while len(self._logged) > self._hosts_max:
            self._logged.popitem(last=False)
        return True

    def _system_found(self, host: str) -> Found:
        if self._threads is None:
            # Use a separate thread pool, because other work in threads must not wait for a name
            # server.
            self._threads = ThreadPoolExecutor(LOOKUPS_MAX, thread_name_prefix="resolver")
        return self._loop.run_in_executor(self._threads, _system_addresses, host)


def _is_no_such_name(error: BaseException | None) -> bool:
    return isinstance(error, socket.gaierror) and error.errno in _NO_SUCH_NAME


def _system_addresses(host: str) -> Sequence[Address]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    # Remove repeated addresses with a dictionary, because it keeps the system's order of
    # preference.
    return tuple(dict.fromkeys(ip_address(entry[4][0]) for entry in found))
