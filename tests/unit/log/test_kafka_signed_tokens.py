"""Tokens that are signed with AWS credentials: one at a time, and what is said without one."""

import asyncio
import subprocess
import sys
import threading
from typing import Final

import pytest

from app.domain.kafka_security import KafkaOAuth, KafkaSecurity
from app.log.kafka.credentials import opened_credentials
from app.log.kafka.refusals import RefusedError, of_authentication
from app.log.kafka.tokens.signed_tokens import PACKAGE, SignedTokens, Signer
from app.token_answers import Issued, TokenRequestError

REGION: Final = "eu-west-1"
NOW_S: Final = 1_000_000.0
NOT_AUTHENTICATED: Final = 58
BY_IAM: Final = KafkaSecurity(
    protocol="SASL_SSL",
    mechanism="OAUTHBEARER",
    oauth=KafkaOAuth(provider="aws-msk-iam", aws_region=REGION),
)
# A process that leaves while its token is being signed.
LEAVING: Final = """
import asyncio, threading
from app.log.kafka.tokens.signed_tokens import SignedTokens

async def leave():
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    def sign(region):
        loop.call_soon_threadsafe(begun.set)
        threading.Event().wait()
    request = asyncio.create_task(SignedTokens("eu-west-1", signer=lambda: sign).request())
    await begun.wait()
    request.cancel()

asyncio.run(leave())
"""


class HeldSigner:
    """Signs when a test lets it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.released = threading.Event()
        self.signed = 0

    def __call__(self, region: str) -> tuple[str, int]:
        self.begun.set()
        self.released.wait()
        self.signed += 1
        return f"{region}-{self.signed}", int(NOW_S + 900) * 1_000


def clock() -> float:
    return NOW_S


def signed_by(signer: Signer) -> SignedTokens:
    return SignedTokens(REGION, signer=lambda: signer, clock=clock)


async def reason(tokens: SignedTokens) -> str:
    with pytest.raises(TokenRequestError) as refused:
        await tokens.request()
    return refused.value.reason


def failing(error: Exception) -> SignedTokens:
    def signer(_region: str) -> tuple[str, int]:
        raise error

    return signed_by(signer)


async def test_a_token_is_signed_for_the_region_and_lasts_until_its_end() -> None:
    tokens = signed_by(lambda region: (f"for-{region}", int(NOW_S + 900) * 1_000))
    assert await tokens.request() == Issued("for-eu-west-1", 900.0)


async def test_a_signature_that_outlasts_its_request_is_left_to_the_next_one() -> None:
    signer = HeldSigner()
    tokens = signed_by(signer)
    request = asyncio.create_task(tokens.request())
    await asyncio.to_thread(signer.begun.wait)
    request.cancel()
    await asyncio.wait([request])
    later = asyncio.create_task(tokens.request())
    signer.released.set()
    assert [(await later).token, signer.signed] == ["eu-west-1-1", 1]
    assert (await tokens.request()).token == "eu-west-1-2"


async def test_without_amazons_package_the_line_that_installs_it_is_said() -> None:
    def missing() -> Signer:
        raise ModuleNotFoundError("No module named 'aws_msk_iam_sasl_signer'")

    assert f"pip install '{PACKAGE}'" in await reason(SignedTokens(REGION, signer=missing))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        # What Amazon's package raises when it finds none.
        (AttributeError("'NoneType' object has no attribute 'access_key'"), "are found"),
        (ValueError("AWS Credentials can not be empty"), "are found"),
        (RuntimeError("wr0ng"), "(RuntimeError)"),
    ],
    ids=lambda each: str(each)[:16],
)
async def test_a_token_that_cannot_be_signed_says_why_without_a_secret(
    error: Exception, words: str
) -> None:
    said = await reason(failing(error))
    assert words in said
    assert str(error) not in said


async def test_a_signature_that_fails_is_made_again() -> None:
    answers = iter([RuntimeError("once"), None])

    def signer(_region: str) -> tuple[str, int]:
        if error := next(answers):
            raise error
        return "t", int(NOW_S + 900) * 1_000

    tokens = signed_by(signer)
    await reason(tokens)
    assert (await tokens.request()).token == "t"


async def test_a_token_that_has_ended_is_none() -> None:
    assert "check the clock" in await reason(signed_by(lambda _: ("t", int(NOW_S) * 1_000)))


async def test_a_process_ends_while_its_token_is_being_signed() -> None:
    await asyncio.to_thread(subprocess.run, (sys.executable, "-c", LEAVING), check=True, timeout=60)


async def test_connections_of_msk_sign_their_tokens() -> None:
    # Amazon's package is in no lock.
    async with opened_credentials(BY_IAM) as credentials:
        assert credentials.tokens is not None
        await credentials.tokens.ready()
        with pytest.raises(RefusedError, match=r"from AWS IAM in eu-west-1: Amazon's signer is no"):
            credentials.tokens.token()


def test_a_signed_token_that_brokers_refuse_says_what_to_check() -> None:
    said = of_authentication(NOT_AUTHENTICATED, "Access denied", BY_IAM)
    assert "for eu-west-1: check ANGELIA_KAFKA_OAUTH_AWS_REGION, the IAM policy" in said
