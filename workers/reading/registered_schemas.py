"""Asks the schema registry for schemas that this worker has not read from the database yet."""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, Protocol

import structlog

from app.domain.catalogue.schema import ContentType
from app.domain.errors import AngeliaError
from app.schemas.compiled import require_schema
from app.schemas.formats import TopicFormats
from app.schemas.making import SchemaMaking
from app.schemas.versions import Registered

# The shortest time in seconds between two queries about the same topic, even if many records wait
# for schemas.
LOOK_EVERY_S: Final = 1.0
# A schema counts as missing only if it is missing in a query that starts at least this many seconds
# after the first record with this schema was read. A registry may have several servers, and one of
# them may know a new schema later.
SETTLING_S: Final = 1.0
# The maximum number of new versions that one query requests. If there are more, the newest ones are
# requested.
TAKEN_OVER_MAX: Final = 50
# The maximum number of remembered topics. If there are more, all are forgotten.
TOPICS_MAX: Final = 1_000

_log = structlog.get_logger()


class RegistryLookup(Protocol):
    """A schema registry; see `app.registry`."""

    async def versions(self, topic: str) -> list[int]:
        """Return the numbers of all versions that the registry has of the topic's schema."""

    async def version(self, topic: str, number: int) -> Registered | None:
        """Return this version of the topic's schema; None if it does not exist."""


class RegisteredSchemas:
    """Queries a registry about topics in the background, one after the other.

    The answers are stored in `formats`. API processes poll the registry, too, and store its schemas
    in the database, from which this worker reads them. But that takes longer.
    """

    def __init__(
        self,
        registry: RegistryLookup | None,
        formats: TopicFormats,
        *,
        clock: Callable[[], float] = monotonic,
        making: SchemaMaking | None = None,
    ) -> None:
        """Create a `RegisteredSchemas`.

        Without a registry nothing is queried, and `denies` always returns False.
        """
        self._registry = registry
        self._formats = formats
        self._clock = clock
        self._making = making or SchemaMaking()
        # The topics to query, in order.
        self._wanted: dict[str, None] = {}
        self._on_wanted = asyncio.Event()
        # For each topic, when the last query started.
        self._looked: dict[str, float] = {}
        # For each topic, when the last query with an answer started.
        self._answered: dict[str, float] = {}
        # The versions that are no valid Avro schemas, by topic. They are not requested again.
        self._unusable: dict[str, set[int]] = {}

    def fetch(self, topic: str) -> None:
        """Query the registry about the topic soon, unless it was queried just now."""
        looked = self._looked.get(topic)
        is_due = looked is None or self._clock() - looked >= LOOK_EVERY_S
        if self._registry is not None and is_due:
            self._wanted[topic] = None
            self._on_wanted.set()

    def denies(self, topic: str, since: float) -> bool:
        """Whether it is certain that the registry lacks the schemas that this topic's records need.

        It is certain if the registry has answered a query that began at least SETTLING_S after
        `since`, because all schemas of the answer are already stored in `formats`.
        """
        answered = self._answered.get(topic)
        return answered is not None and answered >= since + SETTLING_S

    async def run(self) -> None:
        """Query until cancelled."""
        if self._registry is None:
            return
        while True:
            await self._on_wanted.wait()
            topic = next(iter(self._wanted))
            await self._look_up(self._registry, topic)
            del self._wanted[topic]
            if not self._wanted:
                self._on_wanted.clear()

    async def _look_up(self, registry: RegistryLookup, topic: str) -> None:
        began = self._begun(topic)
        try:
            missing = await self._missing(registry, topic)
            found = await self._new_versions(registry, topic, missing[-TAKEN_OVER_MAX:])
            self._formats.learn(topic, found)
        except AngeliaError as exc:
            _log.warning("schema_registry_unavailable", topic=topic, reason=exc.message)
        except Exception:  # noqa: BLE001 - messages wait as they do without an answer
            _log.exception("schema_registry_look_broke", topic=topic)
        else:
            # Count the answer only if all versions of the registry were read. Otherwise an unknown
            # version may be one that was not read.
            if len(missing) <= TAKEN_OVER_MAX:
                self._answered[topic] = began

    def _begun(self, topic: str) -> float:
        if len(self._looked) >= TOPICS_MAX:
            for each in (self._looked, self._answered, self._unusable):
                each.clear()
        self._looked[topic] = self._clock()
        return self._looked[topic]

    async def _missing(self, registry: RegistryLookup, topic: str) -> list[int]:
        have = self._formats.versions(topic) | self._unusable.get(topic, set())
        return [each for each in await registry.versions(topic) if each not in have]

    async def _new_versions(
        self, registry: RegistryLookup, topic: str, missing: Sequence[int]
    ) -> list[Registered]:
        requested = [await registry.version(topic, each) for each in missing]
        found = [each for each in requested if each is not None]
        for each in found:
            await self._making.ready(ContentType.AVRO, each.text)
        return [each for each in found if self._is_usable(topic, each)]

    def _is_usable(self, topic: str, found: Registered) -> bool:
        try:
            require_schema(ContentType.AVRO, found.text)
        except AngeliaError as exc:
            self._unusable.setdefault(topic, set()).add(found.version)
            _log.warning(
                "registered_schema_unusable",
                topic=topic,
                version=found.version,
                reason=exc.message,
            )
            return False
        return True
