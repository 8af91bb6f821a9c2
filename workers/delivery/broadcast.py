"""A destination of many addresses, each of which gets every message (Hermes' BROADCAST)."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Final, NamedTuple, Protocol, assert_never
from weakref import WeakValueDictionary

from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.message import Message, Partition
from app.domain.network.egress import Address
from workers.delivery.in_flight import ResponseListener
from workers.delivery.oauth.destination import Header
from workers.transport.dialer import ConnectionOrigin
from workers.transport.used_connection import USED_CONNECTION, UsedConnection

# The owner of the name decides how many there are, and each costs a connection and a request for
# every message in flight.
ADDRESSES_MAX: Final = 16
NO_STATUS: Final = 0


class Way(NamedTuple):
    """Where a request goes, and how many seconds it may take in all."""

    origin: ConnectionOrigin
    total_s: float


class Addressable(Protocol):
    """An endpoint whose host stands for addresses."""

    @property
    def way(self) -> Way:
        """Where its requests go, and how long each may take."""

    async def addresses(self) -> Sequence[Address] | Outcome:
        """All that its host stands for now, or an outcome where that is not known."""

    def request(
        self, message: Message, retry_count: int, authorization: Header | None
    ) -> bytes | Discarded:
        """The bytes to send, or why none can be."""

    async def post(self, request: bytes, way: Way) -> Outcome:
        """One POST of these bytes, by `way`; never raises for what a network does."""


class BroadcastDestination:
    """`inner` at every address that its host stands for: a message is delivered once each took it.

    An attempt is one POST of the same bytes to each address that is not done with the message, all
    at once: it is done once it took it, or refused it for good, as far as is known. What is
    forgotten, as by the end of the worker, goes to all again, and so does what is read again. A
    message that one address has refused is discarded once all others are done with it.

    The subscriber is healthy if one address that got a request is.
    """

    __slots__ = ("_inner", "_unfinished")

    def __init__(self, inner: Addressable, unfinished: "UnfinishedAddresses") -> None:
        self._inner = inner
        self._unfinished = unfinished

    def begin(
        self,
        message: Message,
        retry_count: int,
        listener: ResponseListener,
        *,
        authorization: Header | None = None,
    ) -> None:
        """Nothing is begun: several answers are to be awaited."""

    async def attempt(
        self, message: Message, *, retry_count: int, authorization: Header | None = None
    ) -> Outcome:
        """One POST to each address that is left, within one deadline, and what they come to."""
        began = asyncio.get_running_loop().time()
        if retry_count == 0:
            # Also after a seek, which is for all of them.
            self._unfinished.forget(message)
        addresses = await self._inner.addresses()
        if isinstance(addresses, Delivered | Retry | Discarded):
            return addresses
        if len(addresses) > ADDRESSES_MAX:
            return _too_many(addresses)
        # Built and signed once: it may be large, and addresses many.
        request = self._inner.request(message, retry_count, authorization)
        if isinstance(request, Discarded):
            return request
        done = self._unfinished.progress(message)
        left = [address for address in addresses if address not in done]
        posts = await self._posted(request, left, began)
        answered = {address: post.outcome for address, post in posts.items()}
        # Another token may be taken where this one was not.
        again = HTTPStatus.UNAUTHORIZED if authorization is not None else NO_STATUS
        done |= {
            address: outcome
            for address, outcome in answered.items()
            if not isinstance(outcome, Retry) and outcome.status != again
        }
        outcomes = {each: done.get(each) or answered[each] for each in addresses}
        outcome = together(outcomes, again)
        _report_connection(posts, reported_address(outcomes, again))
        match outcome:
            case Delivered():
                return outcome
            case Discarded():
                return replace(outcome, progress=done) if outcome.status == again else outcome
            case Retry():
                well = _others_well(answered, done, addresses)
                return replace(outcome, progress=done, others_well=well)
        assert_never(outcome)

    async def _posted(
        self, request: bytes, addresses: Collection[Address], began: float
    ) -> Mapping[Address, "_Post"]:
        """What each of the addresses makes of it, in what is left of the time since then."""
        origin, total_s = self._inner.way
        left_s = began + total_s - asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as tasks:
            posts = {
                address: tasks.create_task(
                    self._post(request, Way(origin._replace(address=address), left_s))
                )
                for address in addresses
            }
        return {address: post.result() for address, post in posts.items()}

    async def _post(self, request: bytes, way: Way) -> "_Post":
        """In a task of its own: other connections are opened meanwhile."""
        used_connection = None if USED_CONNECTION.get() is None else UsedConnection()
        USED_CONNECTION.set(used_connection)
        return _Post(await self._inner.post(request, way), used_connection)


class _Post(NamedTuple):
    """What came of one request, and what is known of its connection if somebody wants to know."""

    outcome: Outcome
    used_connection: UsedConnection | None


class AddressOutcomes(dict[Address, Outcome]):
    """What each address that is done with a message has made of it."""

    __slots__ = ("__weakref__",)


class UnfinishedAddresses:
    """Which addresses are done with messages that others are not.

    Of each message as long as somebody holds the outcome for a retry: who gives a
    message up, for whatever reason, need not report that.
    """

    def __init__(self) -> None:
        self._progress: WeakValueDictionary[tuple[Partition, int], AddressOutcomes] = (
            WeakValueDictionary()
        )

    def __len__(self) -> int:
        """Messages that are known."""
        return len(self._progress)

    def progress(self, message: Message) -> AddressOutcomes:
        """What is known of it; kept if the caller keeps it."""
        return self._progress.setdefault((message.partition, message.offset), AddressOutcomes())

    def forget(self, message: Message) -> None:
        """It is not tried again, or as if it never had been."""
        self._progress.pop((message.partition, message.offset), None)


def together(outcomes: Mapping[Address, Outcome], first_reported: int = NO_STATUS) -> Outcome:
    """What the outcomes at all addresses come to for the message.

    It is tried again while any of them may take it yet, and not before each of these wants it; else
    it is discarded if any has refused it. A failure with the status `first_reported` is reported
    before others.
    """
    failures = {a: each for a, each in outcomes.items() if not isinstance(each, Delivered)}
    retries = [each for each in failures.values() if isinstance(each, Retry)]
    if not failures:
        return next(iter(outcomes.values()))
    address = _reported(failures, first_reported)
    reported = failures[address]
    reason = reported.reason
    if len(outcomes) > 1:
        reason += f" (at {address}; {len(failures)} of {len(outcomes)} addresses have failed)"
    if not retries:
        suspensions = (each.suspension for each in failures.values() if isinstance(each, Discarded))
        suspension = next((each for each in suspensions if each), None)
        return Discarded(reason=reason, status=reported.status, suspension=suspension)
    return Retry(
        reason=reason,
        status=reported.status,
        retry_after=max((each.retry_after for each in retries if each.retry_after), default=None),
        error=reported.error if isinstance(reported, Retry) else None,
        blameless=all(each.blameless for each in retries),
    )


def _others_well(
    answered: Mapping[Address, Outcome],
    done: Mapping[Address, Outcome],
    addresses: Collection[Address],
) -> bool | None:
    """As in `Retry`, of those of these addresses that got a request; None: all failed."""
    if any(each in done and done[each].status is not None for each in answered):
        return True
    return False if len(answered) < len(addresses) else None


def reported_address(
    outcomes: Mapping[Address, Outcome], first_reported: int = NO_STATUS
) -> Address | None:
    """The address with the outcome that `together` reports; None: all took it."""
    failures = {a: each for a, each in outcomes.items() if not isinstance(each, Delivered)}
    return _reported(failures, first_reported) if failures else None


def _reported(failures: Mapping[Address, Retry | Discarded], first_reported: int) -> Address:
    """The failure that counts for all: those that go on before those that are over."""
    return min(
        failures,
        key=lambda at: (failures[at].status != first_reported, isinstance(failures[at], Discarded)),
    )


def _report_connection(posts: Mapping[Address, _Post], reported: Address | None) -> None:
    """Report the connection of the address that is reported, if that is wanted."""
    used_connection = USED_CONNECTION.get()
    if used_connection is None:
        return
    used_connection.forget()  # a connection for its token
    if reported is None and len(posts) == 1:
        reported = next(iter(posts))
    if reported is not None and reported in posts:
        used_connection.take(posts[reported].used_connection)


def _too_many(addresses: Sequence[Address]) -> Retry:
    return Retry(
        reason=f"The endpoint has {len(addresses)} addresses: BROADCAST goes to {ADDRESSES_MAX}"
    )
