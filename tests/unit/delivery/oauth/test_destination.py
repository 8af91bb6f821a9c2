"""Requests with tokens: which header they get, and what a refusal makes of an outcome."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest

from app.domain.circuit import ErrorType
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.message import Message, Partition, Record
from tests.fakes.oauth import POLICY, Answers, a_provider, issued
from workers.delivery.circuit import CircuitVerdict, verdict
from workers.delivery.health import is_healthy
from workers.delivery.in_flight import ResponseListener
from workers.delivery.oauth.bearer import Bearer
from workers.delivery.oauth.destination import (
    QUIET_MAX,
    AuthorizedDestination,
    Header,
)
from workers.delivery.oauth.source import Tokens

OK = Delivered(status=200)
REFUSED = Discarded(
    reason="Message sending failed with status code:401", status=401, answer="who are you?"
)
MESSAGE = Message(Record(7, 1, None, b"{}", [(b"id", b"m-1")]), Partition("g.t", 0))

Script = Callable[[str], Outcome]


class Endpoint:
    """Answers by the token it is sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.script: Script = lambda _: OK

    peer = ""

    def begin(
        self,
        message: Message,
        retry_count: int,
        listener: ResponseListener,
        *,
        authorization: Header | None = None,
    ) -> "Endpoint":
        listener.on_response(self._answer(message, authorization, retry_count))
        return self

    async def attempt(
        self, message: Message, *, retry_count: int, authorization: Header | None = None
    ) -> Outcome:
        return self._answer(message, authorization, retry_count)

    def cancel(self) -> None:
        return

    def _answer(self, message: Message, authorization: Header | None, retry_count: int) -> Outcome:
        assert (message, retry_count) == (MESSAGE, 3)
        assert authorization is not None
        name, value = authorization
        assert name == b"Authorization"
        self.sent.append(value.decode())
        return self.script(self.sent[-1])


