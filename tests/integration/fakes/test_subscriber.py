import asyncio
import sys
from pathlib import Path

import httpx
import pytest

from tests.fakes.egress import LOOPBACK
from tests.fakes.subscriber import Received, Reply, Subscriber
from workers.transport.transport import DeliveryTransport

ROOT = Path(__file__).parents[3]


def a_post(url: str, message_id: str) -> httpx.Request:
    headers = {"Hermes-Message-Id": message_id, "Hermes-Retry-Count": "1"}
    return httpx.Request("POST", url, headers=headers, content=message_id.encode())


async def test_answers_by_its_script_and_keeps_what_came() -> None:
    def script(received: Received) -> Reply:
        return Reply(status=503 if received.body == b"b" else 200)

    transport = DeliveryTransport(egress=LOOPBACK)
    async with Subscriber(script) as subscriber:
        for message_id in "abc":
            await transport.handle_async_request(a_post(subscriber.url, message_id))
        subscriber.reply = Reply(status=204)
        answer = await transport.handle_async_request(a_post(subscriber.url, "d"))
        assert answer.status_code == 204
        assert subscriber.message_ids == ["a", "b", "c", "d"]
        assert subscriber.connections == 1
        await transport.aclose()
        await subscriber.wait_until(lambda: subscriber.connections == 0)


async def test_says_what_has_come_when_it_waits_in_vain() -> None:
    async with Subscriber() as subscriber:
        with pytest.raises(TimeoutError, match="0 requests came"):
            await subscriber.wait_for(1, timeout_s=0.01)


async def test_stands_alone_and_logs_what_it_receives(tmp_path: Path) -> None:
    log = tmp_path / "received.txt"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fakes.subscriber", "--port", "0", "--log", str(log)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        transport = DeliveryTransport(egress=LOOPBACK)
        await transport.handle_async_request(a_post(f"http://127.0.0.1:{port}/", "m-1"))
        await transport.aclose()
        assert [line.split()[1:] for line in log.read_text().splitlines()] == [["m-1", "1"]]
    finally:
        process.kill()
        await process.wait()
