"""A provider of OAuth tokens, and subscriptions whose subscribers accept only its tokens.

The settings are drawn with a generator of their own. So the other seeds keep their histories.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Final, NamedTuple

import orjson

from app.domain.catalogue.oauth import OAuthPolicy, OAuthProvider
from app.domain.catalogue.subscription import Subscription
from tests.simulation.history import History, TokenAnswered
from tests.simulation.network import Request, Response
from tests.simulation.subscribers import Mood, Subscriber, answer
from tests.simulation.virtual_loop import VirtualLoop

# The name of the provider in the network.
TOKENS: Final = "tokens"
# The fraction of plans with a provider, and of their subscriptions that need its tokens.
PLANS: Final = 0.15
SUBSCRIPTIONS: Final = 0.7
# The faults of the provider. To revoke is to accept no token any more that was issued before.
FAULTS: Final = ("mood", "cut", "deaf", "lagging", "reset", "revoke")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPlan:
    """The provider of tokens, and its mood at the start. Times are in seconds.

    `lifetime_s` is that of tokens; with 0 they do not expire. The pause after a failed request is
    `delay_s`; it doubles, up to `delay_max_s`.
    """

    mood: str
    lifetime_s: int
    delay_s: float
    delay_max_s: float
    timeout_s: float


class TokenFault(NamedTuple):
    """A fault of the provider. `to` is its new mood."""

    at: float
    what: str
    seconds: float
    amount: float
    to: str


class Drawn(NamedTuple):
    """The provider of a plan, which of the subscriptions need its tokens, and its faults."""

    plan: TokenPlan | None
    authorized: Sequence[bool]
    faults: Sequence[TokenFault]


def draw(seed: int, subscriptions: int, moods: Sequence[str], *, storm_s: float) -> Drawn:
    """Draw the provider of a seed's plan, if it has one."""
    random = Random(f"tokens {seed}")
    if random.random() >= PLANS:
        return Drawn(None, [False] * subscriptions, ())
    plan = TokenPlan(
        mood="well" if random.random() < 0.6 else random.choice(moods),
        lifetime_s=random.choice((0, 2, 5, 20, 3_600)),
        delay_s=random.choice((0.1, 1.0)),
        delay_max_s=random.choice((1.0, 10.0)),
        timeout_s=random.choice((0.5, 1.0)),
    )
    authorized = [random.random() < SUBSCRIPTIONS for _ in range(subscriptions)]
    faults = [_fault(random, moods, storm_s) for _ in range(random.choice((0, 1, 2, 4)))]
    return Drawn(plan, authorized, faults)


def _fault(random: Random, moods: Sequence[str], storm_s: float) -> TokenFault:
    return TokenFault(
        at=round(random.uniform(1.0, storm_s), 3),
        what=random.choice(FAULTS),
        seconds=round(random.uniform(0.5, 8.0), 3),
        amount=round(random.random(), 3),
        to=random.choice(moods),
    )


def with_tokens(subscription: Subscription, plan: TokenPlan, endpoint: str) -> Subscription:
    """Return the subscription with tokens of the provider at this URL."""
    provider = OAuthProvider(
        name=TOKENS,
        token_endpoint=endpoint,
        client_id="simulation",
        client_secret="secret",
        initial_delay=timedelta(seconds=plan.delay_s),
        delay_max=timedelta(seconds=plan.delay_max_s),
        request_timeout=timedelta(seconds=plan.timeout_s),
    )
    policy = OAuthPolicy(provider_name=TOKENS)
    return replace(subscription, oauth=policy, oauth_provider=provider)


class TokenServer(Subscriber):
    """The provider. It has the moods of subscribers."""

    is_subscriber = False

    def __init__(self, plan: TokenPlan, loop: VirtualLoop, history: History) -> None:
        super().__init__(TOKENS, loop, history)
        self._plan = plan
        # Until when each token is accepted.
        self._valid_until: dict[str, float] = {}

    def admits(self, request: Request) -> bool:
        """Whether a request to a subscriber has a token that is valid now."""
        return self._loop.time() < self._valid_until.get(request.token, 0.0)

    def revoke(self) -> None:
        """Accept none of the tokens any more that were issued until now."""
        self._valid_until.clear()

    def _arrived(self, request: Request) -> None:
        """Do nothing: the history does not tell when a token request arrives."""

    def _accept(self, request: Request, respond: Callable[[Response], None], mood: Mood) -> None:
        token, lifetime_s = f"token-{request.number}", self._plan.lifetime_s
        self._valid_until[token] = self._loop.time() + (lifetime_s or float("inf"))
        issued: dict[str, object] = {"access_token": token, "token_type": "Bearer"}
        if lifetime_s:
            issued["expires_in"] = lifetime_s
        self._note(request, 200, None, token=token)
        payload = answer(200, mood, orjson.dumps(issued))
        respond(Response(payload, 200, closes=not mood.keeps_alive))

    def _decided(self, request: Request, status: int, retry_after: float | None = None) -> None:
        self._note(request, status, retry_after, token="")

    def _note(
        self, request: Request, status: int, retry_after: float | None, *, token: str
    ) -> None:
        self._history.add(
            TokenAnswered(
                at=self._loop.time(),
                request=request.number,
                status=status,
                token=token,
                retry_after=retry_after,
            )
        )
