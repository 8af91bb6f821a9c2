"""The OpenAPI document of the whole API, generated from the code."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from fastapi import FastAPI
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from app.api.bodies.base import Schema
from app.api.management.access.key_bodies import KeyBody
from app.api.management.application import ROUTERS, management_app
from app.api.management.catalogue.group_bodies import GroupBody
from app.api.management.catalogue.operations_bodies import (
    ReadinessBody,
    SubscriptionConstraintsBody,
    TopicConstraintsBody,
)
from app.api.management.catalogue.query_bodies import QueryBody
from app.api.management.catalogue.subscription_bodies import NewSubscriptionBody, SubscriptionBody
from app.api.management.catalogue.topic_bodies import TopicBody
from app.api.management.fields.filters import FilterTrialBody
from app.api.management.fields.oauth import OAuthProviderBody
from app.api.management.fields.signing import SigningSecretBody
from app.api.management.health import status
from app.api.management.insight.job_bodies import JobBody
from app.api.management.insight.simulation_bodies import SimulateBody
from app.api.management.replay.redrive_bodies import RedriveBody
from app.api.management.replay.republishing_bodies import OfflineTaskBody
from app.api.management.replay.retransmission_bodies import RetransmissionBody, SeekBody
from app.api.management.replay.retransmissions_bodies import RetransmitBody
from app.api.openapi.access import describe_access
from app.api.openapi.components import shared, simplify_parameters, without_titles
from app.api.openapi.errors import describe_errors
from app.api.openapi.publishing import batch_operation, publish_operation

_JSON: Final = "application/json"
_REF: Final = "#/components/schemas/{model}"
_NAMED: Final = re.compile(r'"#/components/schemas/(\w+)"')
# Models of bodies that FastAPI does not know, because the routes read these bodies themselves.
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


def document() -> dict[str, Any]:
    """Return the document of the whole API, with publishing.

    Before clients get the document, `shared` makes it smaller.
    """
    described = management_app().openapi()
    schemas = described["components"]["schemas"]
    answered = _definitions(_answered(described), "serialization")
    schemas.update({name: _without_nulls(each) for name, each in answered.items()})
    schemas.update(_definitions(_BODIES, "validation"))
    described["components"]["schemas"] = dict(sorted(schemas.items()))
    topic = _topic(described)
    described["paths"]["/topics/{topic}"]["post"] = publish_operation(topic)
    described["paths"]["/topics/{topic}/batch"] = {"post": batch_operation(topic)}
    _drop_unused(described)
    _drop_undescribed(described)
    routers = (status.router, *ROUTERS)
    describe_access(described, routers)
    describe_errors(described, routers)
    simplify_parameters(described)
    return dict(without_titles(described))


def serve_document(app: FastAPI) -> None:
    """Let `app` serve Angelia's document instead of FastAPI's. The first request generates it."""
    app.openapi = cache(lambda: shared(document()))  # type: ignore[method-assign] # as FastAPI's manual has it


def _definitions(models: Iterable[type[Schema]], mode: JsonSchemaMode) -> dict[str, Any]:
    _, found = models_json_schema([(each, mode) for each in models], ref_template=_REF)
    definitions: dict[str, Any] = found["$defs"]
    return definitions


def _without_nulls(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a response without null as a default.

    Responses leave out fields without a value.
    """
    for each in schema.get("properties", {}).values():
        if each.get("default", ...) is None:
            del each["default"]
    return schema


def _answered(described: Mapping[str, Any]) -> Iterator[type[Schema]]:
    """Yield the models that responses refer to, which FastAPI does not know."""
    responses = [
        operation["responses"]
        for path in described["paths"].values()
        for operation in path.values()
    ]
    named = set(_NAMED.findall(json.dumps(responses)))
    return (model for model in _below(Schema) if model.__name__ in named)


def _below(model: type[Schema]) -> Iterator[type[Schema]]:
    for each in model.__subclasses__():
        yield each
        yield from _below(each)


def _topic(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the path parameter for the topic."""
    parameter: dict[str, Any] = described["paths"]["/topics/{topic}"]["get"]["parameters"][0]
    return parameter


def _drop_unused(described: dict[str, Any]) -> None:
    """Remove the validation errors of FastAPI from the document, because Angelia has its own."""
    for path in described["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        described["components"]["schemas"].pop(name, None)


def _drop_undescribed(described: dict[str, Any]) -> None:
    """Remove FastAPI's default JSON content from responses without a described body."""
    for path in described["paths"].values():
        for operation in path.values():
            for answer in operation["responses"].values():
                content = answer.get("content", {})
                if content.get(_JSON, {}).get("schema") == {}:
                    del content[_JSON]
                if not content:
                    answer.pop("content", None)
