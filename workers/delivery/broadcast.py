"""A destination with many addresses, each of which gets every message (BROADCAST, as in Hermes)."""

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
from workers.transport.late_start import take_may_start
from workers.transport.used_connection import USED_CONNECTION, UsedConnection

# The maximum number of addresses. Each address needs a connection, and a request for every message
# in flight, and the owner of the name alone decides how many addresses there are.
ADDRESSES_MAX: Final = 16
NO_STATUS: Final = 0


class Way(NamedTuple):
    """The target of a request, and how many seconds the request may take in total."""

    origin: ConnectionOrigin
    total_s: float


class Addressable(Protocol):
    """An endpoint whose host name stands for several addresses."""

    @property
    def way(self) -> Way:
        """The target of the endpoint's requests, and how long each may take."""

    async def addresses(self) -> Sequence[Address] | Outcome:
        """Return all current addresses of the host, or an outcome if the look-up fails."""

    def request(
        self, message: Message, retry_count: int, authorization: Header | None
    ) -> bytes | Discarded:
        """Return the request as bytes, or an outcome that says why there can be none."""

    async def post(self, request: bytes, way: Way) -> Outcome:
        """Send one POST with these bytes to the target `way`.

        Network errors are outcomes; they are not raised.
        """


class BroadcastDestination:
    """Sends to every address of its host. A message is delivered when all have accepted it.

    An attempt sends the same bytes at the same time to each unfinished address. An address is
    finished when it has accepted or finally refused the message. Only this worker knows which
    addresses are finished. So after a restart, or if the message is read again, the message is sent
    to all addresses again. If one address has refused a message, the message is discarded when all
    other addresses are finished.

    The subscriber is healthy if at least one address that got a request is healthy.
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
        """Do nothing. Use `attempt`, because a broadcast has to wait for several responses."""

    async def attempt(
        self, message: Message, *, retry_count: int, authorization: Header | None = None
    ) -> Outcome:
        """Send one POST to each unfinished address within one deadline.

        Returns:
            The combined outcome.
        """
        began = asyncio.get_running_loop().time()
        if retry_count == 0:
            # Forget the outcomes of earlier attempts when a message starts again from the
            # beginning, for example after a seek. Then the message must be sent to all addresses
            # again.
            self._unfinished.forget(message)
        addresses = await self._inner.addresses()
        if isinstance(addresses, Delivered | Retry | Discarded):
            return addresses
        if len(addresses) > ADDRESSES_MAX:
            return _too_many(addresses)
        # Build and sign the request once for all addresses, because it can be large.
        request = self._inner.request(message, retry_count, authorization)
        if isinstance(request, Discarded):
            return request
        done = self._unfinished.progress(message)
        left = [address for address in addresses if address not in done]
        posts = await self._posted(request, left, began)
        answered = {address: post.outcome for address, post in posts.items()}
        # An address that answered 401 does not count as finished, because it may accept the message
        # with another token.
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
        """Send the request to each address at the same time. Return the outcomes by address.

        The time limit of the attempt counts from `began`.
        """
        origin, total_s = self._inner.way
        left_s = began + total_s - asyncio.get_running_loop().time()
        # Remove the check that is made when a request had to wait for a connection
        # (`workers.transport.late_start`). The check could stop the requests to some addresses
        # only, and an attempt can only be stopped as a whole.
        take_may_start()
        async with asyncio.TaskGroup() as tasks:
            posts = {
                address: tasks.create_task(
                    self._post(request, Way(origin._replace(address=address), left_s))
                )
                for address in addresses
            }
        return {address: post.result() for address, post in posts.items()}

    async def _post(self, request: bytes, way: Way) -> "_Post":
        """Send the request, and record its connection if the caller wants these details.

        Each call runs in a task of its own, so each call can set its own value of USED_CONNECTION.
        """
        used_connection = None if USED_CONNECTION.get() is None else UsedConnection()
        USED_CONNECTION.set(used_connection)
        return _Post(await self._inner.post(request, way), used_connection)


class _Post(NamedTuple):
    """The outcome of one request, and its connection's details if the caller wants them."""

    outcome: Outcome
    used_connection: UsedConnection | None


