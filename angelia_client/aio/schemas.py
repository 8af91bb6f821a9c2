"""The schemas of a topic's messages."""

from uuid import uuid4

from angelia_client.aio.sending import AsyncSender
from angelia_client.errors import NotUnderstoodError
from angelia_client.models import SchemaVersion, TopicSchema
from angelia_client.requests import Answer, Request, get, topic_path


class AsyncSchemas:
    """The methods of `client.schemas`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def get(self, topic: str, *, version: int | None = None) -> TopicSchema | None:
        """Return the schema that validates messages now, or the given version; None if none."""
        which = "" if version is None else f"/versions/{version}"
        answer = await self._sender.send(get(_path(topic) + which))
        return _schema(answer) if answer.body else None

    async def versions(self, topic: str) -> list[SchemaVersion]:
        """Return all versions, the oldest first."""
        answer = await self._sender.send(get(f"{_path(topic)}/versions"))
        return [SchemaVersion.of(each) for each in answer.listed()]

    async def add(self, topic: str, text: str) -> int:
        """Add a JSON Schema or Avro schema, which validates messages from now on.

        Return the version of the schema. If the topic's current version has the same text, nothing
        changes.
        """
        headers = {"Content-Type": "application/json", "Idempotency-Key": str(uuid4())}
        answer = await self._sender.send(
            Request(
                method="POST",
                path=_path(topic),
                body=text.encode(),
                headers=headers,
                repeatable=True,
            )
        )
        return _number(answer, "schema-version")

    async def delete(self, topic: str) -> None:
        """Stop validating messages against a schema."""
        await self._sender.send(Request(method="DELETE", path=_path(topic)))


def _path(topic: str) -> str:
    return f"{topic_path(topic)}/schema"


def _schema(answer: Answer) -> TopicSchema:
    return TopicSchema(
        text=answer.body.decode(),
        version=_number(answer, "schema-version"),
        id=_number(answer, "schema-id"),
    )


def _number(answer: Answer, header: str) -> int:
    try:
        return int(answer.headers[header])
    except (KeyError, ValueError) as exc:
        raise NotUnderstoodError(f"The answer has no {header}") from exc
