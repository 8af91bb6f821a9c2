"""Where subscriptions get their tokens from: one source for all that request the same."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, NamedTuple, Self
from weakref import WeakValueDictionary

import structlog

from app.domain.catalogue.oauth import OAuthPolicy, OAuthProvider
from app.domain.secrets import MASK
from workers.delivery.oauth.client import Exchanging, ProviderClient
from workers.delivery.oauth.token import AccessToken, TokenRequestError, access_token, pause_s

_log = structlog.get_logger()

Spawn = Callable[[Coroutine[Any, Any, None]], object]
Dice = Callable[[], float]

NEVER: Final = float("-inf")


class TokenSource:
    """One kind of token of one provider: the newest one, and at most one request for the next.

    While a request fails, the token from before is used up to its end. Times are monotonic seconds.
    """

    def __init__(
        self, client: ProviderClient, policy: OAuthPolicy, *, spawn: Spawn, dice: Dice
    ) -> None:
        self._client = client
        self._policy = policy
        self._spawn = spawn
        self._dice = dice
        self._failures = 0
        self._settled = asyncio.Event()
        self._waiting: set[Callable[[], object]] = set()
        self.current: AccessToken | None = None
        # Since when a request is under way; None: there is none.
        self.requesting_since: float | None = None
        # No request is made before this.
        self.paused_until = NEVER
        # Why the last one was in vain.
        self.problem = ""

    @property
    def provider(self) -> OAuthProvider:
        """The issuer of its tokens."""
        return self._client.provider

    def renew(self, now: float) -> None:
        """Ask for another token, unless that is under way or it is too early after a failure."""
        if self.requesting_since is None and now >= self.paused_until:
            self.requesting_since = now
            self._settled.clear()
            self._spawn(self._ask())

    def notify(self, wake: Callable[[], object]) -> None:
        """Call `wake` when the request that is under way is over."""
        self._waiting.add(wake)

    async def settled(self) -> None:
        """Return when the request that is under way is over."""
        await self._settled.wait()

    async def _ask(self) -> None:
        try:
            issued = await self._client.ask(self._policy)
        except TokenRequestError as exc:
            self._failed(exc)
        except Exception:  # noqa: BLE001 - a defect of ours is not to end the others' requests
            _log.exception("token_request_broke", provider=self.provider.name)
            self._failed(TokenRequestError("an internal error"))
        else:
            self.current = access_token(
                issued,
                serial=self.current.serial + 1 if self.current else 1,
                now=time.monotonic(),
                dice=self._dice(),
            )
            self._failures, self.paused_until, self.problem = 0, NEVER, ""
            _log.info("token_issued", provider=self.provider.name, lifetime_s=issued.lifetime_s)
        finally:
            self._request_ended()

    def _failed(self, error: TokenRequestError) -> None:
        self._failures += 1
        pause = pause_s(self.provider, failures=self._failures, dice=self._dice())
        if error.retry_after is not None:
            pause = max(pause, error.retry_after.total_seconds())
        self.paused_until = time.monotonic() + pause
        self.problem = error.reason
        _log.warning(
            "token_request_failed",
            provider=self.provider.name,
            reason=error.reason,
            again_in_s=round(pause, 3),
        )

    def _request_ended(self) -> None:
        self.requesting_since = None
        self._settled.set()
        waiting, self._waiting = self._waiting, set()
        for wake in waiting:
            wake()


class _Key(NamedTuple):
    """What makes a kind of token; a provider that was changed is another one."""

    provider: OAuthProvider
    policy: OAuthPolicy


class Tokens:
    """Finds sources, and owns their requests: leaving the block cancels those under way.

    A source lives as long as a subscription uses it, so there are no more than that.
    """

    def __init__(self, transport: Exchanging, *, dice: Dice = random.random) -> None:
        self._transport = transport
        self._dice = dice
        self._sources: WeakValueDictionary[_Key, TokenSource] = WeakValueDictionary()
        self._clients: WeakValueDictionary[OAuthProvider, ProviderClient] = WeakValueDictionary()
        self._stack = AsyncExitStack()
        self._group = asyncio.TaskGroup()
        self._requests: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many sources there are."""
        return len(self._sources)

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._group)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        del kind, error, traceback  # none of the requests' business: the group would wrap it
        for request in self._requests:
            request.cancel()
        await self._stack.aclose()

    def source(self, provider: OAuthProvider | None, policy: OAuthPolicy) -> TokenSource:
        """The source of the tokens that `provider` issues by `policy`; None: it is not known."""
        provider = provider or _unknown(policy.provider_name)
        key = _Key(provider, policy)
        found = self._sources.get(key)
        if found is None:
            found = TokenSource(self._client(provider), policy, spawn=self._spawn, dice=self._dice)
            self._sources[key] = found
        return found

    def _client(self, provider: OAuthProvider) -> ProviderClient:
        found = self._clients.get(provider)
        if found is None:
            found = self._clients[provider] = ProviderClient(provider, self._transport)
        return found

    def _spawn(self, request: Coroutine[Any, Any, None]) -> None:
        task = self._group.create_task(request)
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)


def _unknown(name: str) -> OAuthProvider:
    return OAuthProvider(
        name=name,
        token_endpoint="http://unknown.invalid/",  # noqa: S106 - a URL
        client_id="unknown",
        client_secret=MASK,
        locked="it does not exist",
    )