class AddressOutcomes(dict[Address, Outcome]):
    """The outcome of each address that is finished with a message."""

    __slots__ = ("__weakref__",)


class UnfinishedAddresses:
    """Remembers, for unfinished messages, which addresses have accepted or refused them.

    The outcomes of a message are held by weak references, and exist as long as a retry refers to
    them. So they disappear without a call when the message is discarded.
    """

    def __init__(self) -> None:
        self._progress: WeakValueDictionary[tuple[Partition, int], AddressOutcomes] = (
            WeakValueDictionary()
        )

    def __len__(self) -> int:
        """Return the number of known messages."""
        return len(self._progress)

    def progress(self, message: Message) -> AddressOutcomes:
        """Return the outcomes of the message. They exist as long as the caller refers to them."""
        return self._progress.setdefault((message.partition, message.offset), AddressOutcomes())

    def forget(self, message: Message) -> None:
        """Forget the message's outcomes.

        Call this when the message is finished, or starts again from the beginning.
        """
        self._progress.pop((message.partition, message.offset), None)


def together(outcomes: Mapping[Address, Outcome], first_reported: int = NO_STATUS) -> Outcome:
    """Return the one outcome that follows from the outcomes of all addresses.

    The message is retried while any address may still accept it, after the longest delay that an
    address requested. If no address may accept it any more, and any address refused it, the message
    is discarded. The reason of one failed address is reported, preferably of one with the status
    `first_reported`.
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
        return Discarded(
            reason=reason, status=reported.status, suspension=suspension, answer=reported.answer
        )
    return Retry(
        reason=reason,
        status=reported.status,
        retry_after=max((each.retry_after for each in retries if each.retry_after), default=None),
        error=reported.error if isinstance(reported, Retry) else None,
        blameless=all(each.blameless for each in retries),
        answer=reported.answer,
    )


def _others_well(
    answered: Mapping[Address, Outcome],
    done: Mapping[Address, Outcome],
    addresses: Collection[Address],
) -> bool | None:
    """Return the value of `Retry.others_well` for an attempt at several addresses.

    True if an address that got a request has accepted or refused the message. False if only some
    addresses got a request, and all of these failed. None if all addresses got a request and
    failed.
    """
    if any(each in done and done[each].status is not None for each in answered):
        return True
    return False if len(answered) < len(addresses) else None


def reported_address(
    outcomes: Mapping[Address, Outcome], first_reported: int = NO_STATUS
) -> Address | None:
    """Return the address whose failure `together` reports; None if all accepted the message."""
    failures = {a: each for a, each in outcomes.items() if not isinstance(each, Delivered)}
    return _reported(failures, first_reported) if failures else None


def _reported(failures: Mapping[Address, Retry | Discarded], first_reported: int) -> Address:
    """Return the address whose failure is reported.

    Failures with the status `first_reported` come first, then failures that are retried.
    """
    return min(
        failures,
        key=lambda at: (failures[at].status != first_reported, isinstance(failures[at], Discarded)),
    )


def _report_connection(posts: Mapping[Address, _Post], reported: Address | None) -> None:
    """Copy the details of the reported address's connection to USED_CONNECTION, if it is set."""
    used_connection = USED_CONNECTION.get()
    if used_connection is None:
        return
    used_connection.forget()  # drop the details of a token request's connection
    if reported is None and len(posts) == 1:
        reported = next(iter(posts))
    if reported is not None and reported in posts:
        used_connection.take(posts[reported].used_connection)


def _too_many(addresses: Sequence[Address]) -> Retry:
    return Retry(
        reason=f"The endpoint has {len(addresses)} addresses: BROADCAST goes to {ADDRESSES_MAX}"
    )
