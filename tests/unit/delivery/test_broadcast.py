"""A message to many addresses: who gets it again, and what comes of all their answers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from ipaddress import ip_address

import pytest

from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.circuit import CircuitBreaker, ErrorType
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.message import Message, Partition, Record
from app.domain.network.egress import Address
from app.domain.status import RateMode
from workers.delivery.broadcast import (
    ADDRESSES_MAX,
    BroadcastDestination,
    UnfinishedAddresses,
    Way,
    together,
)
from workers.delivery.circuit import Circuit
from workers.delivery.oauth.destination import Header
from workers.delivery.pace import EndedRequest, Pace
from workers.transport.dialer import ConnectionOrigin
from workers.transport.late_start import set_may_start, take_may_start
from workers.transport.used_connection import USED_CONNECTION, UsedConnection, goes_by

A, B, C = (ip_address(f"10.0.0.{n}") for n in (1, 2, 3))
TOOK = Delivered(status=200)
BUSY = Retry(reason="busy", status=503, answer="wait")
NO = Discarded(reason="no", status=400, answer="never")
UNAUTHORIZED = Discarded(reason="who?", status=401)
TOKEN = (b"authorization", b"Bearer t")


class Replicas:
    """An endpoint whose host stands for addresses that answer by a script."""

    def __init__(self, **answers: Outcome) -> None:
        self.answers: dict[Address, Outcome] = {
            address: answers.get(name, TOOK) for name, address in (("a", A), ("b", B), ("c", C))
        }
        self.sent: list[Address] = []
        self.unreachable: Retry | None = None
        self.ways: list[Way] = []
        self.built = 0
        self.requests: list[bytes] = []

    @property
    def way(self) -> Way:
        return Way(ConnectionOrigin("http", "s.test", 80), 10.0)

    async def addresses(self) -> Sequence[Address] | Outcome:
        return self.unreachable or tuple(self.answers)

    def request(
        self, message: Message, retry_count: int, authorization: Header | None
    ) -> bytes | Discarded:
        del retry_count, authorization
        self.built += 1
        return Discarded(reason="no body") if message.body is None else b"POST %d" % self.built

    async def post(self, request: bytes, way: Way) -> Outcome:
        assert way.origin.address is not None
        self.requests.append(request)
        self.ways.append(way)
        self.sent.append(way.origin.address)
        goes_by(f"{way.origin.address}:80")
        return self.answers[way.origin.address]

    def then(self, **answers: Outcome) -> None:
        """From now on they answer so."""
        self.answers = Replicas(**answers).answers
        self.sent.clear()


def a_message(offset: int = 0) -> Message:
    return Message(Record(offset, 1, None, b"{}", []), Partition("g.t", 0))


def broadcast(replicas: Replicas) -> BroadcastDestination:
    return BroadcastDestination(replicas, UnfinishedAddresses())


async def test_each_address_gets_a_message_and_it_is_delivered_once_all_took_it() -> None:
    replicas = Replicas()
    assert await broadcast(replicas).attempt(a_message(), retry_count=0) == TOOK
    assert replicas.sent == [A, B, C]
    assert {way.origin.host for way in replicas.ways} == {"s.test"}
    assert all(9 < way.total_s <= 10 for way in replicas.ways)


async def test_only_those_that_have_not_taken_it_get_it_again() -> None:
    replicas = Replicas(b=BUSY)
    destination = broadcast(replicas)
    outcome = await destination.attempt(a_message(), retry_count=0)
    assert outcome == Retry(
        reason="busy (at 10.0.0.2; 1 of 3 addresses have failed)",
        status=503,
        others_well=True,
        answer="wait",
    )
    replicas.then(a=BUSY, c=BUSY)
    assert await destination.attempt(a_message(), retry_count=1) == TOOK
    assert replicas.sent == [B]
    # It is over: the same message once more is one that was read again.
    replicas.then()
    await destination.attempt(a_message(), retry_count=0)
    assert replicas.sent == [A, B, C]


async def test_no_address_is_left_out_because_its_request_had_to_wait() -> None:
    asked = list[object]()

    class Waiting(Replicas):
        async def post(self, request: bytes, way: Way) -> Outcome:
            asked.append(take_may_start())
            return await super().post(request, way)

    set_may_start(lambda: False)
    assert await broadcast(Waiting()).attempt(a_message(), retry_count=0) == TOOK
    assert asked == [None, None, None]


async def test_a_request_is_built_once_for_all_addresses() -> None:
    replicas = Replicas()
    await broadcast(replicas).attempt(a_message(), retry_count=0)
    assert replicas.requests == [b"POST 1"] * 3


async def test_a_message_of_which_no_request_can_be_made_is_discarded_and_sent_to_nobody() -> None:
    replicas = Replicas()
    bodiless = Message(Record(0, 1, None, None, []), Partition("g.t", 0))
    outcome = await broadcast(replicas).attempt(bodiless, retry_count=0)
    assert outcome == Discarded(reason="no body")
    assert replicas.sent == []


async def test_a_trace_names_the_address_of_which_it_tells() -> None:
    async def shown(attempt: Awaitable[Outcome]) -> tuple[str, Outcome]:
        USED_CONNECTION.set(used_connection := UsedConnection())
        outcome = await attempt
        return used_connection.address, outcome

    destination = broadcast(replicas := Replicas(b=BUSY))
    reported = [await shown(destination.attempt(a_message(), retry_count=0))]
    reported.append(await shown(destination.attempt(a_message(), retry_count=1)))
    replicas.then()
    reported.append(await shown(destination.attempt(a_message(), retry_count=2)))
    reported.append(await shown(destination.attempt(a_message(), retry_count=0)))
    replicas.then(a=NO, b=BUSY)
    reported.append(await shown(destination.attempt(a_message(), retry_count=0)))
    replicas.then()
    reported.append(await shown(destination.attempt(a_message(), retry_count=1)))
    # Where all took it no one of them is meant, nor one that refused it before and is not asked.
    asked = ["10.0.0.2:80", "10.0.0.2:80", "10.0.0.2:80", "", "10.0.0.2:80", ""]
    assert [address for address, _ in reported] == asked


async def test_messages_are_told_apart() -> None:
    replicas = Replicas(b=BUSY)
    destination = broadcast(replicas)
    await destination.attempt(a_message(1), retry_count=0)
    replicas.sent.clear()
    await destination.attempt(a_message(2), retry_count=0)
    assert replicas.sent == [A, B, C]


async def test_what_one_has_refused_is_discarded_when_the_others_are_done_with_it() -> None:
    replicas = Replicas(a=NO, b=BUSY)
    destination = broadcast(replicas)
    outcome = await destination.attempt(a_message(), retry_count=0)
    assert isinstance(outcome, Retry)
    assert outcome.reason == "busy (at 10.0.0.2; 2 of 3 addresses have failed)"
    replicas.then(a=TOOK, b=TOOK)
    assert await destination.attempt(a_message(), retry_count=1) == Discarded(
        reason="no (at 10.0.0.1; 1 of 3 addresses have failed)", status=400, answer="never"
    )
    assert replicas.sent == [B]


async def test_an_address_that_comes_gets_it_and_one_that_goes_needs_it_no_more() -> None:
    replicas = Replicas(b=BUSY)
    destination = broadcast(replicas)
    before = await destination.attempt(a_message(), retry_count=0)
    replicas.then()
    new = ip_address("10.0.0.4")
    replicas.answers = {A: TOOK, C: TOOK, new: TOOK}
    assert await destination.attempt(a_message(), retry_count=1) == TOOK
    assert replicas.sent == [new]
    assert isinstance(before, Retry)


async def test_who_has_a_message_is_known_as_long_as_somebody_is_to_try_it_again() -> None:
    unfinished = UnfinishedAddresses()
    destination = BroadcastDestination(replicas := Replicas(b=BUSY), unfinished)
    kept = await destination.attempt(a_message(0), retry_count=0)
    for offset in range(1, 1000):
        # They are given up, and nobody says so.
        await destination.attempt(a_message(offset), retry_count=0)
    assert len(unfinished) == 1
    replicas.sent.clear()
    kept = await destination.attempt(a_message(0), retry_count=1)
    assert replicas.sent == [B]
    del kept
    assert len(unfinished) == 0


async def test_a_message_that_is_read_again_goes_to_all_whatever_came_of_it_at_first() -> None:
    replicas = Replicas(b=BUSY)
    destination = broadcast(replicas)
    before = await destination.attempt(a_message(), retry_count=0)
    replicas.unreachable = Retry(reason="no such name", error=ErrorType.CONNECTION)
    await destination.attempt(a_message(), retry_count=0)
    replicas.then()
    replicas.unreachable = None
    await destination.attempt(a_message(), retry_count=1)
    assert replicas.sent == [A, B, C]
    assert isinstance(before, Retry)


async def test_an_attempt_that_sends_nothing_changes_nothing_in_who_has_a_message() -> None:
    replicas = Replicas(b=BUSY)
    destination = broadcast(replicas)
    before = await destination.attempt(a_message(), retry_count=0)
    replicas.unreachable = Retry(reason="no such name", error=ErrorType.CONNECTION)
    await destination.attempt(a_message(), retry_count=1)
    replicas.then()
    replicas.unreachable = None
    await destination.attempt(a_message(), retry_count=2)
    assert replicas.sent == [B]
    assert isinstance(before, Retry)


async def test_a_name_that_is_not_known_is_a_failed_attempt() -> None:
    replicas = Replicas()
    unknown = Retry(reason="no such name", error=ErrorType.CONNECTION)
    replicas.unreachable = unknown
    assert await broadcast(replicas).attempt(a_message(), retry_count=0) == unknown
    assert replicas.sent == []


async def test_more_addresses_than_may_be_get_nothing() -> None:
    replicas = Replicas()
    replicas.answers = {ip_address(0x0A000000 + n): TOOK for n in range(ADDRESSES_MAX + 1)}
    outcome = await broadcast(replicas).attempt(a_message(), retry_count=0)
    assert outcome == Retry(reason="The endpoint has 17 addresses: BROADCAST goes to 16")
    assert replicas.sent == []


@pytest.mark.parametrize("others", [TOOK, BUSY, NO])
async def test_a_token_that_one_does_not_take_is_told_and_it_gets_another(others: Outcome) -> None:
    replicas = Replicas(a=others, b=UNAUTHORIZED, c=others)
    destination = broadcast(replicas)
    outcome = await destination.attempt(a_message(), retry_count=0, authorization=TOKEN)
    assert outcome.status == 401
    assert isinstance(outcome, Retry) == isinstance(others, Retry)
    replicas.then()
    await destination.attempt(a_message(), retry_count=1, authorization=TOKEN)
    assert replicas.sent == ([A, B, C] if others == BUSY else [B])


async def test_who_gives_an_attempt_up_ends_all_its_requests() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    class Hanging(Replicas):
        async def post(self, request: bytes, way: Way) -> Outcome:
            del request, way
            began.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.set()
            return TOOK

    async with asyncio.TaskGroup() as tasks:
        attempt = tasks.create_task(broadcast(Hanging()).attempt(a_message(), retry_count=0))
        await began.wait()
        attempt.cancel()
    assert attempt.cancelled()
    assert ended.is_set()


async def fared(replicas: Replicas, *, retried: bool = False) -> Outcome:
    """What comes of an attempt at a message, or of the next one at it after one that failed."""
    destination = broadcast(replicas)
    outcome = await destination.attempt(a_message(), retry_count=0)
    return await destination.attempt(a_message(), retry_count=1) if retried else outcome


def after_a_minute(*outcomes: tuple[Outcome, bool], before: Pace | None = None) -> Pace:
    """A pace that these came to, again and again, ten times a second; True: of retries."""
    pace, start = before or Pace(DeliveryPolicy(), 0.0), 60.0 if before else 0.0
    for tenth in range(600):
        now = start + tenth / 10
        for outcome, retried in outcomes:
            pace.learn(EndedRequest(pace.sent(now), outcome, 0.01, retried, full=False), now)
    return pace


def after_many(*outcomes: Outcome, circuit: Circuit | None = None) -> Circuit:
    """A circuit that these came to, a hundred times."""
    circuit = circuit or Circuit(0.0)
    for second in range(1, 101):
        for outcome in outcomes:
            if circuit.wait(second) == 0:
                circuit.sent(second)
                rule = CircuitBreaker(errors_threshold=3, trip_timeout=10)
                circuit.report(outcome, rule, sent_at=second, now=second)
    return circuit


@pytest.mark.parametrize("well", [TOOK, NO])
async def test_an_address_that_is_down_slows_nothing_down_while_others_answer(
    well: Outcome,
) -> None:
    first = await fared(Replicas(a=well, b=BUSY))
    again = await fared(Replicas(a=well, b=BUSY), retried=True)
    assert isinstance(first, Retry)
    assert isinstance(again, Retry)
    for answered in ([(first, False)], [(first, False), (again, True)], [(again, True)]):
        output = after_a_minute(*answered).output(60.0)
        assert output.mode is RateMode.NORMAL
        assert "failed" not in output.reason
        assert after_many(*(outcome for outcome, _ in answered)).closed


async def test_all_addresses_that_are_down_are_a_subscriber_that_is() -> None:
    replicas = Replicas(a=BUSY, b=BUSY, c=BUSY)
    for outcome in (await fared(replicas), await fared(replicas, retried=True)):
        assert after_a_minute((outcome, False)).output(60.0).mode is RateMode.HEARTBEAT
        assert not after_many(outcome).closed


async def test_a_subscriber_that_was_down_is_not_up_because_of_who_took_a_message_before() -> None:
    down = await fared(Replicas(a=BUSY, b=BUSY, c=BUSY))
    again = await fared(Replicas(b=BUSY), retried=True)
    pace, circuit = after_a_minute((down, False)), after_many(down)
    assert after_a_minute((again, True), before=pace).output(120.0).mode is RateMode.HEARTBEAT
    assert not after_many(again, circuit=circuit).closed
    first = await fared(Replicas(b=BUSY))
    assert after_a_minute((first, False), before=pace).output(120.0).mode is not RateMode.HEARTBEAT


def at(*outcomes: Outcome) -> Mapping[Address, Outcome]:
    return dict(zip((A, B, C), outcomes, strict=False))


S = timedelta(seconds=1)
TOGETHER: Mapping[str, tuple[Mapping[Address, Outcome], Callable[[Outcome], bool]]] = {
    "one alone is told as it is": (at(BUSY), lambda reported: reported == BUSY),
    "what one of them answered is told": (
        at(NO, TOOK, BUSY),
        lambda reported: isinstance(reported, Retry) and reported.answer == "wait",
    ),
    "what the one that refused it answered is told": (
        at(TOOK, NO),
        lambda reported: isinstance(reported, Discarded) and reported.answer == "never",
    ),
    "not before each of them wants it": (
        at(Retry(reason="r", retry_after=3 * S), TOOK, Retry(reason="r", retry_after=9 * S)),
        lambda reported: isinstance(reported, Retry) and reported.retry_after == 9 * S,
    ),
    "blame is for those that have some": (
        at(Retry(reason="r", blameless=True), Retry(reason="r")),
        lambda reported: isinstance(reported, Retry) and not reported.blameless,
    ),
    "no blame if none has any": (
        at(Retry(reason="r", blameless=True), TOOK),
        lambda reported: isinstance(reported, Retry) and reported.blameless,
    ),
    "one that is gone suspends, once the others are through": (
        at(TOOK, Discarded(reason="gone", status=410, suspension="gone"), NO),
        lambda reported: isinstance(reported, Discarded) and reported.suspension == "gone",
    ),
    "who has no time is told so": (
        at(Retry(reason="late", error=ErrorType.TIMEOUT), NO),
        lambda reported: isinstance(reported, Retry) and reported.timed_out,
    ),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_what_all_answers_come_to(name: str) -> None:
    outcomes, is_so = TOGETHER[name]
    assert is_so(together(outcomes))
