import asyncio

import httpx
import pytest

from app.cli.errors import CliError
from app.cli.receiver import Received, ReceiverAnswer, receiving


async def post(url: str, body: bytes, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
        return await client.post(url, content=body, headers=headers)


async def test_a_request_is_handed_over_whole_and_answered_as_told() -> None:
    seen: list[Received] = []

    def handler(received: Received) -> ReceiverAnswer:
        seen.append(received)
        return ReceiverAnswer(status=503, headers={"Retry-After": "1"})

    headers = {"Hermes-Message-Id": "m1", "Hermes-Retry-Count": "2"}
    async with receiving(handler, host="127.0.0.1") as url:
        answer = await post(f"{url}/billing", b"x" * 300_000, **headers)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert (seen[0].path, seen[0].message_id, seen[0].retry_count) == ("/billing", "m1", 2)
    assert seen[0].body == b"x" * 300_000


async def test_a_retry_count_that_is_no_number_counts_as_none() -> None:
    received = Received(path="/", headers={"hermes-retry-count": "-1"}, body=b"")
    assert received.retry_count == 0


async def test_a_port_that_is_taken_is_said() -> None:
    async with receiving(lambda _: ReceiverAnswer(), host="127.0.0.1") as url:
        port = int(url.rpartition(":")[2])
        with pytest.raises(CliError, match=f"127.0.0.1:{port}"):
            async with receiving(lambda _: ReceiverAnswer(), host="127.0.0.1", port=port):
                pass


async def test_a_sender_that_leaves_in_the_middle_is_not_handed_over() -> None:
    seen: list[Received] = []
    done = asyncio.Event()

    def handler(received: Received) -> ReceiverAnswer:
        seen.append(received)
        done.set()
        return ReceiverAnswer()

    async with receiving(handler, host="127.0.0.1") as url:
        port = int(url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /half HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        await post(f"{url}/whole", b"whole")
        await asyncio.wait_for(done.wait(), 60)
    assert [each.path for each in seen] == ["/whole"]
