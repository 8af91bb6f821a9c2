"""The page of a subscription's ledger: sums, newest entries, and the check for changed entries."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.console.api import Call, call_of, gathered
from app.console.view import PageRoute, PageView, Redirect, Result, ShownPage

# The maximum number of ledger entries on the page. If messages are missing, the table row of an
# entry says where.
ENTRIES_MAX: Final = 31
DOUBTS: Final[Mapping[str, str]] = {
    "MOVED": "the subscription was moved, so nobody knows what it skipped",
    "BEGUN_ANEW": "the counts of the subscription or the log began again",
    "GONE": "the log no longer had some of the messages",
    "CANCELLED": "some that are missing may belong to a cancelled retransmission",
    "UNRECORDED": "more were discarded than there are records of",
    "COUNTED_TWICE": "more was counted than there was",
    "NOT_COVERED": "no entry covers a part of the time",
}


async def show(view: PageView) -> ShownPage:
    """Show the sums and the newest entries of the ledger.

    The page also says whether any entry was changed or removed later.
    """
    path = f"{view.subscription_path}/ledger"
    span = {name: view.query.get(name) or None for name in ("from", "to")}
    ledger, check = await gathered(
        view.api.get(path, {**span, "limit": ENTRIES_MAX}), view.api.get(f"{path}/check")
    )
    rights = await view.rights(view.topic, view.name)
    return ShownPage(
        template="ledger.html",
        title=f"Ledger of {view.name}",
        section="topics",
        context={
            "topic": view.topic,
            "name": view.name,
            "span": {name: text or "" for name, text in span.items()},
            "ledger": ledger,
            "entries": list(reversed(ledger["entries"])),
            "check": check,
            "doubts": DOUBTS,
            "verdict": verdict(ledger),
            "rights": rights,
        },
        forms=[_entry(view)] if rights.subscription else (),
    )


def verdict(ledger: Mapping[str, Any]) -> tuple[str, str]:
    """Return a sentence about the sums of a ledger, and the style class of the sentence."""
    missing = ledger["sums"]["missing"]
    if not ledger["entryCount"]:
        return "There is no entry about this time.", "calm"
    if missing:
        verb = "message is" if missing == 1 else "messages are"
        return f"{missing:,} {verb} missing: passed, and neither delivered nor recorded.", "bad"
    if ledger["proved"]:
        return "Nothing is missing. Every message is accounted for.", "good"
    return "Nothing is known to be missing, but not all of it is proved.", "warn"


async def request(view: PageView) -> Result:
    """Request a ledger entry up to now, and redirect to the page of the entry's job."""
    answer = await view.api.run(_entry(view))
    return Redirect(to=view.link("jobs", answer.body["id"], done="requested"))


def _entry(view: PageView) -> Call:
    return call_of("POST", f"{view.subscription_path}/ledger")


_PATH: Final = "/topics/{topic}/subscriptions/{name}/ledger"
ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path=_PATH, show=show),
    PageRoute(path=f"{_PATH}/request", submit=request),
)
