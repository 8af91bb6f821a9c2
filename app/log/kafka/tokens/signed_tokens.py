"""Signs access tokens with AWS credentials, for Amazon MSK with IAM.

A token is a presigned URL of the action `kafka-cluster:Connect`, as base64url. Amazon's own package
finds the credentials and signs. The package is imported only for the first signature, because few
installations need it.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from app.log.kafka import refusals
from app.token_answers import Issued, TokenRequestError

PACKAGE: Final = "aws-msk-iam-sasl-signer-python>=1.0.2,<2"
_NOT_INSTALLED: Final = (
    f"Amazon's signer is not installed. To install it: {sys.executable} -m pip install '{PACKAGE}'"
)

Signer = Callable[[str], tuple[str, int]]
"""Signs a token for a region; returns it, and when it ends, in milliseconds since 1970."""


def installed_signer() -> Signer:
    """Return the signer of Amazon's package.

    Raises:
        ImportError: Amazon's package is not installed.
    """
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 - the package may be missing

    signer: Signer = MSKAuthTokenProvider.generate_auth_token
    return signer


class SignedTokens:
    """Signs tokens for the brokers of a region.

    The credentials are looked up again for each token.
    """

    def __init__(
        self,
        region: str,
        *,
        signer: Callable[[], Signer] = installed_signer,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create a `SignedTokens`.

        `signer` is called on a thread for each token. `clock` returns seconds since 1970.
        """
        self._region = region
        self._signer = signer
        self._clock = clock
        self._signing: Future[tuple[str, int]] | None = None

    async def request(self) -> Issued:
        """Sign a token. The caller limits the time.

        If the caller gives up before the token is signed, the signing goes on. The next request
        waits for the same token, so that only one token is signed at a time.

        Raises:
            TokenRequestError: No token was signed; the reason names what to check.
        """
        signing = self._signing = self._signing or _on_a_thread(self._sign)
        try:
            return self._issued(*await asyncio.wrap_future(signing))
        except ImportError as error:
            raise TokenRequestError(_NOT_INSTALLED) from error
        except TokenRequestError:
            raise
        except Exception as error:
            raise TokenRequestError(refusals.of_signature(error)) from error
        finally:
            if signing.done():
                self._signing = None

    def _sign(self) -> tuple[str, int]:
        return self._signer()(self._region)

    def _issued(self, token: str, ends_ms: int) -> Issued:
        lifetime_s = ends_ms / 1_000 - self._clock()
        if lifetime_s <= 0:
            raise TokenRequestError("the token ended before it was signed: check the clock")
        return Issued(token, lifetime_s)


def _on_a_thread(sign: Callable[[], tuple[str, int]]) -> Future[tuple[str, int]]:
    """Start to sign on a thread. The process may end before that thread ends."""
    signed: Future[tuple[str, int]] = Future()
    # The future is marked as running, so that a caller that waits and is cancelled does not cancel
    # the signing.
    signed.set_running_or_notify_cancel()

    def run() -> None:
        try:
            signed.set_result(sign())
        except BaseException as error:  # noqa: BLE001 - passed to the caller that waits
            signed.set_exception(error)

    threading.Thread(target=run, name="angelia-token", daemon=True).start()
    return signed
