import asyncio
import json
from datetime import timedelta
from typing import Any

import httpx
import pytest

from angelia_client import (
    NO_RETRIES,
    Angelia,
    AsyncAngelia,
    DuplicateError,
    InvalidError,
    NotUnderstoodError,
    Redrive,
    Retries,
    ServiceError,
    ThrottledError,
    UnreachableError,
)
from tests.fakes.subscriber import Received, Reply, Subscriber

QUICK = Retries(delay=timedelta(0), delay_max=timedelta(0), retry_after_max=timedelta(0))


def answering(value: object, status: int = 200, **headers: str) -> Reply:
    return Reply(status=status, body=json.dumps(value).encode(), headers=headers)


def failing(times: int, status: int, then: Reply) -> list[Reply]:
    return [*[Reply(status=status)] * times, then]


class Script:
    """Answers one after the other."""

    def __init__(self, replies: list[Reply]) -> None:
        self._replies = iter(replies)

    def __call__(self, _received: Received) -> Reply:
        return next(self._replies)


STORED = Reply(status=201, headers={"Hermes-Message-Id": "given", "Angelia-Subscriptions": "2"})


@pytest.mark.parametrize("status", [408, 500, 503])
async def test_a_publish_that_failed_is_sent_again_as_the_same_message(status: int) -> None:
    async with (
        Subscriber(Script(failing(3, status, STORED))) as server,
        AsyncAngelia(server.url, retries=QUICK) as angelia,
    ):
        published = await angelia.publish("shop.orders", {"a": 1})
        ids = {each.headers["idempotency-key"] for each in server.received}
        assert (len(server.received), len(ids)) == (4, 1)
    assert (published.message_id, published.subscriptions) == ("given", 2)


async def test_a_key_is_sent_in_utf_8() -> None:
    async with Subscriber(Script([STORED])) as server, AsyncAngelia(server.url) as angelia:
        await angelia.publish("shop.orders", 1, key="zażółć", headers={"Shop": "é"})
        headers = server.received[0].headers
    sent = [headers[name].encode("latin-1").decode() for name in ("partition-key", "shop")]
    assert sent == ["zażółć", "é"]


@pytest.mark.parametrize("value", ["a\nb", "a\0b", "\x7f", " a", "a ", "\ta", "\udce9"])
@pytest.mark.parametrize("name", ["key", "message_id"])
async def test_what_no_header_can_carry_is_refused_unsent(name: str, value: str) -> None:
    key, own_id = (value, None) if name == "key" else (None, value)
    async with (
        Subscriber(Script([])) as server,
        AsyncAngelia(server.url, retries=QUICK) as angelia,
    ):
        with pytest.raises(InvalidError, match=name) as refused:
            await angelia.publish("shop.orders", 1, key=key, message_id=own_id)
        assert server.connections == 0
    assert [each.path for each in refused.value.details] == [name]


@pytest.mark.parametrize(
    ("name", "value", "path"),
    [
        ("Shop", "a\nb", "headers.Shop"),
        ("Shop", " a", "headers.Shop"),
        ("Shop", 5, "headers.Shop"),
        ("Shop", None, "headers.Shop"),
        ("a b", "a", "headers"),
        ("", "a", "headers"),
        ("é", "a", "headers"),
        ("Shop\n", "a", "headers"),
        (5, "a", "headers"),
    ],
)
async def test_a_header_that_is_none_is_refused_unsent(name: Any, value: Any, path: str) -> None:  # noqa: ANN401 - also of wrong types
    async with (
        Subscriber(Script([])) as server,
        AsyncAngelia(server.url, retries=QUICK) as angelia,
    ):
        with pytest.raises(InvalidError, match=path) as refused:
            await angelia.publish("shop.orders", 1, headers={name: value})
        with Angelia(server.url) as in_threads, pytest.raises(InvalidError, match=path):
            in_threads.publish("shop.orders", 1, headers={name: value})
        assert server.connections == 0
    assert [each.path for each in refused.value.details] == [path]


class Refusing:
    """Stores a message without an answer, and then refuses it as a duplicate of itself."""

    def __init__(self) -> None:
        self._stored = False

    def __call__(self, received: Received) -> Reply:
        if not self._stored:
            self._stored = True
            return Reply(status=503)
        own_id = received.headers["idempotency-key"]
        said = {"code": "DUPLICATE_MESSAGE", "message": "stored", "duplicateOf": own_id}
        return answering(said, 409)


