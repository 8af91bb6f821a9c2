"""The account of one subscriber: which messages were published, and what happened to each."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.cli.commands.demo.subscribers import SubscriberRecord, digest

_NAMED_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDiscard:
    """A discarded message as the API lists it.

    `digest` is the digest of the message's body; None if the list has no body for the message.
    """

    message_id: str
    reason: str
    digest: bytes | None

    @classmethod
    def of(cls, listed: Mapping[str, Any]) -> "ListedDiscard":
        """Return the discarded message that `listed` describes, an entry of the API's list."""
        body = listed.get("message")
        return cls(
            message_id=str(listed.get("messageId", "")),
            reason=str(listed.get("reason", "")),
            digest=digest(body.encode()) if isinstance(body, str) else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """How many messages of a subscription were delivered and discarded, as the API reports it."""

    delivered: int
    discarded: int

    @classmethod
    def of(cls, metrics: Mapping[str, Any]) -> "Reported":
        """Return the counts in a subscription's metrics from the API.

        The API may return a count as a number, as a text (as Hermes does), or as unavailable.
        """
        return cls(
            delivered=_count(metrics.get("delivered")), discarded=_count(metrics.get("discarded"))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What happened to all published messages at one subscriber.

    If `problems` is empty, the account is complete.
    """

    subscriber: str
    published: int
    delivered: int
    retries: int
    discarded: Mapping[str, int]
    missing: int
    duplicates: int
    problems: tuple[str, ...]


def account_of(
    subscriber: str,
    published: Mapping[str, bytes],
    seen: SubscriberRecord,
    *,
    sent: int,
    discards: Iterable[ListedDiscard],
    reported: Reported,
) -> Account:
    """Return the account of one subscriber for the messages in `published`.

    `published` maps each message id to the digest of the message's body. `sent` is the number of
    events that the demo wanted to publish. A message is delivered if the subscriber accepted it,
    and discarded if the service lists it as undelivered. Any other message is missing.
    """
    listed = {each.message_id: each for each in discards if each.message_id in published}
    taken = {each: count for each, count in seen.taken.items() if each in published}
    missing = [each for each in published if each not in taken and each not in listed]
    problems = (
        *_unpublished(sent, len(published)),
        *_about(missing, "neither delivered nor discarded"),
        *_about(taken.keys() & listed.keys(), "both delivered and discarded"),
        *_about(_altered(published, seen), "arrived with another body"),
        *_about(_bodiless(published, listed), "discarded without its body on record"),
        *_disagreements(reported, delivered=len(taken), discarded=len(listed)),
    )
    return Account(
        subscriber=subscriber,
        published=len(published),
        delivered=len(taken),
        retries=seen.retries,
        discarded=Counter(each.reason for each in listed.values()),
        missing=len(missing),
        duplicates=sum(taken.values()) - len(taken),
        problems=problems,
    )


def _unpublished(sent: int, published: int) -> Iterator[str]:
    if sent != published:
        yield f"{sent} events were sent, {published} have an id of their own"


def _altered(published: Mapping[str, bytes], seen: SubscriberRecord) -> list[str]:
    return [
        each
        for each, digested in seen.digests.items()
        if each in published and published[each] != digested
    ]


def _bodiless(published: Mapping[str, bytes], listed: Mapping[str, ListedDiscard]) -> list[str]:
    return [each for each, discard in listed.items() if discard.digest != published[each]]


def _about(message_ids: Iterable[str], what: str) -> Iterator[str]:
    found = sorted(message_ids)
    if found:
        more = "" if len(found) <= _NAMED_MAX else ", …"
        yield f"{len(found)} {what}: {', '.join(found[:_NAMED_MAX])}{more}"


def _disagreements(reported: Reported, *, delivered: int, discarded: int) -> Iterator[str]:
    if reported.delivered != delivered:
        yield f"the service counts {reported.delivered} delivered, {delivered} arrived"
    if reported.discarded != discarded:
        yield f"the service counts {reported.discarded} discarded, and lists {discarded}"


def _count(value: object) -> int:
    try:
        return int(float(str(value)))
    except ValueError:
        return 0
