"""Limits the work of validating the messages of one request, all together."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

from app.domain.errors import ThroughputQuotaError

# The time, in ns, that the validation of one request of any size may take. A single message may
# take 10 ms (JSON Schema) or 30 ms (Avro), and more time for each byte. Without this limit, a
# request with a thousand messages could take a thousand times as long.
LIMIT_NS: Final = 500_000_000
# The time, in ns, that is added to the limit of a request for each of its bytes.
BYTE_LIMIT_NS: Final = 400
TOO_MUCH: Final = (
    "The messages of the batch up to this one take more work to be held against their schema than"
    " those of one request may: publish it in another batch"
)


class RequestWork:
    """The work that is left for the messages of one request, in ns."""

    def __init__(self, size: int) -> None:
        """Create a `RequestWork` for a request of `size` bytes."""
        self.left_ns: float = LIMIT_NS + BYTE_LIMIT_NS * size
        self._ample_ns = self.left_ns / 2

    @classmethod
    def of(cls, ns: float) -> Self:
        """Return a `RequestWork` with this limit, in ns."""
        work = cls(0)
        work.left_ns, work._ample_ns = ns, ns / 2
        return work

    @contextmanager
    def spent_from(self, whole: "RequestWork | None") -> Iterator[None]:
        """Subtract the work of the block from `whole` too, if `whole` is given.

        The block subtracts its work from this object, which is for a part of the work of `whole`.
        """
        before = self.left_ns
        try:
            yield
        finally:
            if whole is not None:
                whole.left_ns -= before - self.left_ns

    @property
    def is_ample(self) -> bool:
        """Whether so much work is left that a message's cost may be estimated, not counted."""
        return self.left_ns > self._ample_ns

    @property
    def is_spent(self) -> bool:
        """Whether no work is left (less than 1 ns)."""
        return self.left_ns < 1

    def spend(self, ns: float) -> None:
        """Subtract the work, in ns.

        Raises:
            ThroughputQuotaError: Less than `ns` is left. Nothing is subtracted.
        """
        if ns > self.left_ns:
            raise ThroughputQuotaError(TOO_MUCH)
        self.left_ns -= ns
