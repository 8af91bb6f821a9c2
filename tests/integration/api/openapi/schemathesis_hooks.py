"""What schemathesis has to be told of this API."""

import json
import re
from typing import Any, Final

import schemathesis
from schemathesis import Case, CheckContext, HookContext, Response, SerializationContext
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
)

_SECONDS = re.compile(r"[0-9]+s")
# Operations that answer so without a body, and with one where there is something to say.
_EMPTY: Final = {
    "GET /topics/{topic}/subscriptions/{name}/undelivered/last": 404,
    "POST /topics/{topic}": 201,
}


@schemathesis.serializer("application/x-ndjson")
def lines(context: SerializationContext, value: object) -> bytes:
    """A batch as lines: of the list that the document has for it, one for each element."""
    del context
    if isinstance(value, bytes):
        return value
    items = value if isinstance(value, list) else [value]
    return "\n".join(json.dumps(item) for item in items).encode()


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: object) -> None:
    """There is no worker, so who waits for deliveries waits in vain: not for seconds each time."""
    del context, kwargs
    wait = (case.query or {}).get("wait")
    if isinstance(wait, str) and _SECONDS.fullmatch(wait):
        case.query["wait"] = "10ms"


@schemathesis.check
def bodies_where_there_need_be_none(
    ctx: CheckContext, response: Response, case: Case[Any]
) -> bool | None:
    """There is none only with that status; any other answer is looked at as everywhere."""
    expected = _EMPTY.get(case.operation.label)
    if expected is None:
        return None
    if not response.content:
        assert response.status_code == expected, "without a body"
        return None
    content_type_conformance(ctx, response, case)
    return response_schema_conformance(ctx, response, case)