class Listener:
    """Who hears what came of attempts."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.errors: list[Exception] = []

    def on_response(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def on_defect(self, error: Exception) -> None:
        self.errors.append(error)


class Sending:
    """A destination whose provider answers when it is told to."""

    def __init__(self, tokens: Tokens, answers: Answers) -> None:
        self.answers = answers
        self.endpoint = Endpoint()
        self.source = tokens.source(
            a_provider(initial_delay=timedelta(seconds=30), delay_max=timedelta(seconds=60)), POLICY
        )
        self.destination = self.patient(timedelta(seconds=5))

    def patient(self, token_timeout: timedelta) -> AuthorizedDestination:
        return AuthorizedDestination(
            self.endpoint, Bearer(self.source), token_timeout=token_timeout
        )

    async def answer(self, body: bytes, status: int = 200) -> None:
        await self.answers.asked()
        self.answers.answer(body, status)
        await self.source.settled()

    async def attempt(self) -> Outcome:
        return await self.destination.attempt(MESSAGE, retry_count=3)

    async def first_token(self) -> None:
        self.source.renew(time.monotonic())
        await self.answer(issued("t-1"))


@pytest.fixture
async def sending() -> AsyncIterator[Sending]:
    answers = Answers()
    async with asyncio.timeout(60), Tokens(answers, dice=lambda: 0.5) as tokens:
        yield Sending(tokens, answers)


async def test_a_first_attempt_waits_for_the_token(sending: Sending) -> None:
    async with asyncio.TaskGroup() as together:
        outcome = together.create_task(sending.attempt())
        together.create_task(sending.answer(issued("t-1")))
    assert outcome.result() == OK
    assert sending.endpoint.sent == ["Bearer t-1"]


async def test_an_attempt_waits_no_longer_than_it_may(sending: Sending) -> None:
    impatient = sending.patient(timedelta(milliseconds=20))
    outcome = await impatient.attempt(MESSAGE, retry_count=0)
    assert outcome == Retry(
        reason="No access token from the OAuth provider login: it has not answered yet",
        retry_after=timedelta(),
        blameless=True,
    )
    # The request goes on, for the next attempt.
    await sending.answer(issued("t-1"))
    assert await sending.attempt() == OK


async def test_while_there_is_no_token_nothing_is_sent_and_all_is_quiet(sending: Sending) -> None:
    sending.source.renew(time.monotonic())
    await sending.answer(b'{"error": "invalid_grant"}', 400)
    assert await sending.attempt() == Retry(
        reason="No access token from the OAuth provider login: it answered 400 (invalid_grant)",
        retry_after=QUIET_MAX,
        blameless=True,
    )
    assert sending.endpoint.sent == []


async def test_a_refused_token_makes_a_retry_and_the_next_refusal_is_final(
    sending: Sending,
) -> None:
    await sending.first_token()
    sending.endpoint.script = lambda _: REFUSED
    first = await sending.attempt()
    assert first == Retry(
        reason="Message sending failed with status code:401, to be sent with a new token",
        status=401,
        blameless=True,
        answer="who are you?",
    )
    await sending.answer(issued("t-2"))
    assert await sending.attempt() == REFUSED
    assert sending.endpoint.sent == ["Bearer t-1", "Bearer t-2"]


async def test_a_retry_with_a_new_token_keeps_what_the_other_addresses_answered(
    sending: Sending,
) -> None:
    await sending.first_token()
    later = timedelta(seconds=12)
    sending.endpoint.script = lambda _: Retry(
        reason="who are you? (at 10.0.0.1:80; 2 of 3 addresses have failed)",
        status=401,
        retry_after=later,
        others_well=True,
    )
    outcome = await sending.attempt()
    assert isinstance(outcome, Retry)
    assert (outcome.retry_after, outcome.others_well) == (later, True)
    assert outcome.blameless
    assert outcome.reason.endswith("to be sent with a new token")


async def test_a_subscriber_that_takes_the_new_token_gets_its_message(sending: Sending) -> None:
    await sending.first_token()
    sending.endpoint.script = lambda sent: REFUSED if sent == "Bearer t-1" else OK
    assert isinstance(await sending.attempt(), Retry)
    await sending.answer(issued("t-2"))
    assert await sending.attempt() == OK


async def test_other_outcomes_are_passed_on(sending: Sending) -> None:
    await sending.first_token()
    outcomes: list[Outcome] = [
        Retry(reason="slow", error=ErrorType.TIMEOUT),
        Retry(reason="ill", status=500),
        Discarded(reason="no", status=403),
        Discarded(reason="refused by the guard"),
    ]
    for each in outcomes:
        sending.endpoint.script = lambda _, each=each: each  # type: ignore[misc] # by value
        assert await sending.attempt() is each


async def test_nothing_is_begun_before_there_is_a_token(sending: Sending) -> None:
    listener = Listener()
    assert sending.destination.begin(MESSAGE, 3, listener) is None
    await sending.answer(issued("t-1"))
    assert sending.destination.begin(MESSAGE, 3, listener) is sending.endpoint
    assert listener.outcomes == [OK]


async def test_a_refusal_of_what_was_begun_means_the_same(sending: Sending) -> None:
    await sending.first_token()
    sending.endpoint.script = lambda _: REFUSED
    listener = Listener()
    assert sending.destination.begin(MESSAGE, 3, listener)
    await sending.answer(issued("t-2"))
    assert sending.destination.begin(MESSAGE, 3, listener)
    retried, refused = listener.outcomes
    assert isinstance(retried, Retry)
    assert (retried.blameless, refused) == (True, REFUSED)


async def test_a_subscriber_is_not_to_blame_for_its_provider(sending: Sending) -> None:
    sending.source.renew(time.monotonic())
    await sending.answer(b"", 500)
    outcome = await sending.attempt()
    assert is_healthy(outcome) is None
    assert verdict(outcome, set(ErrorType)) is CircuitVerdict.UNSENT


async def test_a_subscriber_is_not_to_blame_for_a_token_that_was_revoked(
    sending: Sending,
) -> None:
    await sending.first_token()
    sending.endpoint.script = lambda _: REFUSED
    outcome = await sending.attempt()
    assert is_healthy(outcome) is None
    assert verdict(outcome, set(ErrorType)) is CircuitVerdict.OTHER
