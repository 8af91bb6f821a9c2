"""SASL logins (KIP-43, KIP-152) with kafka-python's mechanisms."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Final

from app.log.kafka.bridge import Untyped
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.protocol.sasl import (
    AuthenticateAnswer,
    authenticate_frame,
    handshake_frame,
    read_authenticate,
    read_handshake,
)
from app.log.kafka.refusals import RefusedError, of_authentication, of_handshake

# The minimum number of SCRAM iterations (RFC 7677). Brokers use at most 16,384 since Kafka 2.7.
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 100_000
_DIGITS_MAX: Final = 9

Ask = Callable[[Callable[[int], bytes]], Awaitable[bytes]]
"""Sends a request made from a correlation id, and waits for the response."""


async def authenticate(ask: Ask, credentials: KafkaCredentials) -> timedelta:
    """Log in; return how long the session lasts, zero if the session does not end.

    Raises:
        RefusedError: The broker refuses the login; the error names the setting.
        MalformedAnswerError: The response is invalid.
    """
    security, tokens = credentials.security, credentials.tokens
    begin = partial(handshake_frame, mechanism=security.mechanism or "")
    handshake = read_handshake(await ask(begin))
    if handshake.error_code:
        raise RefusedError(of_handshake(*handshake, security))
    if tokens is not None:
        await tokens.ready()
    exchange, lifetime, has_begun = credentials.mechanism(), timedelta(), False
    by_scram = (security.mechanism or "").startswith("SCRAM")
    while not exchange.is_done():
        say = partial(authenticate_frame, token=exchange.auth_bytes())
        answer = read_authenticate(await ask(say))
        if answer.error_code:
            if tokens is not None:
                tokens.refused()
            raise RefusedError(of_authentication(answer.error_code, answer.message, security))
        if by_scram and not has_begun:
            _check_iterations(answer.token)
        has_begun = True
        # Process the token on a thread. Hashing the password may take long, and the broker chooses
        # how long.
        await asyncio.to_thread(_take, exchange, answer)
        lifetime = answer.lifetime
    return lifetime


def _check_iterations(token: bytes) -> None:
    """Check the number of iterations in SCRAM's first response (RFC 5802, 5.1): `r=…,s=…,i=…`.

    Raises:
        RefusedError: The number is too small to be safe, or so large that hashing would take long.
    """
    # Take the last number of iterations in the response, because kafka-python's SCRAM mechanism
    # also uses the last one.
    found = [each for each in token.split(b",") if each.startswith(b"i=")]
    text = found[-1][2:] if found else b""
    count = int(text) if text.isdigit() and len(text) <= _DIGITS_MAX else 0
    if not ITERATIONS_MIN <= count <= ITERATIONS_MAX:
        raise RefusedError(
            f"wants a password hashed {text[:_DIGITS_MAX]!r} times: "
            f"{ITERATIONS_MIN:,} to {ITERATIONS_MAX:,} are allowed"
        )


def _take(exchange: Untyped, answer: AuthenticateAnswer) -> None:
    """Process the broker's token. The broker must prove that it knows the password too."""
    try:
        exchange.receive(answer.token)
    except (ValueError, KeyError) as error:
        raise RefusedError("does not prove that it knows the password") from error
