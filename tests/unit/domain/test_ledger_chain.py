"""Chains of ledger entries: what shows that one was changed, removed, or written by another."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from app.domain.insight.ledger import Finding, LedgerRequest, Mark
from app.domain.insight.ledger_anchors import LedgerAnchor, anchor_of, anchored
from app.domain.insight.ledger_chain import (
    NOTHING,
    Check,
    Evidence,
    KnownHash,
    LedgerLink,
    checked,
    concluded,
    entry_of,
    hash_of,
    written,
)
from app.ledger_keys import LedgerKeys

NOON = datetime(2026, 1, 30, 12, tzinfo=UTC)
NONE, OLD, NEW = LedgerKeys(), LedgerKeys({"o": b"o" * 32}), LedgerKeys({"n": b"n" * 32})
BOTH = LedgerKeys({"n": b"n" * 32, "o": b"o" * 32})


def a_chain(
    length: int, *, keys: Sequence[LedgerKeys] = (), owner: str = "s-1"
) -> list[LedgerLink]:
    """Each entry is signed with its own of the keys, if there are any."""
    links: list[LedgerLink] = []
    for number in range(1, length + 1):
        previous = links[-1].hash if links else NOTHING
        closing = (Mark(partition=0, offset=0, end=number),)
        request = LedgerRequest(
            number=number, since=NOON, until=NOON + timedelta(days=1), opening=(), closing=closing
        )
        content = written(owner, request, Finding())
        hash_ = hash_of(previous, content)
        signature = (keys[number - 1] if keys else NONE).signature_of(hash_)
        links.append(LedgerLink(number, content, previous, hash_, *signature))
    return links


def judged(
    links: Sequence[LedgerLink], *, keys: LedgerKeys = NONE, known: KnownHash | None = None
) -> Check:
    evidence = Evidence(subscription_id="s-1", keys=keys.verifiers, known=known)
    return concluded(checked(links, evidence), evidence)


def test_a_chain_that_nobody_has_touched_is_intact() -> None:
    links = a_chain(3)
    whole = Check(entries=3, first=1, last=3, hash=links[2].hash, unsigned=3)
    assert judged(links) == whole
    evidence = Evidence(subscription_id="s-1")
    assert checked(links[1:], evidence, before=checked(links[:1], evidence)) == whole
    assert judged(links, known=KnownHash(number=2, hash=links[1].hash)) == whole
    # The oldest are dropped in time.
    assert judged(links[1:]) == Check(entries=2, first=2, last=3, hash=links[2].hash, unsigned=2)
    assert judged([]) == Check()


def test_the_first_entry_that_was_changed_is_named() -> None:
    links = a_chain(4)
    said = json.loads(links[1].content)
    said["partitions"][0]["missing"] = 1
    content = json.dumps(said, sort_keys=True, separators=(",", ":"))
    changed = links[1]._replace(content=content)
    hashed = changed._replace(hash=hash_of(changed.previous, content))
    for forged, broken in (
        ([links[0], changed, *links[2:]], 2),
        # Its own hash is right again: the next one tells.
        ([links[0], hashed, *links[2:]], 3),
        ([links[0], *links[2:]], 3),
        ([links[1]._replace(number=1), *links[2:]], 1),
        ([links[0], links[1], links[2]._replace(number=7)], 7),
    ):
        check = judged(forged)
        assert (check.broken, check.entries) == (
            broken,
            sum(each.number < broken for each in forged),
        )
        assert check.reason
    # All of them were made anew; who has kept a hash sees it.
    assert judged(a_chain(4), known=KnownHash(number=2, hash="0" * 64)).broken == 2


def test_the_ledger_of_another_subscription_in_its_place_is_found() -> None:
    links = a_chain(2, keys=[NEW] * 2, owner="s-2")
    check = judged(links, keys=NEW)
    assert (check.broken, check.reason) == (1, "its text is of another subscription")


def test_a_hash_that_was_kept_of_an_entry_that_is_gone_is_missed() -> None:
    links = a_chain(3)
    for number, kept in ((3, links[:2]), (1, links[1:])):
        known = KnownHash(number=number, hash=links[number - 1].hash)
        check = judged(kept, known=known)
        assert (check.broken, check.reason) == (number, "it is not there any more")


@pytest.mark.parametrize(
    ("signed", "ours", "signed_from"),
    [
        ([NEW, NEW, NEW], NEW, 1),
        ([OLD, NEW, NEW], BOTH, 1),
        # Older than keys, or of a key that is not kept any more: signed as it was by the second.
        ([NONE, NEW, NEW], NEW, 2),
        ([OLD, NEW, NEW], NEW, 2),
        ([NONE, NONE, NEW], NEW, 3),
        ([NONE, NONE, NONE], NONE, None),
        ([NEW, NEW, NEW], NONE, None),
    ],
)
def test_a_chain_is_signed_from_its_first_signature_that_can_be_checked_on(
    signed: list[LedgerKeys], ours: LedgerKeys, signed_from: int | None
) -> None:
    links = a_chain(3, keys=signed)
    check = judged(links, keys=ours)
    assert (check.entries, check.broken, check.signed_from) == (3, None, signed_from)
    assert check.is_signed == (signed_from == 1)
    assert entry_of(links[2]).key_id == signed[2].signature_of("").key_id


def test_who_has_not_the_key_cannot_write_a_signed_entry_anew() -> None:
    links = a_chain(4, keys=[NEW] * 4)
    unsigned, unknown = a_chain(4), a_chain(4, keys=[OLD] * 4)
    guess = LedgerKeys({"n": b"guess" * 6 + b"ok"})
    key_id = links[0].key_id
    theirs = [each._replace(key_id=key_id) for each in a_chain(4, keys=[guess] * 4)]
    assert [each.hash for each in theirs] == [each.hash for each in links]
    for forged, broken, reason in (
        ([*links[:2], *unsigned[2:]], 3, "not signed"),
        ([*links[:2], *theirs[2:]], 3, "signature"),
        ([*links[:2], *unknown[2:]], 3, "not known"),
        (theirs, 1, "signature"),
        ([links[0]._replace(signature=None), *links[1:]], 1, "signature"),
        ([links[0]._replace(signature="\u00fc"), *links[1:]], 1, "signature"),
        ([links[0], links[1]._replace(signature=links[0].signature), *links[2:]], 2, "signature"),
    ):
        check = judged(forged, keys=NEW)
        assert (check.broken, check.entries) == (broken, broken - 1)
        assert reason in str(check.reason)
    assert not Check().is_signed


@pytest.mark.parametrize("signed", [NONE, OLD])
def test_entries_without_a_known_signature_are_broken_where_there_is_a_key(
    signed: LedgerKeys,
) -> None:
    # All of them may have been written anew by somebody without the key.
    check = judged(a_chain(3, keys=[signed] * 3), keys=NEW)
    assert (check.broken, check.is_signed) == (1, False)
    assert "signed with a known key" in str(check.reason)
    assert judged([], keys=NEW).broken is None


def test_entries_that_an_older_version_signed_can_still_be_verified() -> None:
    shared = {"k": b"s" * 32}
    hash_ = "0f" * 32
    # HMAC-SHA256 of that text with that key, as the older version made it.
    signature = "b31d7d288a95190cc4032d6422731363b56b55c3d857e8fe02f9d5c25807c605"
    verify = LedgerKeys({"k": b"n" * 32}, shared).verifiers["k"]
    assert verify(hash_, signature)
    assert not verify(hash_.replace("0", "1"), signature)
    assert not verify(hash_, "\u00fc")


def anchors(links: Sequence[LedgerLink], keys: LedgerKeys = NONE) -> list[LedgerAnchor]:
    made = [LedgerAnchor("s-1", each.number, each.hash) for each in links]
    return [each.signed_with(keys.signature_of(each.signed)) for each in made]


def test_anchors_show_what_was_removed_or_written_anew() -> None:
    links = a_chain(4)
    hashes = {each.number: each.hash for each in links}
    compared = partial(anchored, keys={})
    whole = compared(judged(links), hashes, anchors(links[:3]))
    assert (whole.anchored, whole.broken) == (3, None)
    removed = compared(judged(links[:2]), hashes, anchors(links))
    assert (removed.anchored, removed.broken) == (2, 3)
    assert "not there any more" in str(removed.reason)
    assert compared(Check(), {}, anchors(links)).broken == 1
    anew = a_chain(4, owner="s-2")
    changed = compared(judged(links), hashes, anchors(anew))
    assert (changed.anchored, changed.broken) == (None, 1)
    assert "anchored" in str(changed.reason)
    # Old entries are dropped in time: their anchors say nothing.
    kept = compared(judged(links[2:]), hashes, anchors(links))
    assert (kept.anchored, kept.broken) == (4, None)


def test_anchors_that_the_service_has_not_signed_do_not_count_where_it_has_its_key() -> None:
    links = a_chain(2, keys=[NEW] * 2)
    check, hashes = judged(links, keys=NEW), {each.number: each.hash for each in links}
    false = LedgerAnchor("s-1", 9, "0" * 64)
    [signed] = anchors(links[1:], NEW)
    for forged in (
        false,
        false.signed_with(OLD.signature_of(false.signed)),
        signed._replace(number=9),
        signed._replace(subscription_id="s-2", number=9),
    ):
        found = anchored(check, hashes, [signed, forged], keys=NEW.verifiers)
        assert (found.anchored, found.broken) == (2, None)


def test_an_anchor_is_read_as_it_was_written_and_nothing_else_is_one() -> None:
    [anchor] = anchors(a_chain(1, keys=[NEW]), NEW)
    assert anchor_of(anchor.text()) == anchor
    for text in (b"", b"\xff", b"[]", b"7", b"{}", b'{"number": "1"}', b'{"number": 1, "x": 2}'):
        assert anchor_of(text) is None
