"""One request for a token at a time, for all who want the same one."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from functools import partial

import httpx
import pytest

from app.domain.catalogue.oauth import ClientAuthentication, GrantType, OAuthPolicy, OAuthProvider
from tests.fakes.oauth import POLICY, Answers, a_provider, issued
from workers.delivery.oauth.client import REQUESTS_MAX
from workers.delivery.oauth.source import Tokens, TokenSource

DEADLINE_S = 60.0


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
async def tokens(answers: Answers) -> AsyncIterator[Tokens]:
    async with Tokens(answers, dice=lambda: 0.5) as entered:
        yield entered


async def a_turn() -> None:
    """Let everybody go on who can."""
    for _ in range(5):
        await asyncio.sleep(0)  # a turn of the loop


async def asked(answers: Answers, source: TokenSource, now: float | None = None) -> None:
    source.renew(time.monotonic() if now is None else now)
    await a_turn()
    assert answers.waiting


async def over(source: TokenSource) -> None:
    async with asyncio.timeout(DEADLINE_S):
        await source.settled()


async def request_of(
    answers: Answers, tokens: Tokens, *, provider: OAuthProvider, policy: OAuthPolicy = POLICY
) -> tuple[str, str]:
    """Head and body of the request that is made for a token."""
    await asked(answers, tokens.source(provider, policy))
    head, _, body = answers.requests[-1].decode().partition("\r\n\r\n")
    return head, body


async def test_a_client_says_who_it_is_in_the_body(answers: Answers, tokens: Tokens) -> None:
    head, body = await request_of(answers, tokens, provider=a_provider("http://login.test/a/"))
    assert head.startswith("POST /a/token HTTP/1.1\r\nHost: login.test\r\n")
    assert "Content-Type: application/x-www-form-urlencoded" in head
    assert "Authorization" not in head
    assert body == (
        "grant_type=client_credentials&scope=orders.write&client_id=angelia&client_secret=s3cr3t"
    )


async def test_a_client_says_who_it_is_in_a_header_where_that_is_asked_for(
    answers: Answers, tokens: Tokens
) -> None:
    provider = a_provider(
        client_id="a:b", client_secret="ż d", client_authentication=ClientAuthentication.BASIC
    )
    head, body = await request_of(
        answers, tokens, provider=provider, policy=OAuthPolicy(provider_name="login")
    )
    sent = base64.b64encode(b"a%3Ab:%C5%BC+d").decode()
    assert f"Authorization: Basic {sent}\r\n" in f"{head}\r\n"
    assert body == "grant_type=client_credentials"


async def test_a_user_is_named_in_the_password_grant(answers: Answers, tokens: Tokens) -> None:
    policy = OAuthPolicy(
        provider_name="login", grant_type=GrantType.PASSWORD, username="u&1", password="p=1"
    )
    _, body = await request_of(answers, tokens, provider=a_provider(), policy=policy)
    assert body.startswith("grant_type=password&username=u%261&password=p%3D1&client_id=")


async def test_who_wants_the_same_token_shares_one_request(
    answers: Answers, tokens: Tokens
) -> None:
    source = tokens.source(a_provider(), POLICY)
    assert tokens.source(a_provider(), replace(POLICY)) is source
    for _ in range(1000):
        source.renew(time.monotonic())
    await a_turn()
    answers.answer(issued("t-1"))
    await over(source)
    assert len(answers.requests) == 1
    assert source.current is not None
    assert source.current.header == (b"Authorization", b"Bearer t-1")


@pytest.mark.parametrize(
    "other",
    [
        OAuthPolicy(provider_name="login", scope="orders.read"),
        OAuthPolicy(
            provider_name="login",
            scope="orders.write",
            grant_type=GrantType.PASSWORD,
            username="u",
            password="p",
        ),
    ],
    ids=["scope", "user"],
)
async def test_who_wants_another_token_gets_another_one(tokens: Tokens, other: OAuthPolicy) -> None:
    mine, theirs = tokens.source(a_provider(), POLICY), tokens.source(a_provider(), other)
    assert mine is not theirs


async def test_a_provider_that_was_changed_is_asked_anew(tokens: Tokens) -> None:
    before = tokens.source(a_provider(), POLICY)
    assert tokens.source(a_provider(client_secret="another"), POLICY) is not before


async def test_sources_that_nobody_uses_are_forgotten(tokens: Tokens) -> None:
    source = tokens.source(a_provider(), POLICY)
    gone = id(source)
    kept = [tokens.source(a_provider(), replace(POLICY, scope=f"s{n}")) for n in range(9)]
    del source
    assert len(tokens) == len(kept) == 9, gone


async def test_a_failure_is_told_with_its_reason_and_asked_again_after_a_pause(
    answers: Answers, tokens: Tokens
) -> None:
    source = tokens.source(
        a_provider(initial_delay=timedelta(seconds=10), delay_max=timedelta(seconds=30)), POLICY
    )
    await asked(answers, source)
    answers.answer(b'{"error": "invalid_client"}', 401)
    await over(source)
    assert source.problem == "it answered 401 (invalid_client)"
    now = time.monotonic()
    assert 9 < source.paused_until - now < 11
    source.renew(now)
    await a_turn()
    assert not answers.waiting
    await asked(answers, source, source.paused_until)
    answers.answer(issued("t-1"))
    await over(source)
    assert (source.problem, source.current is not None) == ("", True)


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "120"},
        {"Retry-After": "1, 120"},
        {"Retry-After": "1", "retry-after": "120"},
        {"Retry-After": "soon", "retry-after": "120"},
    ],
)
async def test_a_provider_says_how_long_to_leave_it_alone(
    answers: Answers, tokens: Tokens, headers: dict[str, str]
) -> None:
    source = tokens.source(a_provider(), POLICY)
    await asked(answers, source)
    answers.answer(b"", 503, headers=headers)
    await over(source)
    assert source.paused_until - time.monotonic() > 119


async def test_no_answer_is_a_failure(answers: Answers, tokens: Tokens) -> None:
    source = tokens.source(a_provider(), POLICY)
    await asked(answers, source)
    answers.fail(httpx.ReadTimeout("too late"))
    await over(source)
    assert source.problem == "No complete answer within 5000 ms"


async def test_a_defect_of_ours_ends_one_request_and_no_other(
    answers: Answers, tokens: Tokens
) -> None:
    broken = tokens.source(a_provider(), POLICY)
    healthy = tokens.source(a_provider(), replace(POLICY, scope="other"))
    await asked(answers, broken)
    await asked(answers, healthy)
    answers.fail(KeyError("a defect"))
    answers.answer(issued("t-1"))
    await over(broken)
    await over(healthy)
    assert broken.problem == "an internal error"
    assert healthy.current is not None


async def test_a_token_is_kept_while_the_next_cannot_be_had(
    answers: Answers, tokens: Tokens
) -> None:
    source = tokens.source(a_provider(), POLICY)
    await asked(answers, source)
    answers.answer(issued("t-1", 60))
    await over(source)
    first = source.current
    await asked(answers, source)
    answers.answer(b"", 500)
    await over(source)
    assert source.current is first is not None


async def test_a_provider_is_asked_for_few_tokens_at_once(answers: Answers, tokens: Tokens) -> None:
    policies = [replace(POLICY, scope=f"s{n}") for n in range(3 * REQUESTS_MAX)]
    sources = [tokens.source(a_provider(), policy) for policy in policies]
    for source in sources:
        source.renew(time.monotonic())
    await a_turn()
    assert len(answers.waiting) == REQUESTS_MAX
    while answers.waiting:
        answers.answer(issued("t"))
        await a_turn()
    assert all(source.current for source in sources)


async def test_a_provider_whose_secret_cannot_be_read_is_not_asked(
    answers: Answers, tokens: Tokens
) -> None:
    source = tokens.source(a_provider(locked="a key is missing"), POLICY)
    source.renew(time.monotonic())
    await over(source)
    assert (source.problem, answers.requests) == ("a key is missing", [])


async def test_a_request_that_is_under_way_ends_with_its_owner(answers: Answers) -> None:
    async with asyncio.timeout(DEADLINE_S):
        async with Tokens(answers) as tokens:
            source = tokens.source(a_provider(), POLICY)
            await asked(answers, source)
        await source.settled()
    assert answers.waiting[0].cancelled()


async def test_what_goes_wrong_for_its_owner_is_raised_as_it_is(answers: Answers) -> None:
    async def own() -> None:
        async with Tokens(answers) as tokens:
            await asked(answers, tokens.source(a_provider(), POLICY))
            raise LookupError

    with pytest.raises(LookupError):
        await own()
    assert answers.waiting[0].cancelled()


async def test_who_waits_is_woken_once_whatever_comes_of_it(
    answers: Answers, tokens: Tokens
) -> None:
    source = tokens.source(a_provider(), POLICY)
    woken: list[str] = []
    await asked(answers, source)
    source.notify(lambda: woken.append("failed"))
    answers.answer(b"", 500)
    await over(source)
    assert woken == ["failed"]
    await asked(answers, source, source.paused_until)
    answers.answer(issued("t-1"))
    await over(source)
    assert woken == ["failed"]


async def test_those_who_wait_are_woken_in_their_order(answers: Answers, tokens: Tokens) -> None:
    source = tokens.source(a_provider(), POLICY)
    woken: list[int] = []
    await asked(answers, source)
    for number in range(20):
        source.notify(partial(woken.append, number))
    answers.answer(issued("t-1"))
    await over(source)
    assert woken == list(range(20))
