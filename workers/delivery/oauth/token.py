"""Access tokens: how long they are used, and when the next one is requested (pure).

Times are monotonic seconds.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from app.domain.catalogue.oauth import OAuthProvider
from app.token_answers import Issued

# A token with a long lifetime is renewed at least this many seconds before it expires.
RENEWED_BEFORE_S: Final = 60.0
# If a token has a short lifetime, it is renewed when at least this part (0 to 1) of the lifetime is
# left.
RENEWED_BEFORE_PART: Final = 0.2
# A token with a long lifetime is not used any more if it expires in less than this number of
# seconds, because a request takes time to arrive.
UNUSED_S: Final = 1.0
# If a token has a short lifetime, it is not used any more when this part (0 to 1) of the lifetime
# is left.
UNUSED_PART: Final = 0.1
# The shortest delay after a failed request, even if none is configured.
DELAY_MIN: Final = timedelta(milliseconds=100)
# A delay is made shorter or longer at random, by at most this part (0 to 1) of the delay.
JITTER: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A token with its header. A later token of a source has a higher `serial`.

    From `renewed_at` on another token is requested. From `ends_at` on this token is not used.
    """

    serial: int
    header: tuple[bytes, bytes] = field(repr=False)
    renewed_at: float
    ends_at: float


def access_token(issued: Issued, *, serial: int, now: float, dice: float) -> AccessToken:
    """Return the token to use, received at `now`; `dice` is a random number from [0, 1).

    The random number keeps tokens that were issued together from being renewed at the same moment.
    Without a valid lifetime the token is used until a subscriber refuses it.
    """
    lifetime = issued.lifetime_s
    renewed_at = ends_at = float("inf")
    if lifetime is not None:
        before = min(lifetime * RENEWED_BEFORE_PART, RENEWED_BEFORE_S)
        renewed_at = now + lifetime - before * (1 + dice)
        ends_at = now + lifetime - min(lifetime * UNUSED_PART, UNUSED_S)
    return AccessToken(
        serial=serial,
        header=(b"Authorization", b"Bearer " + issued.token.encode("ascii")),
        renewed_at=renewed_at,
        ends_at=ends_at,
    )


def pause_s(provider: OAuthProvider, *, failures: int, dice: float) -> float:
    """Return the pause in seconds after this number of consecutive `failures` (at least 1).

    The random number `dice` makes the pause up to 10 % shorter or longer.
    """
    low = max(provider.initial_delay, DELAY_MIN).total_seconds()
    high = max(provider.delay_max.total_seconds(), low)
    # Limit the exponent, because longer pauses do not occur.
    pause = min(low * 2.0 ** min(failures - 1, 30), high)
    return pause * (1 - JITTER + 2 * JITTER * dice)
