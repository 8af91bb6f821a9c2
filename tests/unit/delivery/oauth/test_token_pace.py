"""A pace that waits for tokens, too."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.delivery import Delivered, Retry
from tests.fakes.oauth import POLICY, Answers, a_provider, issued
from workers.delivery.oauth.bearer import Bearer
from workers.delivery.oauth.source import Tokens
from workers.delivery.oauth.token_pace import TokenPace
from workers.delivery.pace import EndedRequest, Pace
from workers.delivery.share import Share

TIMEOUT = timedelta(seconds=3)


class Pacing:
    def __init__(self, tokens: Tokens, answers: Answers) -> None:
        self.answers = answers
        self.now = time.monotonic()
        self.woken = 0
        self.source = tokens.source(a_provider(request_timeout=TIMEOUT), POLICY)
        pace = Pace(DeliveryPolicy(rate=10, adaptive_rate=False), self.now)
        pace.share(Share.owned(10, {0}, 1), self.now)
        self.pace = TokenPace(pace, Bearer(self.source), self._wake)
        self.plain = pace

    def _wake(self) -> None:
        self.woken += 1

    async def answer(self, body: bytes, status: int = 200) -> None:
        await self.answers.asked()
        self.answers.answer(body, status)
        await self.source.settled()


@pytest.fixture
async def pacing() -> AsyncIterator[Pacing]:
    answers = Answers()
    async with asyncio.timeout(60), Tokens(answers, dice=lambda: 0.5) as tokens:
        yield Pacing(tokens, answers)


async def test_nothing_leaves_before_the_token_is_there_and_then_at_once(pacing: Pacing) -> None:
    assert pacing.pace.wait(pacing.now) > 0
    assert pacing.pace.wait(pacing.now) > 0
    assert pacing.woken == 0
    await pacing.answer(issued("t-1"))
    assert pacing.woken == 1
    assert pacing.pace.wait(pacing.now) == 0
    assert len(pacing.answers.requests) == 1


async def test_the_rate_is_kept_to_once_it_is_there(pacing: Pacing) -> None:
    pacing.pace.wait(pacing.now)
    await pacing.answer(issued("t-1"))
    pacing.pace.sent(pacing.now)
    assert pacing.pace.wait(pacing.now) == pacing.plain.wait(pacing.now) > 0


async def test_attempts_are_let_out_to_fail_while_no_token_can_be_had(pacing: Pacing) -> None:
    pacing.pace.wait(pacing.now)
    await pacing.answer(b"", 500)
    assert pacing.woken == 1
    assert pacing.pace.wait(pacing.now) == 0


async def test_a_provider_that_hangs_is_not_waited_for_longer_than_it_may_take(
    pacing: Pacing,
) -> None:
    assert pacing.pace.wait(pacing.now) > 0
    assert pacing.pace.wait(pacing.now + TIMEOUT.total_seconds() - 0.1) > 0
    assert pacing.pace.wait(pacing.now + TIMEOUT.total_seconds()) == 0


async def test_nobody_waits_while_a_token_that_is_good_is_renewed(pacing: Pacing) -> None:
    pacing.pace.wait(pacing.now)
    await pacing.answer(issued("t-1", 3600))
    late = pacing.now + 3590
    assert pacing.pace.wait(late) == 0
    await pacing.answer(issued("t-2", 3600))
    assert len(pacing.answers.requests) == 2


async def test_its_output_says_why_nothing_leaves(pacing: Pacing) -> None:
    assert pacing.pace.output(pacing.now) == pacing.plain.output(pacing.now)
    pacing.pace.wait(pacing.now)
    await pacing.answer(b'{"error": "invalid_client"}', 401)
    output = pacing.pace.output(pacing.now)
    assert output.rate == 0
    assert output.reason == (
        "no access token from the OAuth provider login: it answered 401 (invalid_client)"
    )
    pacing.pace.wait(pacing.source.paused_until)
    await pacing.answer(issued("t-1"))
    assert pacing.pace.output(pacing.now) == pacing.plain.output(pacing.now)


async def test_all_else_is_as_the_pace_says(pacing: Pacing) -> None:
    assert (pacing.pace.cautious, pacing.pace.reads_ahead) == (False, True)
    epoch = pacing.pace.sent(pacing.now)
    ended = EndedRequest(epoch, Delivered(status=200), 0.01, retried=False, full=False)
    assert pacing.pace.learn(ended, pacing.now) is False
    pacing.plain.configure(DeliveryPolicy(rate=10), pacing.now)
    for tenth in range(40):
        now = pacing.now + tenth / 10
        failed = ended._replace(epoch=pacing.plain.sent(now), outcome=Retry(reason="", status=500))
        pacing.plain.learn(failed, now)
    assert pacing.pace.next_probe == pacing.plain.next_probe is not None
