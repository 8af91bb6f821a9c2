"""Validates messages of topics with schemas before they are stored."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple

from app.api.publish.headers import PublishHeaders, media_type
from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.errors import ThroughputQuotaError, ValidationFailedError
from app.domain.uncollected import Uncollected
from app.schemas.compiled import is_made
from app.schemas.json_bodies import WHOLE_BYTES_MAX, json_body
from app.schemas.making import SchemaMaking
from app.schemas.messages import prefix_id
from app.schemas.publications import AVRO_BINARY, Given, Typed, typed
from app.schemas.request_work import RequestWork
from app.schemas.versions import is_registered, schema_if_known
from app.services.catalogue.fresh_schemas import FreshSchemas
from app.services.directory.topics import TopicDirectory
from app.services.publishing.publisher import Publication

SCHEMA_VERSION = b"schema-version"
SCHEMA_ID = b"schema-id"
# The limit of work for the check of one message on the event loop. A message that needs more work
# is checked again on a thread.
TURN_NS: Final = 5_000_000
# The maximum number of digits of a version or an id in a header. No real one has so many digits.
_DIGITS_MAX = 18


class RequestedSchema(NamedTuple):
    """The version and the id of a schema in a request; None if not given."""

    version: int | None = None
    id: int | None = None


_NOT_NAMED = RequestedSchema()


class SchemaCheck:
    """Converts publications to the form that their topics store."""

    def __init__(self, directory: TopicDirectory, fresh: FreshSchemas) -> None:
        self._directory = directory
        self._fresh = fresh
        self._making = SchemaMaking()
        # Schema checks run on only one thread. More threads would take CPU time from the event
        # loop.
        self._one = ThreadPoolExecutor(max_workers=1, thread_name_prefix="schema-check")

    async def checked(
        self, topic: Topic, publication: Publication, headers: PublishHeaders, *, now_ms: int
    ) -> Publication:
        """Return the publication in the form in which it is stored.

        For a topic with schemas, the errors are those of `app.schemas.publications.typed`.
        """
        named = requested_schema_of(headers)
        topic = await self.known(topic, _looked_up(topic, publication, named))
        return await self.stored(topic, publication, named, now_ms=now_ms)

    async def stored(
        self,
        topic: Topic,
        publication: Publication,
        named: RequestedSchema,
        *,
        now_ms: int,
        work: RequestWork | None = None,
    ) -> Publication:
        """Return the publication in the form in which it is stored.

        The topic must be known to this process. `work` limits the work for the check. The work that
        was done is subtracted from it. A check that takes long is done on a thread. Errors are the
        same as those of `app.schemas.publications.typed`.
        """
        check = partial(_stored, topic, publication, named, now_ms=now_ms)
        if len(publication.body) <= WHOLE_BYTES_MAX:
            if topic.content_type is not ContentType.AVRO:
                return check(work=work)
            turn = RequestWork.of(TURN_NS if work is None else min(TURN_NS, work.left_ns))
            try:
                with turn.spent_from(work):
                    return check(work=turn)
            except ThroughputQuotaError:
                if work is not None and work.is_spent:
                    raise
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._one, _uncollected, partial(check, work=work))

    async def known(self, topic: Topic, named: RequestedSchema) -> Topic:
        """Return the topic as this process knows it, with its schema compiled.

        If the request names an unknown version or id, the newest versions are first read from the
        database.
        """
        topic = await self._looked_at(topic, named)
        # The newest version of the schema is prepared, because nearly always this version validates
        # the messages.
        schema: TopicSchema | None = topic.schemas[-1] if topic.schemas else None
        if named != _NOT_NAMED:
            schema = schema_if_known(topic, version=named.version, id=named.id)
        if schema is not None and not is_made(topic.content_type, schema.text):
            await self._making.ready(topic.content_type, schema.text)
        return topic

    async def _looked_at(self, topic: Topic, named: RequestedSchema) -> Topic:
        version, schema_id = named
        has_version = version is None or any(each.version == version for each in topic.schemas)
        if has_version and (schema_id is None or any(e.id == schema_id for e in topic.schemas)):
            return topic
        await self._fresh.look(topic.name)
        return self._directory.known(topic.name) or topic


def _uncollected(check: Callable[[], Publication]) -> Publication:
    """Run the check while the garbage collector is off.

    The collector would go through all values of the message again and again. Meanwhile it holds
    Python's global lock, so that the event loop cannot run.
    """
    with Uncollected():
        return check()


def _looked_up(topic: Topic, publication: Publication, named: RequestedSchema) -> RequestedSchema:
    """Return the schema that the request names, or else the one in the prefix of the body."""
    if named != RequestedSchema() or topic.content_type is not ContentType.AVRO:
        return named
    if media_type(publication.content_type) != AVRO_BINARY or not is_registered(topic):
        return named
    return RequestedSchema(id=prefix_id(publication.body))


def _stored(
    topic: Topic,
    publication: Publication,
    named: RequestedSchema,
    *,
    now_ms: int,
    work: RequestWork | None = None,
) -> Publication:
    if topic.schema is None and named == RequestedSchema():
        # If all versions are retired, the body is only checked to be JSON.
        json_body(publication.body)
        return publication
    given = Given(
        body=publication.body,
        media=media_type(publication.content_type),
        message_id=publication.id,
        now_ms=now_ms,
        version=named.version,
        id=named.id,
        propagated=publication.propagated,
        size_max=topic.message_size_max,
        work=work,
    )
    found: Typed = typed(topic, given)
    return publication._replace(
        body=found.body,
        content_type=found.content_type or publication.content_type,
        schema=found.headers,
    )


def requested_schema_of(headers: PublishHeaders) -> RequestedSchema:
    """Parse `Schema-Version` and `Schema-Id`.

    Raises:
        ValidationFailedError: The headers are not valid.
    """
    return RequestedSchema(_number(headers, SCHEMA_VERSION), _number(headers, SCHEMA_ID))


def _number(headers: PublishHeaders, name: bytes) -> int | None:
    given = headers.value(name)
    if given is None:
        return None
    if not given.isdigit() or len(given) > _DIGITS_MAX:
        raise ValidationFailedError.of(name.decode(), "must be a whole number")
    return int(given)
