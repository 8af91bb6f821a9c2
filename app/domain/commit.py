"""The commit of a subscription in a partition: its position, and state that must not be lost.

The log keeps an offset and a short text. The text contains: the finished offsets above the
committed one (so that these messages are not sent again); the id of the subscription's incarnation;
when the oldest unfinished message was opened (its time to live continues) or, while the time to
live is paused, how much of it has passed; the attempts of unfinished messages; the lifetime counts
(so that each message counts once, whatever crashes); and the producer epoch of discards that may be
recorded although this commit does not contain them (app.domain.discards.retractions).

Text form, ASCII: `1 {subscription id} d={delivered} x={discarded} o={filtered out} v={volume}
t={opened ms} e={elapsed ms} s={seek} l={producer epoch} f={finished} a={attempts}`, with either t
or e. Parts that are zero are left out, and unknown parts are ignored, so older versions read the
rest. `finished` is base64 of varints: run lengths from the committed offset on, alternately
unfinished and finished. `attempts` is base64 of varints too: for each retried message its distance
from the one before it (the first: from the committed offset), and its attempts; for as many of the
oldest messages as there is space.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.varints import put_varint, read_varints, varint_size

# The maximum size of the text: Kafka's brokers refuse more than 4,096 bytes.
METADATA_BYTES_MAX: Final = 4_000
# The part of the text that is reserved for the attempts of unfinished messages, in characters. It
# is enough for a hundred adjacent messages.
ATTEMPTS_CHARS_MIN: Final = 300
# The maximum size of the encoded finished offsets. The other fields of the text (version, id, six
# numbers and a producer epoch) take at most 190 bytes, and base64 makes four characters of three
# bytes.
FINISHED_BYTES_MAX: Final = (METADATA_BYTES_MAX - 200 - ATTEMPTS_CHARS_MIN) * 3 // 4
# The maximum size in bytes of two encoded run lengths, if at most 2**35 messages in a row are
# unfinished.
RUN_PAIR_BYTES_MAX: Final = 10

_VERSION: Final = "1"

Ranges = Sequence[tuple[int, int]]
# The retried messages, in order: pairs of an offset and a number of attempts.
Attempts = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a subscription in a partition.

    Messages before `offset` and in the ranges `finished` are finished.

    The ranges are half-open and in order.
    """

    subscription_id: str
    offset: int
    finished: Ranges = ()
    oldest_opened_ms: int | None = None
    # While the time to live is paused, how much of it has passed. Otherwise None.
    oldest_elapsed_ms: int | None = None
    delivered: int = 0
    discarded: int = 0
    filtered: int = 0
    volume: int = 0
    # The number of the last move of the subscription that its worker knew
    # (app.domain.catalogue.seek); None if unknown.
    seek: int | None = 0
    # The numbers of attempts of unfinished messages, which are at `offset` or above it.
    attempts: Attempts = ()
    # The producer epoch of discards that may be recorded, but are not committed; "" if there are
    # none.
    producer_epoch: str = ""

    def metadata(self) -> str:
        """The text to commit with `offset`."""
        parts = {
            "d": self.delivered or None,
            "x": self.discarded or None,
            "o": self.filtered or None,
            "v": self.volume or None,
            "t": self.oldest_opened_ms,
            "e": self.oldest_elapsed_ms,
            "s": self.seek or None,
            "l": self.producer_epoch or None,
            "f": base64.b64encode(encode_runs(self.offset, self.finished)).decode("ascii") or None,
        }
        written = [f"{name}={value}" for name, value in parts.items() if value is not None]
        text = " ".join([_VERSION, self.subscription_id, *written])
        room = (METADATA_BYTES_MAX - len(text) - len(" a=")) // 4 * 3
        tried = encode_attempts(self.offset, self.attempts, bytes_max=room)
        return f"{text} a={base64.b64encode(tried).decode('ascii')}" if tried else text


def initial_metadata(subscription_id: str) -> str:
    """Return the text to commit for a subscription without any delivery yet."""
    return Progress(subscription_id=subscription_id, offset=0).metadata()


