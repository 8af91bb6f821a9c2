"""Signatures of a delivery: the three headers of Standard Webhooks 1.0."""

import re
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote

from app.domain.catalogue.subscription import Subscription
from app.signing import SigningKey, signing_key

Header = tuple[bytes, bytes]

ID: Final = b"webhook-id"
TIMESTAMP: Final = b"webhook-timestamp"
SIGNATURE: Final = b"webhook-signature"
NAMES: Final = frozenset((ID, TIMESTAMP, SIGNATURE))

# All printable characters except "." and "%".
_PLAIN: Final = re.compile(rb"[!-$&-\-/-~]+")
_NEVER: Final = float("inf")


class _Timed(NamedTuple):
    key: SigningKey
    until: float


class Signer:
    """Signs one subscription's requests with each secret that has not expired, the newest first.

    Each attempt gets its own signature, because the time of sending is signed, too.
    """

    __slots__ = ("_ends", "_keys")

    def __init__(self, keys: list[_Timed]) -> None:
        self._keys = keys
        self._ends = min(timed.until for timed in keys)

    @classmethod
    def of(cls, subscription: Subscription) -> "Signer | None":
        """Return the signer of the subscription's requests; None if they are not signed."""
        # Return no signer for a locked subscription. Nothing is sent for it, and its keys are
        # unknown.
        if subscription.locked or not subscription.signing_secrets:
            return None
        return cls(
            [
                _Timed(
                    signing_key(secret.kind, secret.key),
                    _NEVER if secret.expires_at is None else secret.expires_at.timestamp(),
                )
                for secret in subscription.signing_secrets
            ]
        )

    def headers(self, message_id: bytes, body: bytes, now: datetime) -> list[Header]:
        """Return the headers that sign `body`, sent at `now`.

        The list is empty if all secrets have expired.
        """
        time = now.timestamp()
        if time >= self._ends:
            self._drop_expired(time)
            if not self._keys:
                return []
        webhook_id = webhook_id_of(message_id)
        timestamp = b"%d" % time
        start = b"%b.%b." % (webhook_id, timestamp)
        if len(self._keys) == 1:
            signed = self._keys[0].key.signature(start, body)
        else:
            signed = b" ".join([timed.key.signature(start, body) for timed in self._keys])
        return [(ID, webhook_id), (TIMESTAMP, timestamp), (SIGNATURE, signed)]

    def _drop_expired(self, time: float) -> None:
        self._keys = [timed for timed in self._keys if timed.until > time]
        self._ends = min((timed.until for timed in self._keys), default=_NEVER)


def webhook_id_of(message_id: bytes) -> bytes:
    """Return the `webhook-id` of a message. It is the same in each attempt.

    The separator of signature parts (".") and characters that could be changed on the way are
    percent-encoded. So two ids never become equal, and an id cannot look like another id with a
    time or a body.
    """
    return message_id if _PLAIN.fullmatch(message_id) else _quoted(message_id)


@lru_cache(maxsize=1024)
def _quoted(message_id: bytes) -> bytes:
    return quote(message_id, safe="/:@+=~").replace(".", "%2E").encode("ascii")
