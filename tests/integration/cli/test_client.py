import json

import pytest

from app.cli.client import Api
from app.cli.errors import RefusedError, UnreachableError
from app.domain.errors import FieldProblem
from tests.fakes.subscriber import Received, Reply, Subscriber


def answering(value: object, status: int = 200, **headers: str) -> Reply:
    return Reply(status=status, body=json.dumps(value).encode(), headers=headers)


async def test_an_error_is_told_with_its_code_message_and_fields() -> None:
    details = [{"path": "endpoint", "message": "must have a host"}]
    body = {"message": "endpoint must have a host", "code": "VALIDATION_ERROR", "details": details}
    async with Subscriber(answering(body, 400)) as server, Api.at(server.url) as api:
        with pytest.raises(RefusedError) as caught:
            await api.create_subscription("shop.orders", {})
    assert (caught.value.status, caught.value.code) == (400, "VALIDATION_ERROR")
    assert caught.value.message == "endpoint must have a host"
    assert caught.value.details == (FieldProblem(path="endpoint", message="must have a host"),)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"null"])
async def test_an_error_that_is_not_angelias_is_told_by_its_status(body: bytes) -> None:
    async with Subscriber(Reply(status=502, body=body)) as server, Api.at(server.url) as api:
        with pytest.raises(RefusedError, match="status 502"):
            await api.topics()


async def test_an_answer_that_is_no_json_is_refused() -> None:
    async with Subscriber(Reply(body=b"<html>")) as server, Api.at(server.url) as api:
        with pytest.raises(RefusedError, match="did not answer with JSON"):
            await api.topics()


async def test_nothing_there_is_said_with_the_way_to_start_it() -> None:
    async with Api.at("http://127.0.0.1:1") as api:
        with pytest.raises(UnreachableError, match="No API answers") as caught:
            await api.topics()
    assert "angelia up" in caught.value.hint


@pytest.mark.parametrize("url", ["localhost:8090", "http://[", "ftp://host"])
async def test_an_address_that_is_none_is_refused_in_words(url: str) -> None:
    with pytest.raises(UnreachableError):
        async with Api.at(url) as api:
            await api.topics()


async def test_readiness_never_raises() -> None:
    async with Api.at("http://127.0.0.1:1") as api:
        ready, words = await api.readiness()
    assert not ready
    assert words


async def test_names_are_escaped_in_the_path() -> None:
    async with Subscriber(answering([])) as server, Api.at(server.url) as api:
        await api.subscriptions("a/../b?c")
        assert server.received[0].path == "/topics/a%2F..%2Fb%3Fc/subscriptions"


async def test_a_body_is_published_as_it_is_with_its_key_and_id() -> None:
    reply = Reply(status=201, headers={"Hermes-Message-Id": "given"})
    async with Subscriber(reply) as server, Api.at(server.url) as api:
        message_id = await api.publish("shop.orders", b'{"a": 1 }', key="k", own_id="mine")
        received = server.received[0]
    assert message_id == "given"
    assert received.body == b'{"a": 1 }'
    assert received.headers["partition-key"] == "k"
    assert received.headers["idempotency-key"] == "mine"


async def test_a_missing_topic_is_an_answer_and_no_error() -> None:
    missing = answering({"message": "Topic not found", "code": "TOPIC_NOT_EXISTS"}, 404)
    async with Subscriber(missing) as server, Api.at(server.url) as api:
        assert not await api.topic_exists("shop.orders")
        with pytest.raises(RefusedError):
            await api.subscription_exists("shop.orders", "billing")


async def test_undelivered_messages_are_read_page_by_page() -> None:
    def page(received: Received) -> Reply:
        if "after=" in received.path:
            return answering([{"messageId": "m3"}])
        following = f'<{received.path}&after=2>; rel="next"'
        return answering([{"messageId": "m1"}, {"messageId": "m2"}], Link=following)

    async with Subscriber(page) as server, Api.at(server.url) as api:
        every = await api.undelivered("shop.orders", "billing")
        two = await api.undelivered("shop.orders", "billing", limit=2)
    assert [each["messageId"] for each in every] == ["m1", "m2", "m3"]
    assert [each["messageId"] for each in two] == ["m1", "m2"]
    assert len(server.received) == 3
