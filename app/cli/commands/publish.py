"""`angelia publish`: publishes one message, or one for each line of the input."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Annotated, Any, Final

import typer

from angelia_client import NewMessage, Retries
from app.cli import output
from app.cli.client import connected
from app.cli.errors import CliError
from app.cli.options import ApiOption, JsonOption, TopicArgument
from app.cli.progress import counting
from app.json_reading import is_json

_AT_A_TIME: Final = 500
_SHOWN_MAX: Final = 20
# A failed request is repeated. The repeated request has the same message id, so the message is
# stored only once.
_RETRIES: Final = Retries()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedLine:
    """A line of the input whose message was not stored, and the reason."""

    line: int
    status: int
    reason: str


def publish(
    topic: TopicArgument,
    body: Annotated[str, typer.Argument(help="The message; `-`: read it from the input.")] = "-",
    *,
    key: Annotated[
        str | None, typer.Option(help="Partition-Key: messages with one key share a partition.")
    ] = None,
    own_id: Annotated[
        str | None, typer.Option("--id", help="Id of the message; default: one is made.")
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Read the input: each line is a message in JSON.")
    ] = False,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a message, and print its id.

    With --lines, publish one message for each line of the input.
    """
    if lines:
        if body != "-" or own_id is not None:
            raise typer.BadParameter("takes its messages from the input", param_hint="--lines")
        _publish_lines(topic, key=key, api=api, as_json=as_json)
        return
    content = sys.stdin.buffer.read() if body == "-" else body.encode()
    with connected(api, retries=_RETRIES) as client:
        published = client.publish(topic, content, key=key, message_id=own_id)
    result = {"messageId": published.message_id}
    output.write_done(published.message_id, result, as_json=as_json)


def _publish_lines(topic: str, *, key: str | None, api: str | None, as_json: bool) -> None:
    stored, refused = 0, list[RefusedLine]()
    with connected(api, retries=_RETRIES) as client, counting("Publishing") as advance:
        for portion in _portions(_messages(sys.stdin.buffer)):
            # Check as the service does: one line that is no JSON makes it refuse a whole request.
            good = [(number, line) for number, line in portion if is_json(line)]
            no_json = {number for number, _ in portion} - {number for number, _ in good}
            new = [NewMessage(body=line, key=key) for _, line in good]
            results = client.publish_batch(topic, new)
            rejected = [
                RefusedLine(line=number, status=result.status, reason=result.message or "")
                for (number, _), result in zip(good, results, strict=True)
                if not result.stored
            ]
            stored += len(good) - len(rejected)
            refused += [*rejected, *map(_no_json, no_json)]
            advance(len(portion))
    _report(stored, sorted(refused, key=lambda each: each.line), as_json=as_json)


def _messages(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    return ((number, line.strip()) for number, line in enumerate(lines, 1) if not line.isspace())


def _report(stored: int, refused: list[RefusedLine], *, as_json: bool) -> None:
    result: dict[str, Any] = {"published": stored, "refused": [asdict(each) for each in refused]}
    output.write_done(f"Published {stored} messages", result, as_json=as_json)
    if refused:
        shown = [f"line {each.line}: {each.reason}" for each in refused[:_SHOWN_MAX]]
        more = [f"and {len(refused) - _SHOWN_MAX} more"] if len(refused) > _SHOWN_MAX else []
        hint = "\n".join([*shown, *more])
        raise CliError(f"{len(refused)} messages were refused.", hint=hint)


def _portions(messages: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    remaining = iter(messages)
    while portion := list(islice(remaining, _AT_A_TIME)):
        yield portion


def _no_json(number: int) -> RefusedLine:
    return RefusedLine(line=number, status=400, reason="it is no JSON")
