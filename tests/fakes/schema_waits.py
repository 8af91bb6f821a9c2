"""Records whose schema version is not known yet, and the part of a worker that waits for it."""

from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.message import Record
from app.log.interface import Chunk
from tests.fakes.reading import ORDERS
from workers.reading.known_changes import KnownChanges
from workers.reading.schema_versions import VersionWait


def a_topic(*versions: int) -> Topic:
    schemas = tuple(TopicSchema(version=each, id=each, text='"int"') for each in versions)
    return Topic(name=ORDERS.topic, content_type=ContentType.AVRO, schemas=schemas)


def written_by(version: int, *, offset: int = 0) -> Chunk:
    record = Record(offset, 0, None, b"\x0e", [(b"sv", b"%d" % version), (b"ct", b"avro/binary")])
    return Chunk(ORDERS, offset, offset + 1, [record], 10)


def published(version: int | bytes, *, offset: int = 0) -> Chunk:
    """Return a chunk with one record as an API process writes it, with a message id.

    Foreign records have no message id.
    """
    named = version if isinstance(version, bytes) else b"%d" % version
    headers = [(b"id", b"m-1"), (b"sv", named), (b"ct", b"avro/binary")]
    return Chunk(ORDERS, offset, offset + 1, [Record(offset, 0, None, b"\x0e", headers)], 10)


def prefixed(number: int, *, offset: int = 0) -> Chunk:
    """Return a chunk with one record of a foreign producer.

    The record has Confluent's prefix with the schema id `number`, and then the Avro number 7.
    """
    record = Record(offset, 0, None, b"\0" + number.to_bytes(4) + b"\x0e", [])
    return Chunk(ORDERS, offset, offset + 1, [record], 10)


class Told:
    """A wait for news of the control plane about schemas. The test decides when they arrive."""

    def __init__(self) -> None:
        self.now = 0.0
        self.known = KnownChanges(lambda: self.now)
        self.wait = VersionWait(lambda: self.now, known=self.known)
