"""Changes of topics' schemas: new versions, removal, and versions from a schema registry."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final, Protocol

import structlog

from app.domain.catalogue.schema import ContentType
from app.domain.catalogue.topic import Topic
from app.domain.errors import (
    AngeliaError,
    OperationDisabledError,
    TopicExistsError,
    TopicNotFoundError,
    UnavailableError,
    ValidationFailedError,
)
from app.schemas.compiled import require_schema
from app.schemas.making import SchemaMaking
from app.schemas.migration import is_to_be_kept, with_kept_schema, without_kept_schema
from app.schemas.versions import (
    Registered,
    first_schema,
    with_registered,
    with_schema,
    without_schema,
)
from app.services.access.audit import Check, whatever
from app.services.catalogue.topics import TopicService
from app.services.directory.topics import TopicDirectory

_log = structlog.get_logger(__name__)

MIRROR_EVERY: Final = timedelta(seconds=30)
# The maximum number of new schema versions of one topic that are read from a registry in one step.
TAKEN_OVER_MAX: Final = 50


class ExternalRegistry(Protocol):
    """The schema registry outside of Angelia.

    The registry stores the versions of a topic's schema under a name, the topic's subject.
    """

    async def register(self, topic: str, kind: ContentType, text: str) -> Registered:
        """Register the schema as the newest version of the topic's schema."""

    async def require_compatible(self, topic: str, kind: ContentType, text: str) -> None:
        """Check that the registry would accept the schema as the newest one of the topic."""

    async def versions(self, topic: str) -> list[int]:
        """Return the numbers of the versions of the topic's schema, the oldest first."""

    async def version(self, topic: str, number: int) -> Registered | None:
        """Return one version of the topic's schema, if it exists."""

    async def latest(self, topic: str) -> Registered | None:
        """Return the newest version of the topic's schema, if there is one."""

    async def delete(self, topic: str) -> None:
        """Delete the topic's schema with all versions, if it exists."""


class SchemaService:
    """Changes the schemas of topics.

    If there is a schema registry, the registry is called before a change is stored. Angelia also
    stores the versions that other programs add to the registry: regularly, and when a publisher
    names an unknown version. So workers, and publishers of known versions, do not need the
    registry.
    """

    def __init__(self, topics: TopicService, registry: ExternalRegistry | None = None) -> None:
        self._topics = topics
        self._registry = registry
        self._making = SchemaMaking()

    async def prepare(self, kind: ContentType, text: object, topic: Topic | None = None) -> None:
        """Compile a schema before it is used, and compare it with the current schema of `topic`.

        Errors are not raised here: a schema with an error is refused when it is used.
        """
        if isinstance(text, str):
            await self._making.ready(kind, text)
            if topic is not None and topic.content_type is kind:
                await self._making.compared(topic, text)

    async def registered(self, topic: str, kind: ContentType, text: str) -> Registered | None:
        """Register the schema, if there is a registry. Return the registered version.

        Raises:
            ValidationFailedError: The registry refuses the schema.
            SchemaRegistryError: The registry failed.
        """
        await self._making.ready(kind, text)
        require_schema(kind, text)
        if self._registry is None:
            return None
        return await self._registry.register(topic, kind, text)

    async def known(self, topic: str) -> Registered | None:
        """Return the newest schema in the registry for the topic, which may not exist yet.

        Raises:
            SchemaRegistryError: The registry failed.
        """
        return None if self._registry is None else await self._registry.latest(topic)

    async def registered_draft(self, draft: Topic) -> Topic:
        """Register the schema of a topic that will be created, if there is a registry.

        Return the topic with the schema's version number and id from the registry.

        Raises:
            ValidationFailedError: The registry refuses the schema.
            SchemaRegistryError: The registry failed.
            TopicExistsError: The topic already exists. Nothing is registered then: otherwise a
                caller that may create topics could change the schemas of existing topics.
        """
        if draft.schema is None:
            return draft
        if self._registry is not None and await self._exists(draft.name):
            raise TopicExistsError(f"Topic {draft.name} already exists")
        kind, text = draft.content_type, draft.schema.text
        registered = await self.registered(draft.name, kind, text)
        return replace(draft, schemas=first_schema(kind, text, registered))

    async def _exists(self, name: str) -> bool:
        try:
            await self._topics.get(name)
        except TopicNotFoundError:
            return False
        return True

    async def registered_change(
        self, current: Topic, wanted: Topic, *, dry_run: bool = False
    ) -> Registered | None:
        """Register the schema of `wanted`, if the schema of `current` is another one.

        With `dry_run`, the registry is only asked whether it would accept the schema.

        Raises:
            ValidationFailedError: The registry refuses the schema.
            SchemaRegistryError: The registry failed.
        """
        if wanted.schema is None or wanted.schemas == current.schemas:
            return None
        kind, text = wanted.content_type, wanted.schema.text
        if not dry_run:
            return await self.registered(current.name, kind, text)
        if self._registry is not None:
            await self._registry.require_compatible(current.name, kind, text)
        return None

    async def add(
        self, name: str, text: str, *, keep: bool = False, check: Check[Topic] = whatever
    ) -> Topic:
        """Add the schema `text` to the topic as its newest version, unless it already is.

        With `keep`, an Avro schema can be stored for a JSON topic. The topic uses this schema when
        the topic's content type becomes AVRO. Errors of `TopicService.change` are raised too.

        Raises:
            ValidationFailedError: The schema is not valid.
            SchemaRegistryError: The registry failed.
        """
        current = await self._topics.get(name)
        check(current)
        await self.prepare(current.content_type, text, current)
        is_kept = keep and is_to_be_kept(current, text)
        kind = ContentType.AVRO if is_kept else current.content_type
        registered = await self.registered(name, kind, text)

        def edit(topic: Topic) -> Topic:
            check(topic)
            if is_kept and topic.content_type is ContentType.JSON:
                return with_kept_schema(topic, text, registered)
            return with_schema(topic, text, registered)

        return await self._topics.change(name, edit)

    async def remove(self, name: str, *, check: Check[Topic] = whatever) -> Topic:
        """Stop validating the topic's messages against its schema.

        Errors of `TopicService.change` are raised too.

        Raises:
            OperationDisabledError: The topic's content type is AVRO.
            SchemaRegistryError: The registry failed.
        """
        current = await self._topics.get(name)
        check(current)
        if current.content_type is ContentType.AVRO:
            message = f"Topic {name} is of AVRO, whose messages nobody could read without a schema"
            raise OperationDisabledError(message)
        if self._registry is not None and (current.schema or current.kept_schema):
            await self._registry.delete(name)

        def edit(topic: Topic) -> Topic:
            check(topic)
            return without_schema(without_kept_schema(topic))

        return await self._topics.change(name, edit)