def parse_progress(subscription_id: str, offset: int, metadata: str) -> Progress | None:
    """Return the committed progress; None if another incarnation of the subscription wrote it.

    If the text has another form, a tool has set the offsets. Then only the offset is used.
    """
    version, *rest = metadata.split(" ") if metadata else [""]
    if version != _VERSION or not rest:
        return Progress(subscription_id=subscription_id, offset=offset, seek=None)
    if rest[0] != subscription_id:
        return None
    return _parsed(subscription_id, offset, dict(_pairs(rest[1:])))


def _parsed(subscription_id: str, offset: int, parts: dict[str, str]) -> Progress:
    try:
        return Progress(
            subscription_id=subscription_id,
            offset=offset,
            finished=decode_runs(offset, base64.b64decode(parts.get("f", ""), validate=True)),
            oldest_opened_ms=int(parts["t"]) if "t" in parts else None,
            oldest_elapsed_ms=int(parts["e"]) if "e" in parts else None,
            delivered=int(parts.get("d", "0")),
            discarded=int(parts.get("x", "0")),
            filtered=int(parts.get("o", "0")),
            volume=int(parts.get("v", "0")),
            seek=int(parts.get("s", "0")),
            producer_epoch=parts.get("l", ""),
            attempts=decode_attempts(offset, base64.b64decode(parts.get("a", ""), validate=True)),
        )
    except (ValueError, binascii.Error):
        # Use only the position if the text is damaged. Finished messages are then sent again, which
        # is better than losing messages.
        return Progress(subscription_id=subscription_id, offset=offset, seek=None)


def _pairs(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        name, found, value = word.partition("=")
        if found:
            yield name, value


def encode_runs(offset: int, finished: Ranges) -> bytes:
    """Encode the lengths of runs from `offset` on, as varints (LEB128).

    The runs are alternately of unfinished and of finished messages.
    """
    out = bytearray()
    for low, high in finished:
        put_varint(out, low - offset)
        put_varint(out, high - low)
        offset = high
    return bytes(out)


def fitting(offset: int, finished: Ranges) -> Ranges:
    """Return as many of the first ranges as a commit has space for.

    Messages in ranges that are left out are sent again after a crash. A commit that is too long
    would be refused completely.
    """
    size = 0
    for index, (low, high) in enumerate(finished):
        size += varint_size(low - offset) + varint_size(high - low)
        if size > FINISHED_BYTES_MAX:
            return finished[:index]
        offset = high
    return finished


def decode_runs(offset: int, encoded: bytes) -> Ranges:
    """Decode the ranges of `encode_runs`.

    Raises:
        ValueError: The bytes are not valid.
    """
    lengths = list(read_varints(encoded))
    if len(lengths) % 2:
        msg = "a run of unfinished messages without a finished one behind it"
        raise ValueError(msg)
    ranges = []
    for unfinished, done in zip(lengths[::2], lengths[1::2], strict=True):
        low = offset + unfinished
        offset = low + done
        ranges.append((low, offset))
    return tuple(ranges)


def encode_attempts(offset: int, attempts: Attempts, *, bytes_max: int) -> bytes:
    """Encode attempts as varints: distances from `offset`, and numbers of attempts.

    As many attempts as fit are encoded, from the first on.
    """
    out = bytearray()
    for at, count in attempts:
        if len(out) + varint_size(at - offset) + varint_size(count) > bytes_max:
            break
        put_varint(out, at - offset)
        put_varint(out, count)
        offset = at
    return bytes(out)


def decode_attempts(offset: int, encoded: bytes) -> Attempts:
    """Decode the result of `encode_attempts`.

    Raises:
        ValueError: The bytes are not valid.
    """
    numbers = list(read_varints(encoded))
    if len(numbers) % 2:
        msg = "a message without a number of attempts"
        raise ValueError(msg)
    attempts = []
    for gap, count in zip(numbers[::2], numbers[1::2], strict=True):
        offset += gap
        attempts.append((offset, count))
    return tuple(attempts)
