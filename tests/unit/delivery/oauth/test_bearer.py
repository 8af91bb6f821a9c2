"""What a subscription does about its tokens, and about their refusal."""

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest

from app.domain.message import Message, Partition, Record
from app.token_answers import Issued
from tests.fakes.oauth import POLICY, Answers, a_provider
from workers.delivery.oauth.bearer import REMEMBERED_MAX, Bearer
from workers.delivery.oauth.client import ProviderClient
from workers.delivery.oauth.source import TokenSource
from workers.delivery.oauth.token import AccessToken, access_token

NOW = 1000.0
# The pauses between renewals: one second, two, four, and so on up to eight.
PROVIDER = a_provider(initial_delay=timedelta(seconds=1), delay_max=timedelta(seconds=8))


def a_message(offset: int = 0) -> Message:
    return Message(Record(offset, 1, None, b"{}", [(b"id", b"m")]), Partition("g.t", 0))


class Issuing:
    """A source whose requests are counted, and answered when `issue` is called."""

    def __init__(self) -> None:
        self.asked = 0
        client = ProviderClient(PROVIDER, Answers())
        self.source = TokenSource(client, POLICY, spawn=self._spawn, dice=lambda: 0.5)

    def issue(self, now: float = NOW, lifetime_s: float | None = 3600.0) -> AccessToken:
        before = self.source.current
        self.source.current = access_token(
            Issued("t", lifetime_s), serial=before.serial + 1 if before else 1, now=now, dice=0.5
        )
        self.source.requesting_since = None
        return self.source.current

    def _spawn(self, request: Coroutine[Any, Any, None]) -> None:
        request.close()
        self.asked += 1


@pytest.fixture
async def issuing() -> Issuing:
    return Issuing()


@pytest.fixture
def bearer(issuing: Issuing) -> Bearer:
    return Bearer(issuing.source)


def test_the_first_use_asks_for_a_token(issuing: Issuing, bearer: Bearer) -> None:
    assert bearer.usable(NOW) is None
    assert bearer.usable(NOW) is None
    assert issuing.asked == 1
    token = issuing.issue()
    assert bearer.usable(NOW) is token


def test_a_token_is_renewed_while_it_is_used(issuing: Issuing, bearer: Bearer) -> None:
    first = issuing.issue()
    assert bearer.usable(first.renewed_at - 0.1) is first
    assert issuing.asked == 0
    assert bearer.usable(first.renewed_at) is first
    assert bearer.usable(first.ends_at - 0.1) is first
    assert issuing.asked == 1
    second = issuing.issue(first.renewed_at)
    assert bearer.usable(first.ends_at - 0.1) is second


def test_a_token_that_has_ended_is_not_used(issuing: Issuing, bearer: Bearer) -> None:
    first = issuing.issue()
    assert bearer.usable(first.renewed_at) is first
    assert bearer.usable(first.ends_at) is None


def test_a_refused_token_is_replaced_once_for_a_thousand_messages(
    issuing: Issuing, bearer: Bearer
) -> None:
    token = issuing.issue()
    bearer.accepted(token, a_message())
    assert all(bearer.refused(token, a_message(n), NOW) for n in range(1000))
    assert issuing.asked == 1
    assert bearer.usable(NOW) is None
    assert bearer.usable(NOW) is None
    assert issuing.asked == 1


def test_a_message_that_is_refused_with_two_tokens_is_judged(
    issuing: Issuing, bearer: Bearer
) -> None:
    assert bearer.refused(issuing.issue(), a_message(), NOW)
    assert not bearer.refused(issuing.issue(), a_message(), NOW)


def test_one_that_refuses_all_tokens_is_judged_and_its_provider_is_asked_ever_more_rarely(
    issuing: Issuing, bearer: Bearer
) -> None:
    asked_at: list[int] = []
    issuing.issue()
    for second in range(60):
        token = bearer.usable(NOW + second)
        assert token is not None
        before = issuing.asked
        again = bearer.refused(token, a_message(second), NOW + second)
        assert again == (issuing.asked > before)
        if again:
            asked_at.append(second)
            issuing.issue(NOW + second)
    assert asked_at == [0, 1, 3, 7, 15, 23, 31, 39, 47, 55]


def test_messages_that_nobody_may_send_do_not_have_tokens_issued_all_the_time(
    issuing: Issuing, bearer: Bearer
) -> None:
    token = issuing.issue()
    for n in range(100):
        now = NOW + n / 100
        bearer.accepted(token, a_message(1000 + n))
        assert bearer.refused(token, a_message(n), now)
        if issuing.source.requesting_since is not None:
            token = issuing.issue(now)
    assert issuing.asked == 1


def test_a_token_that_was_accepted_is_replaced_again_a_while_later(
    issuing: Issuing, bearer: Bearer
) -> None:
    first = issuing.issue()
    bearer.accepted(first, a_message(1))
    assert bearer.refused(first, a_message(2), NOW)
    second = issuing.issue()
    bearer.accepted(second, a_message(2))
    assert bearer.refused(second, a_message(2), NOW + 1)
    assert issuing.asked == 2


def test_who_refuses_a_token_has_others_go_on_with_it(issuing: Issuing, bearer: Bearer) -> None:
    other = Bearer(issuing.source)
    token = issuing.issue()
    assert bearer.refused(token, a_message(), NOW)
    assert bearer.usable(NOW) is None
    assert other.usable(NOW) is token


def test_a_token_that_another_subscription_had_replaced_needs_no_request(
    issuing: Issuing, bearer: Bearer
) -> None:
    old = issuing.issue()
    assert bearer.usable(NOW) is old
    new = issuing.issue()
    assert bearer.refused(old, a_message(), NOW)
    assert issuing.asked == 0
    assert bearer.usable(NOW) is new


def test_a_message_that_was_delivered_is_forgotten(issuing: Issuing, bearer: Bearer) -> None:
    first = issuing.issue()
    assert bearer.refused(first, a_message(), NOW)
    second = issuing.issue()
    bearer.accepted(second, a_message())
    assert bearer.refused(second, a_message(), NOW + 5)


def test_no_more_messages_are_remembered_than_can_be_in_the_air(
    issuing: Issuing, bearer: Bearer
) -> None:
    first = issuing.issue()
    for n in range(REMEMBERED_MAX + 1):
        assert bearer.refused(first, a_message(n), NOW)
    second = issuing.issue()
    # The first of them is forgotten, and gets another chance; the last is not.
    assert not bearer.refused(second, a_message(REMEMBERED_MAX), NOW)
    bearer.accepted(second, a_message(-1))
    assert bearer.refused(second, a_message(0), NOW)


def test_whether_it_has_a_token_is_asked_without_asking_for_one(
    issuing: Issuing, bearer: Bearer
) -> None:
    assert not bearer.has_token(NOW)
    assert issuing.asked == 0
    issuing.issue()
    assert bearer.has_token(NOW)
