"""`angelia listen`: subscribes a local receiver to a topic and prints what arrives."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.json import JSON
from rich.text import Text

from angelia_client import AsyncAngelia, ClientError
from app.cli import output
from app.cli.async_client import connected_async
from app.cli.bodies import subscription_settings, topic_settings
from app.cli.errors import CliError
from app.cli.interrupt import run_until_signalled
from app.cli.options import ApiOption, Json, JsonOption, StartFromOption
from app.cli.receiver import Received, ReceiverAnswer, receiving

Body = Json | list[Any] | float | str | None
Write = Callable[[datetime, Received], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """The subscription to create, and how to respond to its messages."""

    topic: str
    name: str
    host: str
    port: int
    status: int
    start_from: str | None
    keep: bool
    as_json: bool


def listen(  # noqa: PLR0913 - each parameter is an option
    *,
    topic: Annotated[str, typer.Option(help="Topic to subscribe to; created when missing.")],
    name: Annotated[
        str, typer.Option(help="Name of the subscription; default: one of its own.")
    ] = "",
    host: Annotated[
        str, typer.Option(help="Address of this machine, as the workers reach it.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to receive at; 0: any.")] = 0,
    api: ApiOption = None,
    status: Annotated[int, typer.Option(min=200, max=599, help="Status to answer with.")] = 200,
    start_from: StartFromOption = None,
    keep: Annotated[bool, typer.Option("--keep", help="Stay subscribed at the end.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Subscribe a local receiver to a topic and print every message that arrives."""
    listening = Listening(
        topic=topic,
        name=name or f"listen-{secrets.token_hex(3)}",
        host=host,
        port=port,
        status=status,
        start_from=start_from,
        keep=keep,
        as_json=as_json,
    )
    run_until_signalled(_listen(listening, api))


async def _listen(listening: Listening, api: str | None) -> None:
    write = _write_line if listening.as_json else _write
    async with (
        connected_async(api) as client,
        receiving(
            _printing(write, listening.status), host=listening.host, port=listening.port
        ) as endpoint,
        _subscribed(client, listening, endpoint),
    ):
        output.err.print(
            Text(
                f"Listening to {listening.topic} as {listening.name} at {endpoint}. "
                f"Publish with: curl {client.url}/topics/{listening.topic} -d '{{\"hello\": 1}}'\n"
                "Ctrl-C ends it."
            )
        )
        # The receiver runs until the user stops the command.
        await asyncio.Event().wait()


@asynccontextmanager
async def _subscribed(
    client: AsyncAngelia, listening: Listening, endpoint: str
) -> AsyncIterator[None]:
    """Create a subscription that exists until the block ends.

    If the user wants to keep the subscription, it is not deleted.
    """
    topic, name = listening.topic, listening.name
    if not await client.topics.exists(topic):
        await client.topics.create(topic, topic_settings(description="created by angelia listen"))
    if await client.subscriptions.exists(topic, name):
        # An earlier command with `--keep` has left this subscription. Its endpoint is changed,
        # because the receiver has another port now.
        await client.subscriptions.change(topic, name, patch={"endpoint": endpoint})
    else:
        settings = subscription_settings()
        await client.subscriptions.create(
            topic, name, endpoint, settings=settings, start_from=listening.start_from
        )
    try:
        yield
    finally:
        if not listening.keep:
            await _unsubscribe(client, listening)


async def _unsubscribe(client: AsyncAngelia, listening: Listening) -> None:
    try:
        await client.subscriptions.delete(listening.topic, listening.name)
    except ClientError as exc:
        output.write_error(
            CliError(
                f"The subscription {listening.name} is still there: {exc.message}",
                hint=f"Delete it: angelia subscription delete {listening.topic} {listening.name}",
            )
        )


def _printing(write: Write, status: int) -> Callable[[Received], ReceiverAnswer]:
    def print_and_answer(received: Received) -> ReceiverAnswer:
        write(datetime.now(UTC), received)
        return ReceiverAnswer(status=status)

    return print_and_answer


def _write_line(at: datetime, received: Received) -> None:
    output.write_json_line(
        {
            "time": at.isoformat(timespec="milliseconds"),
            "id": received.message_id,
            "retry": received.retry_count,
            "headers": dict(received.headers),
            "body": _body(received.body),
        }
    )


def _write(at: datetime, received: Received) -> None:
    retry = f"  retry {received.retry_count}" if received.retry_count else ""
    time = at.astimezone().strftime("%H:%M:%S.%f")[:-3]
    head = Text.assemble((time, "bold"), f"  {output.printable(received.message_id)}{retry}")
    body = _body(received.body)
    output.out.print(head)
    if isinstance(body, str):
        output.write_text(body)
    else:
        output.out.print(JSON(output.printable(json.dumps(body, ensure_ascii=False))))


def _body(body: bytes) -> Body:
    """Return the JSON value of a body, or its text if it is not JSON."""
    try:
        value: Body = json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")
    return value
