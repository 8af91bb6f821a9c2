"""`openapi.yaml`: the whole API, generated from the code; `python -m app.api.openapi` prints it."""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from app.api.documented import RETRY_HEADER, errors
from app.api.management import management_app
from app.api.schemas.base import Schema
from app.api.schemas.group import GroupBody
from app.api.schemas.subscription import SubscriptionBody
from app.api.schemas.topic import TopicBody

_REF: Final = "#/components/schemas/{model}"
# Read by the routes themselves, so FastAPI does not know them.
_BODIES: Final[Sequence[type[Schema]]] = (GroupBody, TopicBody, SubscriptionBody)
_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9_/.{}$-]*( [A-Za-z0-9_/.{}$-]+)*")
_NOT_TEXT: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})

_ID_HEADER: Final = {
    "Hermes-Message-Id": {
        "description": "the id of the message, also on errors",
        "schema": {"type": "string"},
    }
}


def document() -> dict[str, Any]:
    """The OpenAPI document of the whole API, publishing included."""
    described = management_app().openapi()
    schemas = described["components"]["schemas"]
    _, bodies = models_json_schema([(body, "validation") for body in _BODIES], ref_template=_REF)
    schemas.update(bodies["$defs"])
    described["paths"]["/topics/{topic}"]["post"] = _publish(described)
    _drop_unused(described)
    return described


def as_yaml() -> str:
    """The document as YAML, the same for the same code."""
    return "\n".join(_lines(document(), "")) + "\n"


def _publish(described: Mapping[str, Any]) -> dict[str, Any]:
    topic = next(iter(described["paths"]["/topics/{topic}"]["get"]["parameters"]))
    return {
        "tags": ["publish"],
        "summary": "Publish",
        "description": (
            "Store a message. It is kept byte for byte, whatever it is; 201 says that the log has "
            "it. After 503, or without an answer, it may be stored or not: publish it again with "
            "the same Idempotency-Key, and subscribers can tell."
        ),
        "operationId": "publish",
        "parameters": [
            topic,
            _header("Partition-Key", "messages with the same key go to the same partition"),
            _header(
                "Idempotency-Key",
                "the id of the message, instead of a random one",
                pattern=r"^[!-\-/-~]{1,128}$",
            ),
            _header("traceparent", "passed on to subscribers (W3C Trace Context)"),
        ],
        "requestBody": {
            "required": True,
            "content": {"*/*": {"schema": {}, "example": {"order": 4711, "total": 12.5}}},
        },
        "responses": _publish_answers(),
    }


def _publish_answers() -> dict[str, Any]:
    answered: dict[str, Any] = {"201": {"description": "Stored", "headers": dict(_ID_HEADER)}}
    for status, response in errors(400, 404, 408, 413).items():
        content = response["content"]["application/json"]
        retry = RETRY_HEADER if "headers" in response else {}
        answered[str(status)] = {
            "description": response["description"],
            "headers": _ID_HEADER | retry,
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/ErrorRead"},
                    "example": content["example"],
                }
            },
        }
    return answered


def _header(name: str, description: str, **schema: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": {"type": "string", **schema},
    }


def _drop_unused(described: dict[str, Any]) -> None:
    """Take out FastAPI's own validation errors, which ours replace."""
    for path in described["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        described["components"]["schemas"].pop(name, None)


def _lines(value: object, indent: str) -> Iterator[str]:
    """Block-style YAML of JSON values; mappings keep their order."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _entry(f"{indent}{_scalar(str(key))}:", below, indent)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for below in value:
            yield from _item(below, indent)


def _entry(head: str, below: object, indent: str) -> Iterator[str]:
    if isinstance(below, Mapping | list | tuple) and below:
        yield head
        yield from _lines(below, indent + "  ")
    else:
        yield f"{head} {_scalar(below)}"


def _item(below: object, indent: str) -> Iterator[str]:
    if isinstance(below, Mapping | list | tuple) and below:
        first, *rest = _lines(below, indent + "  ")
        yield f"{indent}- {first.lstrip()}"
        yield from rest
    else:
        yield f"{indent}- {_scalar(below)}"


def _scalar(value: object) -> str:
    is_plain = isinstance(value, str) and _PLAIN.fullmatch(value)
    if is_plain and str(value).lower() not in _NOT_TEXT:
        return str(value)
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    sys.stdout.write(as_yaml())
