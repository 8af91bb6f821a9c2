"""Prepares large schemas outside of the event loop, before their messages are handled."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from app.domain.catalogue.schema import ContentType
from app.domain.message import Message
from app.schemas.compiled import COMPILED_MAX, is_made
from app.schemas.making import SchemaMaking
from app.schemas.messages import AvroMessage

if TYPE_CHECKING:
    from concurrent.futures import Future

# A schema up to this length is compiled on the event loop. This takes a few milliseconds at most,
# which is less than to read a chunk again after the schema was compiled elsewhere.
AT_ONCE_MAX: Final = 8_192


class CodecsReady:
    """Finds messages whose schemas are not compiled yet, and compiles these schemas."""

    def __init__(self, making: SchemaMaking | None = None) -> None:
        self._making = making or SchemaMaking()
        self._begun: dict[str, Future[None]] = {}
        # A text for people that names the schema for which the last messages had to wait.
        self.awaited = ""

    def hold(self, messages: Iterable[Message]) -> bool:
        """Return whether the messages must wait until their schemas are compiled.

        Start to compile the schemas. The caller must read the messages again a little later.
        """
        used = (each.schema for each in messages if isinstance(each, AvroMessage))
        large = {each.text: each for each in used if each and len(each.text) > AT_ONCE_MAX}
        waiting = [each for text, each in large.items() if self._holds(text)]
        if waiting:
            self.awaited = f"version {waiting[0].version} of the schema to be made ready"
        return bool(waiting)

    def _holds(self, text: str) -> bool:
        begun = self._begun.get(text)
        if begun is not None and begun.done():
            # The schema is compiled, or cannot be compiled. Forget it in both cases, because
            # messages wait only once for a schema.
            del self._begun[text]
            return False
        if begun is None and not is_made(ContentType.AVRO, text):
            self._begin(text)
        return text in self._begun

    def _begin(self, text: str) -> None:
        if len(self._begun) >= COMPILED_MAX:
            self._begun = {each: begun for each, begun in self._begun.items() if not begun.done()}
        self._begun[text] = self._making.begin(ContentType.AVRO, text)
