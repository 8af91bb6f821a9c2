"""Token sources. Subscriptions that request the same token share one source."""

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
from app.token_answers import TokenRequestError
from workers.delivery.oauth.client import Exchanging, ProviderClient
from workers.delivery.oauth.token import AccessToken, access_token, pause_s

_log = structlog.get_logger()

Spawn = Callable[[Coroutine[Any, Any, None]], object]
Dice = Callable[[], float]

NEVER: Final = float("-inf")


class TokenSource:
    """One kind of token of one provider: the newest token, and at most one request for the next.

    While requests fail, the old token is used until it expires. Times are monotonic seconds.
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
        # A dictionary keeps the order of the calls of `notify`.
        self._waiting: dict[Callable[[], object], None] = {}
        self.current: AccessToken | None = None
        # The time at which the running token request started. None if no request is running.
        self.requesting_since: float | None = None
        # No token request starts before this time.
        self.paused_until = NEVER
        # The reason why the last request failed.
        self.problem = ""

    @property
    def provider(self) -> OAuthProvider:
        """The issuer of the tokens."""
        return self._client.provider

    def renew(self, now: float) -> None:
        """Request another token, unless a request is running or has failed too recently."""
        if self.requesting_since is None and now >= self.paused_until:
            self.requesting_since = now
            self._settled.clear()
            self._spawn(self._ask())

    def notify(self, wake: Callable[[], object]) -> None:
        """Call `wake` once when the running request has ended."""
        self._waiting[wake] = None

    async def settled(self) -> None:
        """Wait until the running token request has ended."""
        await self._settled.wait()

    async def _ask(self) -> None:
        try:
            issued = await self._client.ask(self._policy)
        except TokenRequestError as exc:
            self._failed(exc)
        except Exception:  # noqa: BLE001 - a bug must not end other requests
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
        waiting, self._waiting = self._waiting, {}
        for wake in waiting:
            wake()


class _Key(NamedTuple):
    """The provider and the policy that define a kind of token.

    When the provider's settings change, its tokens get another key.
    """

    provider: OAuthProvider
    policy: OAuthPolicy


class Tokens:
    """Finds token sources, and owns their requests.

    Use it by `async with`. At the end of the block, running requests are cancelled.
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
        """Return the number of sources."""
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
        # Hide the error of the `async with` block from the task group. The group would wrap the
        # error in an ExceptionGroup, and needs no error to end, because the token requests are
        # cancelled here.
        del kind, error, traceback
        for request in self._requests:
            request.cancel()
        await self._stack.aclose()

    def source(self, provider: OAuthProvider | None, policy: OAuthPolicy) -> TokenSource:
        """Return the source of tokens that `provider` issues by `policy`.

        If `provider` is None, because it does not exist, the source never has a token.
        """
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
        token_endpoint="http://unknown.invalid/",  # noqa: S106 - a URL and not a password
        client_id="unknown",
        client_secret=MASK,
        locked="it does not exist",
    )
