"""`/console`: the settings that Hermes' console reads at its start."""

from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from app.api.access import requires
from app.api.dependencies import ServicesOf
from app.api.documented import Responses, errors
from app.api.lazy_route import LazyRoute
from app.api.media import answer
from app.domain.access.keys import Role
from app.domain.catalogue.batching import DeliveryType
from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.catalogue.topic import Topic
from app.domain.console import ConsoleSettings
from app.domain.errors import KeyRefusedError
from app.domain.owner import Owner

router = APIRouter(tags=["access"], route_class=LazyRoute)

# The console shows a warning if a requestTimeout is above this number of milliseconds.
_TIMEOUT_WARNING_MS: Final = 1001
_UNITS: Final = ("SECONDS", "MINUTES", "HOURS", "DAYS")
_ANSWER: Final[Responses] = {
    200: {
        "description": "The console's configuration, in Hermes' form",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}


@router.get(
    "/console", dependencies=[requires(Role.OPEN)], responses=_ANSWER | errors(KeyRefusedError)
)
async def console(services: ServicesOf) -> Response:
    """Return what a console shows and offers: defaults, choices, and missing features."""
    return answer(_configuration(services.console))


def _configuration(settings: ConsoleSettings) -> dict[str, Any]:
    return {
        "console": {
            "title": settings.title,
            "environmentName": settings.environment_name,
            "criticalEnvironment": False,
            "contactLink": "",
            "knownEnvironments": [],
        },
        "dashboard": {"metrics": "", "docs": "/docs"},
        "metrics": {"fetchingDashboardUrlEnabled": False},
        # The console offers no login, because callers of Angelia have API keys.
        "auth": {"oauth": _no_login()},
        "owner": {"sources": [{"name": Owner().source, "placeholder": "name of a team"}]},
        "topic": _topic_configuration(),
        "subscription": _subscription_configuration(),
        "consistency": {"maxGroupBatchSize": 10},
        "group": {"nonAdminCreationEnabled": not settings.groups_restricted},
        "costs": _no_costs(),
    }


def _topic_configuration() -> dict[str, Any]:
    defaults = Topic(name="group.topic")
    return {
        "messagePreviewEnabled": True,
        "offlineClientsEnabled": False,
        "authEnabled": True,
        "defaults": {
            "ack": defaults.ack.value,
            "contentType": "JSON",
            "retentionTime": {"duration": defaults.retention.days, "retentionUnit": "DAYS"},
            "offlineStorage": {"enabled": False, "retentionTime": {"duration": 60}},
        },
        "contentTypes": _choices("JSON", "AVRO"),
        "readOnlyModeEnabled": False,
        "retentionUnits": _choices(*_UNITS),
        "offlineRetransmission": {
            "enabled": True,
            "description": "Publishes what a topic had in a time once more, by a Spark job",
            "fromViewDocsUrl": "",
            "globalTaskQueueUrl": "/offline-retransmission/tasks",
            "monitoringDocsUrl": "",
        },
    }


def _subscription_configuration() -> dict[str, Any]:
    defaults = DeliveryPolicy()
    return {
        "endpointAddressResolverMetadata": {},
        "requestTimeoutWarningThreshold": _TIMEOUT_WARNING_MS,
        "defaults": {
            "subscriptionPolicy": {
                "messageTtl": int(defaults.message_ttl.total_seconds()),
                "requestTimeout": int(defaults.request_timeout.total_seconds() * 1000),
            },
            "deliveryType": DeliveryType.SERIAL.value,
        },
        "deliveryTypes": _choices(*DeliveryType),
    }


def _choices(*values: str) -> list[dict[str, str]]:
    return [{"value": str(value), "label": str(value)} for value in values]


def _no_login() -> dict[str, Any]:
    names = ("url", "authorizationEndpoint", "tokenEndpoint", "clientId", "scope")
    return {"enabled": False, **dict.fromkeys(names, "")}


def _no_costs() -> dict[str, Any]:
    names = ("topicIframeUrl", "topicDetailsUrl", "subscriptionIframeUrl", "subscriptionDetailsUrl")
    return {"enabled": False, "globalDetailsUrl": "", **dict.fromkeys(names, "")}
