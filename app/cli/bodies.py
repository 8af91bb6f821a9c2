"""Settings of what the commands create, with every field today's Hermes asks for."""

from app.cli.options import Json

_OWNER = {"source": "Plaintext", "id": "angelia-cli"}


def topic_settings(*, description: str = "", partitions: int | None = None) -> Json:
    """A topic of JSON messages that are kept for a day."""
    body: Json = {
        "description": description,
        "owner": _OWNER,
        "contentType": "JSON",
        "retentionTime": {"duration": 1, "retentionUnit": "DAYS"},
    }
    return body if partitions is None else body | {"partitions": partitions}


def subscription_settings(*, description: str = "", policy: Json | None = None) -> Json:
    """A subscription; what `policy` leaves out is the service's default."""
    return {"description": description, "owner": _OWNER, "subscriptionPolicy": policy or {}}
