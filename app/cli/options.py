"""Options that several commands have."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from app.cli.completion import subscription_names, topic_names
from app.cli.moments import moment_of

Json = dict[str, Any]


def _moment(text: str) -> datetime:
    try:
        return moment_of(text, now=datetime.now(UTC))
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from exc


def _beginning(text: str) -> str:
    return text if text in {"earliest", "latest"} else _moment(text).isoformat()


def _json_object(text: str) -> Json:
    try:
        value = json.loads(text)
    except ValueError as exc:
        raise typer.BadParameter(f"is no JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise typer.BadParameter('must be a JSON object: {"description": "…"}')
    return value


ApiOption = Annotated[
    str | None,
    typer.Option("--api", help="Address of the API; default: ANGELIA_HOST and ANGELIA_PORT."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Write CSV, for spreadsheets.")]
HtmlOption = Annotated[
    bool, typer.Option("--html", help="Write one HTML file with charts, for a browser.")
]
TopicArgument = Annotated[
    str, typer.Argument(help="Name of the topic: group.topic.", autocompletion=topic_names)
]
SubscriptionArgument = Annotated[
    str, typer.Argument(help="Name of the subscription.", autocompletion=subscription_names)
]
SettingsOption = Annotated[
    Json | None,
    typer.Option(
        parser=_json_object, metavar="JSON", help="More settings, as in the API's body, in JSON."
    ),
]
PatchArgument = Annotated[
    Json,
    typer.Argument(
        parser=_json_object,
        metavar="JSON",
        help="The settings to change, as in the API's body; null takes one back to its default.",
    ),
]
SinceOption = Annotated[
    datetime | None,
    typer.Option(
        parser=_moment, metavar="TIME", help="From this time on: 2026-01-31T12:00, or -6h."
    ),
]
StartFromOption = Annotated[
    str | None,
    typer.Option(
        parser=_beginning,
        metavar="PLACE",
        help="Begin with what was published since 2026-01-31T12:00 or -6h, or `earliest`, all"
        " that the log has.",
    ),
]
UntilOption = Annotated[
    datetime | None, typer.Option(parser=_moment, metavar="TIME", help="Before this time.")
]
LimitOption = Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")]
