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

# The length up to which a schema is compiled on the event loop. Compiling takes a few milliseconds
# at most, less than reading a chunk again.
AT_ONCE_MAX: Final = 8_192


class CodecsReady:
    """Finds messages whose schemas are not compiled yet, and has the schemas compiled."""

    def __init__(self, making: SchemaMaking | None = None) -> None:
        self._making = making or SchemaMaking()
        self._begun: dict[str, Future[None]] = {}
        # A text for people that names the schema for which the last messages had to wait.
        self.awaited = ""

    def hold(self, messages: Iterable[Message]) -> bool:
        """Return whether the messages must wait until their schemas are compiled.

        Start to compile those schemas. The messages must be read again a little later.
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
            # Forget the schema, even if it could not be compiled. Messages wait for a schema only
            # once.
            del self._begun[text]
            return False
        if begun is None and not is_made(ContentType.AVRO, text):
            self._begin(text)
        return text in self._begun

    def _begin(self, text: str) -> None:
        if len(self._begun) >= COMPILED_MAX:
            self._begun = {each: begun for each, begun in self._begun.items() if not begun.done()}
        self._begun[text] = self._making.begin(ContentType.AVRO, text)
