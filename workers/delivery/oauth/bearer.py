"""The tokens of one subscription: which one is used, and what to do if a token is refused."""

from collections import OrderedDict
from typing import Final

from app.domain.catalogue.subscription import IN_FLIGHT_MAX
from app.domain.message import Message, Partition
from workers.delivery.oauth.source import NEVER, TokenSource
from workers.delivery.oauth.token import AccessToken, pause_s

# The maximum number of messages for which a refused token is remembered. A message that is
# forgotten is sent once more with a new token.
REMEMBERED_MAX: Final = IN_FLIGHT_MAX

_Position = tuple[Partition, int]


class Bearer:
    """The tokens that one subscription uses from a token source. Times are monotonic seconds.

    A token that the subscriber refuses is not sent to this subscriber again, and another token is
    requested. Other subscriptions continue to use the old token. Between two requests for a token
    there is a delay, which grows until the subscriber accepts a token. So a subscriber that refuses
    all tokens causes few requests to the provider.
    """

    def __init__(self, source: TokenSource) -> None:
        self.source = source
        self._token: AccessToken | None = None
        # The serial numbers of the newest token that was refused, and of the newest token that was
        # accepted. All tokens older than the refused one count as refused, too.
        self._refused = self._accepted = 0
        self._renewals = 0
        self._renewed_at = NEVER
        # For each message, the serial number of the first token that was refused with it.
        self._retried: OrderedDict[_Position, int] = OrderedDict()

    def usable(self, now: float) -> AccessToken | None:
        """Return the token to send, if there is one. Request the next token when it is time."""
        token = self._token
        if token is not None and now < token.renewed_at:
            return token
        return self._considered(now)

    def has_token(self, now: float) -> bool:
        """Whether there is a token to send. This method requests no token."""
        return self._good(now) is not None

    def accepted(self, token: AccessToken, message: Message) -> None:
        """Called when the subscriber's response was not a refusal of the token."""
        if token.serial > self._accepted:
            self._accepted = token.serial
            self._renewals = 0
        if self._retried:
            self._retried.pop(_position(message), None)

    def refused(self, token: AccessToken, message: Message, now: float) -> bool:
        """Handle a 401 response; return whether to send the message again with another token.

        Each message is sent again once. If the refused token was accepted before, the provider has
        revoked it, or it has expired early.
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
        """Whether there is, or will be, another token than the refused one."""
        if token.serial <= self._refused:
            return True
        pause = pause_s(self.source.provider, failures=max(1, self._renewals), dice=0.5)
        if now < self._renewed_at + pause:
            # It is too early for another token request. Keep the refused token in use if the
            # subscriber has accepted it before.
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
