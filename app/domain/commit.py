"""The commit of a subscription in a partition: a position, and a text that must not be lost.

The log keeps the committed offset and a short text. The text contains the finished offsets above
the committed offset, so that these messages are not sent again, and the id of the subscription's
incarnation. It contains the time when the oldest unfinished message was opened, so that the
message's time to live continues. While the time to live is paused, the text has instead how much of
it has passed. It contains the numbers of attempts of unfinished messages, and the counts of the
subscription since its creation. So each message counts once, whatever crashes. It also contains a
producer epoch, if discards may be recorded that are not in this commit
(app.domain.discards.retractions).

The form of the text (ASCII) is: `1 {subscription id} d={delivered} x={discarded} o={filtered out}
v={volume} t={opened ms} e={elapsed ms} s={seek} l={producer epoch} f={finished} a={attempts}`. It
has either t or e. Fields that are zero are left out. A reader ignores unknown fields, so older
versions can read a newer text. `finished` is base64 of varints. The varints are counts of messages
from the committed offset on: first unfinished ones, then finished ones, then unfinished ones, and
so on. `attempts` is also base64 of varints. For each retried message, they are its distance from
the retried message before it, and its number of attempts. The first distance is from the committed
offset. If there is too little space, the newest messages are left out.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.varints import put_varint, read_varints, varint_size

# The maximum size of the text of a commit. Kafka's brokers refuse more than 4,096 bytes.
METADATA_BYTES_MAX: Final = 4_000
# The number of characters in the text of a commit that are reserved for numbers of attempts. This
# is enough for a hundred adjacent messages.
ATTEMPTS_CHARS_MIN: Final = 300
# The maximum number of bytes of the finished offsets in a commit, before they are encoded as
# base64. Base64 makes four characters of three bytes. The other fields (version, id, six numbers
# and a producer epoch) take at most 190 bytes.
FINISHED_BYTES_MAX: Final = (METADATA_BYTES_MAX - 200 - ATTEMPTS_CHARS_MIN) * 3 // 4
# The maximum number of bytes of two encoded counts: of unfinished messages, and of the finished
# messages after them. This is true if at most 2**35 adjacent messages are unfinished.
RUN_PAIR_BYTES_MAX: Final = 10

_VERSION: Final = "1"

Ranges = Sequence[tuple[int, int]]
# The retried messages in the order of their offsets: for each, its offset and its number of
# attempts.
Attempts = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a subscription in a partition.

    All messages before `offset` are finished, and those in the ranges `finished`.

    Each range has its first offset, and the offset after its last one. The ranges are in order.
    """

    subscription_id: str
    offset: int
    finished: Ranges = ()
    oldest_opened_ms: int | None = None
    # How much of the oldest message's time to live has passed, while the time to live is paused.
    # Otherwise None.
    oldest_elapsed_ms: int | None = None
    delivered: int = 0
    discarded: int = 0
    filtered: int = 0
    volume: int = 0
    # The number of the subscription's last move that was known to the worker
    # (app.domain.catalogue.seek); None if unknown.
    seek: int | None = 0
    # The numbers of attempts of retried messages that are not finished. Their offsets are not below
    # `offset`.
    attempts: Attempts = ()
    # The producer epoch of discards that may be recorded and are not in this commit; "" if there
    # are none.
    producer_epoch: str = ""

    def metadata(self) -> str:
        """Return the text that is committed together with `offset`."""
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
    """Return the text of the first commit of a subscription, before any delivery."""
    return Progress(subscription_id=subscription_id, offset=0).metadata()


def parse_progress(subscription_id: str, offset: int, metadata: str) -> Progress | None:
    """Return the progress in a commit.

    The result is None if another incarnation of the subscription wrote the commit. If the text has
    another form, another tool has set the offset. Then only the offset is used.
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
        # If the text is damaged, only the offset is used. Some finished messages are then sent
        # again, which is better than losing messages.
        return Progress(subscription_id=subscription_id, offset=offset, seek=None)


def _pairs(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        name, found, value = word.partition("=")
        if found:
            yield name, value


def encode_runs(offset: int, finished: Ranges) -> bytes:
    """Encode the finished ranges as varints (LEB128).

    The varints are counts of messages from `offset` on: of unfinished messages, then of the
    finished messages after them, and so on.
    """
    out = bytearray()
    for low, high in finished:
        put_varint(out, low - offset)
        put_varint(out, high - low)
        offset = high
    return bytes(out)


def fitting(offset: int, finished: Ranges) -> Ranges:
    """Return the first ranges of `finished`, as many as a commit has space for.

    Messages in the other ranges are sent again after a crash. If a commit were too long, the log
    would refuse the whole commit.
    """
    size = 0
    for index, (low, high) in enumerate(finished):
        size += varint_size(low - offset) + varint_size(high - low)
        if size > FINISHED_BYTES_MAX:
            return finished[:index]
        offset = high
    return finished


def decode_runs(offset: int, encoded: bytes) -> Ranges:
    """Decode the finished ranges that `encode_runs` has encoded.

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
    """Encode the numbers of attempts as varints, in at most `bytes_max` bytes.

    For each message, the varints are its distance from the message before it, and its number of
    attempts. The first distance is from `offset`. If there is too little space, the last messages
    are left out.
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
    """Decode the numbers of attempts that `encode_attempts` has encoded.

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
