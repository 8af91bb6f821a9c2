"""What is committed for a subscription in a partition: its position, and what must not be lost.

The log keeps an offset and a short text. The text says which offsets above the committed one are
finished too (so that
none of them is sent again), whose incarnation of the subscription wrote it, when the oldest
unfinished message was
opened (its time to live goes on) or, while its time to live stands, how much of it is over, how
often unfinished messages were tried, the lifetime counts (so that a message counts once, whatever
dies), and whose discards may be recorded although they are not in it
(app.domain.discards.retractions).

Text form, ASCII: `1 {subscription id} d={delivered} x={discarded} o={filtered out} v={volume}
t={opened ms} e={elapsed ms} s={seek} l={producer epoch} f={finished} a={attempts}`, of t and e
only one; parts that are zero are left out, unknown ones ignored (versions before `a` read the
rest).
`finished` is base64 of varints: run lengths from the committed offset on, alternately unfinished
and finished. `attempts` is base64 of varints, too: of each message that was tried how many offsets
it lies behind the one before it (the first: behind the committed offset), and how often it was
tried; the oldest messages, as many as there is room for.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

# Kafka's brokers refuse more than 4,096 bytes.
METADATA_BYTES_MAX: Final = 4_000
# However much is finished, the attempts of a hundred messages that lie close together have room.
ATTEMPTS_CHARS_MIN: Final = 300
# Version, id, six numbers and a producer epoch take at most 190 bytes; base64 turns three bytes
# into four characters.
FINISHED_BYTES_MAX: Final = (METADATA_BYTES_MAX - 200 - ATTEMPTS_CHARS_MIN) * 3 // 4
# Both lengths of a run pair, for partitions of up to 2**35 unfinished messages in a row.
RUN_PAIR_BYTES_MAX: Final = 10

_VERSION: Final = "1"

Ranges = Sequence[tuple[int, int]]
# By offset, in order: how often a message was tried.
Attempts = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """All before `offset` is finished, and the half-open ranges `finished` above it, in order."""

    subscription_id: str
    offset: int
    finished: Ranges = ()
    oldest_opened_ms: int | None = None
    # Instead of it while the clock stands: how long it ran.
    oldest_elapsed_ms: int | None = None
    delivered: int = 0
    discarded: int = 0
    filtered: int = 0
    volume: int = 0
    # The last move of the subscription that it knows of (app.domain.catalogue.seek); None: it does
    # not say.
    seek: int | None = 0
    # Of unfinished messages, at or above the offset.
    attempts: Attempts = ()
    # Of whoever may have recorded discards that are not committed here; "" where nobody has.
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
    """The text to commit for a subscription that has not delivered anything yet."""
    return Progress(subscription_id=subscription_id, offset=0).metadata()


def parse_progress(subscription_id: str, offset: int, metadata: str) -> Progress | None:
    """The progress that was committed, or None if another incarnation of the subscription wrote it.

    A text that is not ours (someone reset the offsets with a tool) says nothing but the position.
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
        # Damaged: the position itself still holds; sending finished messages again is the lesser
        # evil.
        return Progress(subscription_id=subscription_id, offset=offset, seek=None)


def _pairs(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        name, found, value = word.partition("=")
        if found:
            yield name, value


def encode_runs(offset: int, finished: Ranges) -> bytes:
    """Run lengths from `offset`, unfinished and finished in turn, as varints (LEB128)."""
    out = bytearray()
    for low, high in finished:
        _put_varint(out, low - offset)
        _put_varint(out, high - low)
        offset = high
    return bytes(out)


def fitting(offset: int, finished: Ranges) -> Ranges:
    """As many of the first ranges as a commit has room for.

    What is cut off is sent again after a crash. A commit that is too long would be refused as a
    whole, and all that it says with it.
    """
    size = 0
    for index, (low, high) in enumerate(finished):
        size += _varint_size(low - offset) + _varint_size(high - low)
        if size > FINISHED_BYTES_MAX:
            return finished[:index]
        offset = high
    return finished


def decode_runs(offset: int, encoded: bytes) -> Ranges:
    """The ranges that `encode_runs` wrote; ValueError if it is not that."""
    lengths = list(_varints(encoded))
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
    """Gaps from `offset` and numbers of attempts, as varints; of the first ones, as many as fit."""
    out = bytearray()
    for at, count in attempts:
        if len(out) + _varint_size(at - offset) + _varint_size(count) > bytes_max:
            break
        _put_varint(out, at - offset)
        _put_varint(out, count)
        offset = at
    return bytes(out)


def decode_attempts(offset: int, encoded: bytes) -> Attempts:
    """The attempts that `encode_attempts` wrote; ValueError if it is not that."""
    numbers = list(_varints(encoded))
    if len(numbers) % 2:
        msg = "a message without a number of attempts"
        raise ValueError(msg)
    attempts = []
    for gap, count in zip(numbers[::2], numbers[1::2], strict=True):
        offset += gap
        attempts.append((offset, count))
    return tuple(attempts)


def _put_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _varint_size(value: int) -> int:
    return max(1, -(-value.bit_length() // 7))


def _varints(encoded: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in encoded:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 - the high bit says that more follows
            yield value
            value = shift = 0
    if shift:
        msg = "cut off within a number"
        raise ValueError(msg)