async def test_a_message_that_was_stored_before_its_answer_was_lost_is_no_duplicate() -> None:
    async with (
        Subscriber(Refusing()) as server,
        AsyncAngelia(server.url, retries=QUICK) as angelia,
    ):
        published = await angelia.publish("shop.orders", {"a": 1})
        assert published.message_id == server.received[0].headers["idempotency-key"]
    assert published.duplicate


async def test_a_refused_duplicate_names_the_message_that_was_stored() -> None:
    async with (
        Subscriber(Refusing()) as server,
        AsyncAngelia(server.url, retries=QUICK) as angelia,
    ):
        with pytest.raises(DuplicateError) as refused:
            await angelia.publish("shop.orders", {"a": 1}, message_id="mine")
    assert refused.value.duplicate_of == "mine"


async def test_the_fourth_failure_is_told() -> None:
    async with (
        Subscriber(Reply(status=503)) as server,
        AsyncAngelia(server.url, retries=QUICK) as angelia,
    ):
        with pytest.raises(ServiceError):
            await angelia.publish("shop.orders", {"a": 1})
        assert len(server.received) == 4


async def test_too_much_is_not_sent_again() -> None:
    body = {"message": "too much", "code": "THROUGHPUT_QUOTA_VIOLATION"}
    async with (
        Subscriber(answering(body, 429, **{"Retry-After": "1"})) as server,
        AsyncAngelia(server.url, retries=QUICK) as angelia,
    ):
        with pytest.raises(ThrottledError) as caught:
            await angelia.publish("shop.orders", {"a": 1})
        assert len(server.received) == 1
    assert caught.value.retry_after == timedelta(seconds=1)


async def test_what_changes_something_is_sent_once_unless_the_service_knows_it_again() -> None:
    async with (
        Subscriber(Reply(status=503)) as server,
        AsyncAngelia(server.url, retries=QUICK) as angelia,
    ):
        for change, attempts in (
            (angelia.topics.delete("a.b"), 1),
            (angelia.topics.change("a.b", {}), 1),
            (angelia.subscriptions.ping("a.b", "c"), 1),
            (angelia.topics.create("a.b"), 4),
            (angelia.topics.names(), 4),
        ):
            before = len(server.received)
            with pytest.raises(ServiceError):
                await change
            assert len(server.received) - before == attempts
        created = [each for each in server.received if each.method == "POST"][-4:]
        assert len({each.headers["idempotency-key"] for each in created}) == 1


async def test_an_answer_that_does_not_come_in_time_is_no_answer() -> None:
    async with Subscriber(Reply(delay=5)) as server:
        impatient = AsyncAngelia(server.url, timeout=timedelta(milliseconds=50), retries=NO_RETRIES)
        async with impatient as angelia:
            with pytest.raises(UnreachableError, match="ReadTimeout"):
                await angelia.topics.names()


async def test_one_who_waits_for_outcomes_has_the_patience_for_it() -> None:
    waited = {"complete": True, "subscriptions": [{"name": "billing", "outcome": "DELIVERED"}]}
    slow = Reply(status=201, body=json.dumps(waited).encode(), delay=0.3)
    async with Subscriber(slow) as server:
        impatient = AsyncAngelia(
            server.url, timeout=timedelta(milliseconds=100), retries=NO_RETRIES
        )
        async with impatient as angelia:
            published = await angelia.publish("a.b", {}, wait=timedelta(seconds=5))
        assert server.received[0].path == "/topics/a.b?wait=5000ms"
    assert published.complete
    assert [each.name for each in published.outcomes] == ["billing"]


async def test_nothing_there_is_said() -> None:
    async with AsyncAngelia("http://127.0.0.1:1", retries=NO_RETRIES) as angelia:
        with pytest.raises(UnreachableError, match="No API answers"):
            await angelia.topics.names()


@pytest.mark.parametrize("url", ["localhost:8090", "http://[", "ftp://host", ""])
async def test_an_address_that_is_none_is_refused_in_words(url: str) -> None:
    async with AsyncAngelia(url, retries=NO_RETRIES) as angelia:
        with pytest.raises(UnreachableError):
            await angelia.topics.names()


async def test_the_key_goes_with_every_request_and_is_not_shown() -> None:
    async with (
        Subscriber(answering([])) as server,
        AsyncAngelia(server.url + "/", api_key="ang_secret") as angelia,
    ):
        await angelia.topics.names()
        assert server.received[0].headers["authorization"] == "Bearer ang_secret"
        assert server.received[0].path == "/topics"
        assert "ang_secret" not in repr(angelia)


