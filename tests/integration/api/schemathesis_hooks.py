"""What schemathesis has to be told of this API."""

import json
import re
from typing import Any

import schemathesis
from schemathesis import Case, HookContext, SerializationContext

_SECONDS = re.compile(r"[0-9]+s")


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