class RegistryMirror:
    """Stores new schema versions of topics from a registry in Angelia."""

    def __init__(
        self, topics: TopicService, registry: ExternalRegistry, directory: TopicDirectory
    ) -> None:
        self._topics = topics
        self._registry = registry
        self._directory = directory
        # The versions in the registry that Angelia cannot use as schemas. A warning about each of
        # them is logged only once.
        self._unusable: set[tuple[str, int]] = set()
        self._looking = asyncio.Lock()
        self._making = SchemaMaking()

    async def look_at_all(self) -> None:
        """Store the registry's new schema versions of all topics that have a schema.

        Raises:
            UnavailableError: The log or the database cannot be reached.
        """
        for topic in self._directory.with_schemas():
            try:
                await self.look_at(topic.name)
            except TopicNotFoundError:
                continue
            except ValidationFailedError as exc:
                _log.warning("schemas_not_taken_over", topic=topic.name, reason=exc.message)
            except UnavailableError:
                raise
            except Exception:  # noqa: BLE001 - the other topics are checked anyway
                _log.exception("schemas_not_taken_over", topic=topic.name)

    async def look_at(self, name: str) -> None:
        """Store the registry's new versions of the topic's schema, if the topic has a schema.

        Raises:
            SchemaRegistryError: The registry failed.
            TopicNotFoundError: The topic does not exist.
        """
        topic = self._directory.known(name)
        if topic is None or topic.schema is None:
            return
        async with self._looking:
            found = await self._new_versions(topic)
        if found:
            await self._topics.change(name, lambda current: with_registered(current, found))

    async def _new_versions(self, topic: Topic) -> Sequence[Registered]:
        have = {each.version for each in topic.schemas}
        have |= {version for name, version in self._unusable if name == topic.name}
        missing = [each for each in await self._registry.versions(topic.name) if each not in have]
        found = []
        for number in missing[-TAKEN_OVER_MAX:]:
            version = await self._registry.version(topic.name, number)
            if version is None:
                continue
            await self._making.ready(topic.content_type, version.text)
            if self._is_usable(topic, version):
                found.append(version)
        return found

    def _is_usable(self, topic: Topic, version: Registered) -> bool:
        try:
            require_schema(topic.content_type, version.text)
            with_registered(topic, [version])
        except AngeliaError as exc:
            self._unusable.add((topic.name, version.version))
            _log.warning(
                "registered_schema_unusable",
                topic=topic.name,
                version=version.version,
                reason=exc.message,
            )
            return False
        return True
