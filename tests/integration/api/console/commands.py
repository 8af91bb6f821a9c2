"""The commands that pages show: of the command line, and of curl."""

import argparse
import html
import json
import re
import shlex
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx
import typer.main
from typer.exceptions import TyperException

from app.api.openapi.document import document
from app.cli.main import app
from tests.architecture.cli_page import loaded
from tests.integration.api.documented import operations


def commands_of(text: str) -> list[str]:
    """The commands of the command line that a page shows, which has the HTML `text`."""
    return [html.unescape(code) for code in re.findall(r"<code>(angelia [^<]*)</code>", text)]


def curls_of(text: str) -> list[str]:
    """The curl commands that a page shows, which has the HTML `text`.

    If curl gets the body from another command, this command is left out.
    """
    found = re.findall(r"<code>(?:jq [^<]*? \| )?(curl [^<]*)</code>", text)
    return [html.unescape(code) for code in found]


def form_curls_of(text: str) -> list[str]:
    """The curl commands that do what the forms of a page do."""
    shown = re.findall(r"<summary>Th(?:is|ese) forms? by the API.*?</details>", text, re.DOTALL)
    return [each for part in shown for each in curls_of(part)]


@cache
def problem_of(line: str) -> str:
    """Why the command line would refuse it; empty if it would not."""
    name, *arguments = shlex.split(line)
    command = typer.main.get_command(app)
    try:
        while hasattr(command, "commands"):
            command = loaded(command.commands[arguments.pop(0)])
        command.make_context(name, arguments)
    except (IndexError, KeyError, TyperException) as error:
        return repr(error)
    return ""


def request_of(line: str) -> httpx.Request:
    """The request that curl makes. SystemExit if curl would not understand the command."""
    curl = argparse.ArgumentParser()
    curl.add_argument("url")
    curl.add_argument("-X")
    curl.add_argument("-H", action="append", default=[])
    curl.add_argument("-d", "--data-raw", "--data-binary", dest="data")
    given = curl.parse_args(shlex.split(line)[1:])
    method = given.X or ("GET" if given.data is None else "POST")
    headers = dict(each.split(": ", 1) for each in given.H)
    return httpx.Request(method, given.url, headers=headers, content=given.data)


def curl_problem_of(line: str) -> str:
    """Why the API would not understand the command; empty if it would."""
    request = request_of(line)
    found = [
        operation
        for pattern, operation in operations().get(request.method, ())
        if pattern.fullmatch(request.url.path)
    ]
    if not found:
        return f"no route has {request.method} {request.url.path}"
    text = request.content.decode()
    # Such a body is in a file, or comes from another command.
    return "" if not text or text.startswith("@") else _body_problem(text, found[0])


def _body_problem(text: str, operation: Mapping[str, Any]) -> str:
    try:
        body = json.loads(text)
    except ValueError as error:
        return f"{error}: {text}"
    content = operation.get("requestBody", {}).get("content", {})
    known = _fields_of(content.get("application/json", {}).get("schema", {}))
    unknown = set(body) - known if known and isinstance(body, dict) else ()
    return f"no route knows {sorted(unknown)}" if unknown else ""


def _fields_of(schema: Mapping[str, Any]) -> set[str]:
    """The fields that a body may have; empty if any."""
    if name := schema.get("$ref", "").rpartition("/")[2]:
        schema = document()["components"]["schemas"][name]
    kinds = [_fields_of(each) for each in schema.get("anyOf", ())]
    return set(schema.get("properties", ())).union(*kinds)
