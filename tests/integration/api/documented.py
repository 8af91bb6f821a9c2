"""Every error that a test is answered is one that `openapi.yaml` has, for that route and status."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import httpx

from app.api.openapi.document import document

ERROR = 400
# A process that only publishes, or does not publish, has not all paths and methods.
UNSERVED = {(404, "OTHER"), (405, "OTHER")}
PROBLEM = {"message", "code"}


@cache
def operations() -> Mapping[str, list[tuple[re.Pattern[str], Mapping[str, Any]]]]:
    """By method: what paths look like, and what is documented of them."""
    found: dict[str, list[tuple[re.Pattern[str], Mapping[str, Any]]]] = {}
    for path, methods in document()["paths"].items():
        # An id of a message may have slashes in it.
        shape = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))
        pattern = re.compile(shape.replace("events/[^/]+", "events/.+"))
        for method, operation in methods.items():
            found.setdefault(method.upper(), []).append((pattern, operation))
    return found


def codes_of(operation: Mapping[str, Any], status: int) -> Iterator[str]:
    content = operation["responses"].get(str(status), {}).get("content", {})
    yield from content.get("application/json", {}).get("examples", {})


async def check_documented(response: httpx.Response) -> None:
    """AssertionError for an error that the document does not have there.

    What no route answers has no place in it: other paths, and methods that a path has not.
    """
    if response.status_code < ERROR:
        return
    problem = _problem(await response.aread())
    path = response.request.url.path
    here = [
        operation
        for pattern, operation in operations().get(response.request.method, [])
        if pattern.fullmatch(path) and "\0" not in path
    ]
    if problem is None or not here:
        return
    status, code = response.status_code, problem["code"]
    if (status, code) in UNSERVED:
        return
    documented = {each for operation in here for each in codes_of(operation, status)}
    asked = f"{response.request.method} {path}"
    assert code in documented, f"openapi.yaml lacks {status} {code} of {asked}: {response.text}"


def _problem(body: bytes) -> Mapping[str, Any] | None:
    try:
        said = httpx.Response(200, content=body).json()
    except ValueError:
        return None
    return said if isinstance(said, dict) and said.keys() >= PROBLEM else None
