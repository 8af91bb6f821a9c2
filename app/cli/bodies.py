"""The settings of objects that commands create: all fields that current Hermes requires."""

from app.cli.options import Json

_OWNER = {"source": "Plaintext", "id": "angelia-cli"}


def topic_settings(*, description: str = "", partitions: int | None = None) -> Json:
    """Return settings of a topic of JSON messages, which are kept for a day."""
    body: Json = {
        "description": description,
        "owner": _OWNER,
        "contentType": "JSON",
        "retentionTime": {"duration": 1, "retentionUnit": "DAYS"},
    }
    return body if partitions is None else body | {"partitions": partitions}


def subscription_settings(*, description: str = "", policy: Json | None = None) -> Json:
    """Return settings of a subscription.

    For each setting that `policy` lacks, the service uses its default.
    """
    return {"description": description, "owner": _OWNER, "subscriptionPolicy": policy or {}}
