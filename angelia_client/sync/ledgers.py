"""Ledgers: what happened to every message of a subscription."""

# Made from angelia_client/aio by `make client`: change it there.

from collections.abc import Iterator
from datetime import datetime
from typing import Final
from uuid import uuid4

from angelia_client.ledgers import Ledger, LedgerCheck, LedgerKey, LedgerLink
from angelia_client.messages import Job
from angelia_client.requests import creating, get, subscription_path, time_text
from angelia_client.sync.sending import Sender

# The number of ledger entries that one request gets.
_PAGE: Final = 1_000


class Ledgers:
    """The methods of `client.ledgers`."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(
        self,
        topic: str,
        subscription: str,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> Ledger:
        """Return what happened to all messages of the subscription from `start` to `end`.

        By default, `end` is the last midnight (UTC), or the end of the newest entry if that is
        later. If `start` is not before this default, `end` is now. By default, `start` is 31 days
        before `end`.
        """
        given = {
            "from": None if start is None else time_text(start),
            "to": None if end is None else time_text(end),
        }
        return Ledger.of(self._sender.json(get(_path(topic, subscription), given)))

    def request(self, topic: str, subscription: str) -> Job:
        """Request a new ledger entry from a Spark job, for the time since the last entry."""
        request = creating(_path(topic, subscription), {}, key=str(uuid4()))
        return Job.of(self._sender.json(request))

    def check(
        self, topic: str, subscription: str, *, number: int | None = None, hash_: str | None = None
    ) -> LedgerCheck:
        """Check whether an entry of the ledger was changed.

        If you have stored the number and the hash of an entry, pass both. The check then also finds
        out whether the ledger still has that entry with that hash.
        """
        path = f"{_path(topic, subscription)}/check"
        given = {"number": number, "hash": hash_}
        return LedgerCheck.of(self._sender.json(get(path, given)))

    def exported(self, topic: str, subscription: str) -> Iterator[LedgerLink]:
        """Yield all entries of a ledger exactly as they are stored, oldest first."""
        path = f"{_path(topic, subscription)}/export"
        for found in self._sender.listed(get(path, {"limit": _PAGE})):
            yield LedgerLink.of(found)

    def keys(self) -> list[LedgerKey]:
        """Return the public keys that verify the signatures of ledgers, the current key first."""
        return [LedgerKey.of(each) for each in self._sender.listed(get("/ledgers/keys"))]


def _path(topic: str, subscription: str) -> str:
    return f"{subscription_path(topic, subscription)}/ledger"
