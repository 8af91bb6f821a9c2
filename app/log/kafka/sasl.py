"""Saying by SASL who we are (KIP-43, KIP-152), with kafka-python's mechanisms."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

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

Ask = Callable[[Callable[[int], bytes]], Awaitable[bytes]]
"""Sends what it makes of a correlation id, and waits for the answer."""


async def authenticate(ask: Ask, credentials: KafkaCredentials) -> timedelta:
    """Have a broker know us; how long the session lasts, zero where it does not end.

    Raises:
        RefusedError: it does not take us, with what to set.
        MalformedAnswerError: it does not answer as brokers do.
    """
    security, exchange = credentials.security, credentials.mechanism()
    begin = partial(handshake_frame, mechanism=security.mechanism or "")
    handshake = read_handshake(await ask(begin))
    if handshake.error_code:
        raise RefusedError(of_handshake(*handshake, security))
    lifetime = timedelta()
    while not exchange.is_done():
        say = partial(authenticate_frame, token=exchange.auth_bytes())
        said = read_authenticate(await ask(say))
        if said.error_code:
            raise RefusedError(of_authentication(said.error_code, said.message, security))
        _take(exchange, said)
        lifetime = said.lifetime
    return lifetime


def _take(exchange: Untyped, said: AuthenticateAnswer) -> None:
    """What the broker says next: it has to know the password, too, where it is not told it."""
    try:
        exchange.receive(said.token)
    except (ValueError, KeyError) as error:
        raise RefusedError("does not prove that it knows the password") from error
