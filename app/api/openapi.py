"""The OpenAPI document of the whole API, generated from the code."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from app.api.management import ROUTERS, management_app
from app.api.openapi_access import describe_access
from app.api.openapi_errors import describe_errors
from app.api.openapi_shared import shared, simplify_parameters, without_titles
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


def document() -> dict[str, Any]:
    """The whole API, publishing included; `shared` of it is what clients get."""
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
    simplify_parameters(described)
    return dict(without_titles(described))


def serve_document(app: FastAPI) -> None:
    """Have the app serve this document, made when it is first asked for, instead of its own."""
    app.openapi = cache(lambda: shared(document()))  # type: ignore[method-assign] # as FastAPI's manual has it


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
