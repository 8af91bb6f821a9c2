"""Requests in a row, what each is to be answered, and which operation of the document each is."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import httpx

from app.api.openapi.document import document

TOPIC = "/topics/shop.orders"
MINE = f"{TOPIC}/subscriptions/billing"


@dataclass(frozen=True, slots=True)
class Row:
    """A request, and what it gets: a status, and a body or the fields of one (or of the first).

    `keeps`: the name by which requests below have one field of the answer, and that field.
    """

    request: str
    status: int = 200
    body: Any = None
    fields: frozenset[str] | set[str] | None = None
    sends: Any = None
    is_text: bool = False
    keeps: tuple[str, str] | None = None


class Operation(NamedTuple):
    """One of `openapi.yaml`."""

    method: str
    path: str


Then = Callable[[Row], Awaitable[None]]


async def asked(
    api: httpx.AsyncClient, rows: Iterable[Row], *, then: Then | None = None
) -> Mapping[str, str]:
    """Ask one after the other, with `then` behind each; what is wrong with the answers."""
    complaints, kept = dict[str, str](), dict[str, str]()
    for row in rows:
        method, _, path = row.request.partition(" ")
        sends = {} if row.sends is None else {"json": row.sends}
        answer = await api.request(method, path.format(**kept), **sends)
        if wrong := complaint(row, answer):
            complaints[row.request] = wrong
        elif row.keeps:
            name, field = row.keeps
            kept[name] = said(answer, field)
        if then:
            await then(row)
    return complaints


def said(answer: httpx.Response, field: str) -> str:
    """What a header says, or that field of the body, or of the first in it."""
    if field in answer.headers:
        return answer.headers[field]
    body = answer.json()
    return str((body[0] if isinstance(body, list) else body)[field])


def complaint(row: Row, answer: httpx.Response) -> str | None:
    """What is wrong with the answer, if anything."""
    if answer.status_code != row.status:
        return f"answered {answer.status_code} {answer.text[:300]}"
    if row.is_text:
        return None if answer.text == row.body else f"said {answer.text!r}"
    if row.fields is None and row.body is None:
        return None
    body = answer.json() if answer.content else None
    if row.fields is None:
        return None if body == row.body else f"said {answer.text[:300]}"
    shown = body[0] if isinstance(body, list) and body else body
    missing = row.fields - shown.keys() if isinstance(shown, dict) else row.fields
    return f"is without {sorted(missing)}" if missing else None


@cache
def operations() -> Mapping[Operation, re.Pattern[str]]:
    """All that `openapi.yaml` has, and what their paths look like."""
    return {
        Operation(method.upper(), path): re.compile(
            re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))
        )
        for path, methods in document()["paths"].items()
        for method in methods
    }


def operation_of(row: Row) -> Operation:
    """Which of them the row asks for; LookupError."""
    method, _, asked_for = row.request.partition(" ")
    # Hermes' path of offline tasks ends so, beside ours.
    path = asked_for.partition("?")[0].removesuffix("/") or "/"
    fitting = [
        operation
        for operation, shape in operations().items()
        if operation.method == method and shape.fullmatch(path)
    ]
    if not fitting:
        raise LookupError(f"openapi.yaml has no {row.request}")
    # A word of a path is meant before a name that could stand there.
    return min(fitting, key=lambda operation: operation.path.count("{"))
