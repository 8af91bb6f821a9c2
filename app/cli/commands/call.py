"""`angelia call`: any call of the API."""

import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from app.cli import output
from app.cli.client import connected
from app.cli.options import ApiOption, JsonOption


class Method(StrEnum):
    """The HTTP method."""

    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


def call(
    method: Annotated[Method, typer.Argument(case_sensitive=False, help="The method of HTTP.")],
    path: Annotated[str, typer.Argument(help="As in openapi.yaml: /topics?groupName=shop.")],
    data: Annotated[
        str | None, typer.Argument(help="The body, in JSON; `-`: read it from the input.")
    ] = None,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make any call of the API, and print its response."""
    if not path.startswith("/"):
        raise typer.BadParameter("must begin with a slash", param_hint="path")
    value = None if data is None else _value(sys.stdin.read() if data == "-" else data)
    with connected(api) as client:
        answer = client.call(method.value, path, value)
    if as_json or not isinstance(answer, str | None):
        output.write_json(answer)
    elif answer:
        output.write_text(answer)


def _value(text: str) -> Any:  # noqa: ANN401 - JSON can have any type
    try:
        return json.loads(text)
    except ValueError as exc:
        raise typer.BadParameter(f"is no JSON: {exc}", param_hint="data") from exc
