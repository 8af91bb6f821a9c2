"""The tokens of one subscription: which one it uses, and what its refusal means."""

from collections import OrderedDict
from typing import Final

from app.domain.catalogue.subscription import IN_FLIGHT_MAX
from app.domain.message import Message, Partition
from workers.delivery.oauth.source import NEVER, TokenSource
from workers.delivery.oauth.token import AccessToken, pause_s

# So many messages with a refused token are remembered; one that is forgotten gets another
# chance.
REMEMBERED_MAX: Final = IN_FLIGHT_MAX

_Position = tuple[Partition, int]


class Bearer:
    """One subscription's view of a source. Times are monotonic seconds.

    A token that its subscriber refuses is not sent to that one again, and another is requested; who
    else uses the token goes on with it. Between two such requests there are the provider's delays,
    which grow until a token is accepted: a subscriber that refuses them all gets few.
    """

    def __init__(self, source: TokenSource) -> None:
        self.source = source
        self._token: AccessToken | None = None
        # Tokens up to this serial are refused, and the one of that serial is accepted.
        self._refused = self._accepted = 0
        self._renewals = 0
        self._renewed_at = NEVER
        # The first token that each message was refused with.
        self._retried: OrderedDict[_Position, int] = OrderedDict()

    def usable(self, now: float) -> AccessToken | None:
        """The token to send, if there is one; another is requested when it is time."""
        token = self._token
        if token is not None and now < token.renewed_at:
            return token
        return self._considered(now)

    def has_token(self, now: float) -> bool:
        """Whether there is a token to send; none is requested."""
        return self._good(now) is not None

    def accepted(self, token: AccessToken, message: Message) -> None:
        """The subscriber answered something else than that the token will not do."""
        if token.serial > self._accepted:
            self._accepted = token.serial
            self._renewals = 0
        if self._retried:
            self._retried.pop(_position(message), None)

    def refused(self, token: AccessToken, message: Message, now: float) -> bool:
        """The subscriber answered 401; whether the message shall be sent again, with another one.

        A message gets that once. A token that was accepted before has been revoked, or ended early.
        """
        position = _position(message)
        first = self._retried.setdefault(position, token.serial)
        while len(self._retried) > REMEMBERED_MAX:
            self._retried.popitem(last=False)
        if first != token.serial or not self._replaced(token, now):
            del self._retried[position]
            return False
        return True

    def _considered(self, now: float) -> AccessToken | None:
        token = self._token = self._good(now)
        if token is None or now >= token.renewed_at:
            self.source.renew(now)
        return token

    def _good(self, now: float) -> AccessToken | None:
        token = self.source.current
        if token is None or token.serial <= self._refused or now >= token.ends_at:
            return None
        return token

    def _replaced(self, token: AccessToken, now: float) -> bool:
        """Whether there is, or will be, another token than this one that was refused."""
        if token.serial <= self._refused:
            return True
        pause = pause_s(self.source.provider, failures=max(1, self._renewals), dice=0.5)
        if now < self._renewed_at + pause:
            # Too early to ask again. One that was accepted is tried again until then.
            return token.serial == self._accepted
        self._refused, self._token = token.serial, None
        self._renewals += 1
        self._renewed_at = now
        current = self.source.current
        if current is None or current.serial <= token.serial:
            self.source.renew(now)
        return True


def _position(message: Message) -> _Position:
    return message.partition, message.offset
