from app.cli.commands.demo.accounting import Account, ListedDiscard, Reported, account_of
from app.cli.commands.demo.subscribers import SubscriberRecord, digest

REASON = "Message sending failed with status code:400"
PUBLISHED = {name: digest(name.encode()) for name in ("m1", "m2", "m3")}


def seen(*taken: str, refused: tuple[str, ...] = ()) -> SubscriberRecord:
    result = SubscriberRecord()
    for name in taken:
        result.attempts[name] += 1
        result.taken[name] += 1
        result.digests[name] = digest(name.encode())
    for name in refused:
        result.attempts[name] += 1
        result.refused.add(name)
        result.digests[name] = digest(name.encode())
    return result


def discard(name: str, *, body: str | None = None) -> ListedDiscard:
    return ListedDiscard.of({"messageId": name, "reason": REASON, "message": body or name})


def account(
    what: SubscriberRecord, *discards: ListedDiscard, delivered: int, discarded: int = 0
) -> Account:
    return account_of(
        "healthy",
        PUBLISHED,
        what,
        sent=3,
        discards=discards,
        reported=Reported(delivered=delivered, discarded=discarded),
    )


def test_everything_delivered_adds_up() -> None:
    result = account(seen("m1", "m2", "m3"), delivered=3)
    assert result.problems == ()
    assert (result.delivered, result.missing, result.duplicates) == (3, 0, 0)


def test_a_discard_that_is_listed_with_its_body_adds_up() -> None:
    result = account(seen("m1", "m2", refused=("m3",)), discard("m3"), delivered=2, discarded=1)
    assert result.problems == ()
    assert result.discarded == {REASON: 1}


def test_a_message_that_is_nowhere_is_missing_and_named() -> None:
    result = account(seen("m1", "m3"), delivered=2)
    assert result.missing == 1
    assert result.problems == ("1 neither delivered nor discarded: m2",)


def test_a_refused_message_that_is_not_listed_is_missing() -> None:
    result = account(seen("m1", "m2", refused=("m3",)), delivered=2)
    assert result.missing == 1


def test_a_message_that_is_delivered_and_discarded_does_not_add_up() -> None:
    result = account(seen("m1", "m2", "m3"), discard("m3"), delivered=3, discarded=1)
    assert result.problems == ("1 both delivered and discarded: m3",)


def test_a_second_delivery_is_a_duplicate_and_no_loss() -> None:
    result = account(seen("m1", "m1", "m2", "m3"), delivered=3)
    assert result.problems == ()
    assert (result.delivered, result.duplicates, result.retries) == (3, 1, 1)


def test_a_body_that_changed_on_its_way_is_found() -> None:
    what = seen("m1", "m2", "m3")
    what.digests["m2"] = digest(b"something else")
    result = account(what, delivered=3)
    assert result.problems == ("1 arrived with another body: m2",)


def test_a_discard_with_another_body_is_found() -> None:
    what = seen("m1", "m2", refused=("m3",))
    result = account(what, discard("m3", body="lost"), delivered=2, discarded=1)
    assert result.problems == ("1 discarded without its body on record: m3",)


def test_counts_of_the_service_that_differ_are_found() -> None:
    result = account(seen("m1", "m2", "m3"), delivered=2, discarded=1)
    assert result.problems == (
        "the service counts 2 delivered, 3 arrived",
        "the service counts 1 discarded, and lists 0",
    )


def test_events_that_share_an_id_are_found() -> None:
    result = account_of(
        "healthy",
        PUBLISHED,
        seen("m1", "m2", "m3"),
        sent=4,
        discards=[],
        reported=Reported(delivered=3, discarded=0),
    )
    assert result.problems == ("4 events were sent, 3 have an id of their own",)


def test_messages_of_others_are_left_out_of_the_account() -> None:
    result = account(seen("m1", "m2", "m3", "foreign"), discard("other"), delivered=3)
    assert result.problems == ()
    assert result.delivered == 3


def test_at_most_five_messages_are_named() -> None:
    published = {f"m{number}": b"" for number in range(9)}
    result = account_of(
        "healthy",
        published,
        SubscriberRecord(),
        sent=9,
        discards=[],
        reported=Reported(delivered=0, discarded=0),
    )
    assert result.problems == ("9 neither delivered nor discarded: m0, m1, m2, m3, m4, …",)


def test_counts_may_come_as_text_or_be_unavailable() -> None:
    reported = Reported.of({"delivered": "12.0", "discarded": "unavailable"})
    assert reported == Reported(delivered=12, discarded=0)
