"""Makes messages of alerts, as CloudEvents 1.0 in structured JSON."""

from typing import Any

from app.domain.health.alerts import Alert

CONTENT_TYPE = "application/cloudevents+json"


def alert_event(alert: Alert, *, raised: bool) -> dict[str, Any]:
    """Return the CloudEvent which reports that `alert` was raised, or that it was cleared.

    Each call for the same report returns an event with the same id.
    """
    state = "raised" if raised else "cleared"
    at = alert.raised_at if raised else alert.cleared_at
    if at is None:
        raise ValueError("the alert is not over")
    data = {
        "alertId": alert.id,
        "kind": alert.kind.value,
        "state": state.upper(),
        "topicName": alert.topic,
        "subscriptionName": alert.subscription,
        "description": alert.description,
        "details": dict(alert.details),
        "raisedAt": alert.raised_at.isoformat(),
    }
    if not raised:
        data["clearedAt"] = at.isoformat()
    return {
        "specversion": "1.0",
        "id": event_id(alert, raised=raised),
        "source": "/angelia",
        "type": f"angelia.alert.{state}",
        "subject": f"{alert.topic}/{alert.subscription}",
        "time": at.isoformat(),
        "datacontenttype": "application/json",
        "data": data,
    }


def event_id(alert: Alert, *, raised: bool) -> str:
    """Return the id of the event about `alert`. The message with the event has the same id."""
    return f"{alert.id}-{'raised' if raised else 'cleared'}"
