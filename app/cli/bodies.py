"""Settings of objects that commands create, with every field that current Hermes requires."""

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
    """Return settings of a subscription; fields missing in `policy` have the service's defaults."""
    return {"description": description, "owner": _OWNER, "subscriptionPolicy": policy or {}}
