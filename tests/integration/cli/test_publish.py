import asyncio
import json

from typer.testing import CliRunner, Result

from app.cli.errors import CliError
from app.cli.main import app
from tests.fakes.subscriber import Received, Reply, Subscriber


def storing(received: Received) -> Reply:
    stored = [{"id": each["id"], "status": 201} for each in json.loads(received.body)]
    return Reply(status=201, body=json.dumps(stored).encode())


async def published(url: str, lines: bytes) -> Result:
    arguments = ["publish", "shop.orders", "--lines", "--api", url]
    return await asyncio.to_thread(CliRunner().invoke, app, arguments, input=lines)


async def test_a_line_that_the_service_takes_for_no_json_is_reported() -> None:
    wrong = [b"NaN", b"[Infinity]", b"\xef\xbb\xbf1", b"[" * 100_000 + b"]" * 100_000, b'"\xff"']
    async with Subscriber(storing) as server:
        result = await published(server.url, b"\n".join([b'{"a":1}', *wrong, b"2"]))
        (request,) = server.received
    assert [each["message"] for each in json.loads(request.body)] == [{"a": 1}, 2]
    assert isinstance(result.exception, CliError)
    assert result.exception.hint == "\n".join(
        f"line {number}: it is no JSON" for number in range(2, 2 + len(wrong))
    )
