"""`openapi.yaml`: the whole API, generated from the code; `python -m app.api.openapi` prints it."""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from app.api.management import ROUTERS, management_app
from app.api.openapi_access import describe_access
from app.api.openapi_errors import describe_errors
from app.api.publish_documented import batch_operation, publish_operation
from app.api.routes import status
from app.api.schemas.base import Schema
from app.api.schemas.catalogue import QueryBody
from app.api.schemas.filters import FilterTrialBody
from app.api.schemas.group import GroupBody
from app.api.schemas.job import JobBody
from app.api.schemas.key import KeyBody
from app.api.schemas.oauth import OAuthProviderBody
from app.api.schemas.offline import OfflineTaskBody
from app.api.schemas.operations import (
    ReadinessBody,
    SubscriptionConstraintsBody,
    TopicConstraintsBody,
)
from app.api.schemas.redrive import RedriveBody
from app.api.schemas.retransmission import RetransmissionBody, SeekBody
from app.api.schemas.retransmissions import RetransmitBody
from app.api.schemas.signing import SigningSecretBody
from app.api.schemas.simulation import SimulateBody
from app.api.schemas.subscription import NewSubscriptionBody, SubscriptionBody
from app.api.schemas.topic import TopicBody

_JSON: Final = "application/json"
_REF: Final = "#/components/schemas/{model}"
# Read by the routes themselves, so FastAPI does not know them.
_BODIES: Final[Sequence[type[Schema]]] = (
    GroupBody,
    TopicBody,
    SubscriptionBody,
    OAuthProviderBody,
    NewSubscriptionBody,
    SigningSecretBody,
    FilterTrialBody,
    QueryBody,
    ReadinessBody,
    SubscriptionConstraintsBody,
    TopicConstraintsBody,
    RedriveBody,
    RetransmissionBody,
    RetransmitBody,
    SeekBody,
    SimulateBody,
    OfflineTaskBody,
    JobBody,
    KeyBody,
)
_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9_/.{}$-]*( [A-Za-z0-9_/.{}$-]+)*")
_NOT_TEXT: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def document() -> dict[str, Any]:
    """The OpenAPI document of the whole API, publishing included."""
    described = management_app().openapi()
    schemas = described["components"]["schemas"]
    _, bodies = models_json_schema([(body, "validation") for body in _BODIES], ref_template=_REF)
    schemas.update(bodies["$defs"])
    topic = _topic(described)
    described["paths"]["/topics/{topic}"]["post"] = publish_operation(topic)
    described["paths"]["/topics/{topic}/batch"] = {"post": batch_operation(topic)}
    _drop_unused(described)
    _drop_unsaid(described)
    routers = (status.router, *ROUTERS)
    describe_access(described, routers)
    describe_errors(described, routers)
    return described


def serve_document(app: FastAPI) -> None:
    """Have the app serve this document, made when it is first asked for, instead of its own."""
    app.openapi = cache(document)  # type: ignore[method-assign] # as FastAPI's manual has it


def as_yaml() -> str:
    """The document as YAML, the same for the same code."""
    return "\n".join(_lines(document(), "")) + "\n"


def _topic(described: Mapping[str, Any]) -> dict[str, Any]:
    """The parameter of the path."""
    parameter: dict[str, Any] = described["paths"]["/topics/{topic}"]["get"]["parameters"][0]
    return parameter


def _drop_unused(described: dict[str, Any]) -> None:
    """Take out FastAPI's own validation errors, which ours replace."""
    for path in described["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        described["components"]["schemas"].pop(name, None)


def _drop_unsaid(described: dict[str, Any]) -> None:
    """Take out the JSON that FastAPI has in answers of which nobody said that they have a body."""
    for path in described["paths"].values():
        for operation in path.values():
            for answer in operation["responses"].values():
                content = answer.get("content", {})
                if content.get(_JSON, {}).get("schema") == {}:
                    del content[_JSON]
                if not content:
                    answer.pop("content", None)


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