async def test_a_body_of_bytes_is_published_as_it_is_with_its_key_and_id() -> None:
    async with Subscriber(STORED) as server, AsyncAngelia(server.url) as angelia:
        await angelia.publish(
            "shop.orders", b'{"a": 1 }', key="k", message_id="mine", headers={"X-Tenant": "7"}
        )
        received = server.received[0]
    assert received.body == b'{"a": 1 }'
    assert received.headers["partition-key"] == "k"
    assert received.headers["idempotency-key"] == "mine"
    assert received.headers["x-tenant"] == "7"


async def test_lists_are_read_page_by_page_and_no_further_than_needed() -> None:
    def page(received: Received) -> Reply:
        discard = {
            "messageId": "m",
            "timestamp": 0,
            "subscription": "billing",
            "topicName": "shop.orders",
            "reason": "",
            "message": "",
            "partition": 0,
            "offset": 0,
            "attempts": 1,
        }
        following = f'<{received.path}&after=2>; rel="next"'
        last = received.path.count("after=") == 2
        link = {} if last else {"Link": following}
        return Reply(body=json.dumps([discard, discard]).encode(), headers=link)

    async with Subscriber(page) as server, AsyncAngelia(server.url) as angelia:
        found = [each async for each in angelia.undelivered.all("shop.orders", "billing")]
        assert (len(found), len(server.received)) == (6, 3)
        async for _ in angelia.undelivered.all("shop.orders"):
            break
        assert len(server.received) == 4


@pytest.mark.parametrize("body", [b"<html>", b"{}"])
async def test_an_answer_of_something_else_is_not_understood(body: bytes) -> None:
    async with Subscriber(Reply(body=body)) as server, AsyncAngelia(server.url) as angelia:
        with pytest.raises(NotUnderstoodError):
            await angelia.topics.names()
        with pytest.raises(NotUnderstoodError):
            await angelia.topics.get("a.b")


async def test_results_of_a_batch_of_which_nothing_is_stored_are_results() -> None:
    results = [{"id": "1", "status": 400, "code": "FORMAT_ERROR", "message": "no"}]
    refused = {"message": "No message is stored", "code": "FORMAT_ERROR", "results": results}
    async with Subscriber(answering(refused, 400)) as server, AsyncAngelia(server.url) as angelia:
        (result,) = await angelia.publish_batch("a.b", [b"{"])
        server.reply = answering({"message": "no", "code": "VALIDATION_ERROR"}, 400)
        with pytest.raises(InvalidError):
            await angelia.publish_batch("a.b", [b"{"])
    assert (result.stored, result.code) == (False, "FORMAT_ERROR")


async def test_a_connection_of_ones_own_is_used_and_left_open() -> None:
    async with Subscriber(answering([])) as server, httpx.AsyncClient() as http:
        http.headers["X-Mine"] = "yes"
        async with AsyncAngelia(server.url, http=http) as angelia:
            await angelia.topics.names()
        assert server.received[0].headers["x-mine"] == "yes"
        assert not http.is_closed


async def test_the_client_for_threads_does_the_same() -> None:
    def publish(url: str) -> list[str]:
        with Angelia(url, retries=QUICK) as angelia:
            return [angelia.publish("a.b", {}).message_id, *angelia.topics.names()]

    replies = [*failing(1, 503, STORED), answering(["a.b"])]
    async with Subscriber(Script(replies)) as server:
        assert await asyncio.to_thread(publish, server.url) == ["given", "a.b"]
        assert len(server.received) == 3


async def test_what_is_discarded_while_it_is_sent_again_is_not_sent_for_ever() -> None:
    sent = {"id": "r", "count": 1000, "bytes": 2000, "more": True}
    last = {"count": 1, "bytes": 2, "more": False}
    replies = [answering(sent), answering(sent), answering(last)]
    async with Subscriber(Script(replies)) as server, AsyncAngelia(server.url) as angelia:
        every = angelia.undelivered.redrive_all("a.b", "c", which=Redrive(reason="gone"))
        assert [each.count async for each in every] == [1000, 1000, 1]
        bodies = [json.loads(each.body) for each in server.received]
    assert len({body["to"] for body in bodies}) == 1
    assert {body["reason"] for body in bodies} == {"gone"}


async def test_sending_again_what_was_sent_again_is_one_request() -> None:
    sent = answering({"id": "r", "count": 1000, "bytes": 2000, "more": True})
    async with Subscriber(sent) as server, AsyncAngelia(server.url) as angelia:
        every = angelia.undelivered.redrive_all("a.b", "c", which=Redrive(again=True))
        assert [each.more async for each in every] == [True]
