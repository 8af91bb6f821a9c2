"""Events of an imaginary shop. The same seed gives the same events."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

REFUSED_TYPE: Final = "payment.refunded"

_START: Final = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
_PRODUCTS: Final = (
    ("Coffee beans, 1 kg", 1890),
    ("Espresso cups, set of 4", 2450),
    ("Milk jug, 350 ml", 1599),
    ("Hand grinder", 6900),
    ("Paper filters, 100 pcs", 549),
    ("Kettle with gooseneck", 8450),
    ("Crème brûlée torch", 3299),
    ("Scale, 0.1 g", 3995),
)
_CITIES: Final = ("Warszawa", "København", "Lyon", "Zürich", "Málaga", "Graz", "東京")
_REMARKS: Final = (
    "Arrived quickly and works as described.",
    "The box had a dent; what was in it is fine.",
    "Would buy again.",
    "Grinds finer than the first one I ordered.",
    "My neighbour wants one too.",
)

Payload = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event: its number (from 0), its type, its partition key, and its JSON."""

    sequence: int
    type: str
    key: str
    body: bytes


def shop_events(count: int, *, seed: int) -> Iterator[Event]:
    """Yield `count` events of about 0.3 to 8 KB; one customer's events have the same key."""
    dice = random.Random(seed)  # noqa: S311 - the events must be repeatable, and are no secret
    types = [kind.type for kind in _KINDS]
    weights = [kind.weight for kind in _KINDS]
    for sequence in range(count):
        # Every twentieth event has the type that the broken subscriber refuses. So even a short
        # demo has some discarded messages.
        refused = sequence % 20 == 19  # noqa: PLR2004 - every twentieth event
        name = REFUSED_TYPE if refused else dice.choices(types, weights)[0]
        yield _event(sequence, name, dice)


def _event(sequence: int, name: str, dice: random.Random) -> Event:
    customer = f"customer-{dice.randrange(500):03}"
    occurred = _START + timedelta(milliseconds=sequence * 125 + dice.randrange(125))
    content = {
        "event": name,
        "sequence": sequence,
        "occurredAt": occurred.isoformat(timespec="milliseconds"),
        "customer": customer,
        **_PAYLOADS[name](dice),
    }
    body = json.dumps(content, ensure_ascii=False).encode()
    return Event(sequence=sequence, type=name, key=customer, body=body)


def _order_placed(dice: random.Random) -> Payload:
    lines = [_line(dice) for _ in range(dice.choice((1, 1, 2, 3, 5, 40)))]
    return {
        "order": _order_number(dice),
        "lines": lines,
        "total": {"amount": sum(each["amount"] for each in lines), "currency": "EUR"},
        "shipTo": {"city": dice.choice(_CITIES), "express": dice.random() < 0.2},  # noqa: PLR2004 - true for a fifth of the events
    }


def _order_paid(dice: random.Random) -> Payload:
    return {
        "order": _order_number(dice),
        "method": dice.choice(("card", "blik", "transfer", "invoice")),
        "authorisation": f"{dice.getrandbits(64):016x}",
    }


def _order_shipped(dice: random.Random) -> Payload:
    return {
        "order": _order_number(dice),
        "carrier": dice.choice(("InPost", "DHL", "La Poste")),
        "parcels": [
            {"tracking": f"{dice.getrandbits(48):012X}", "grams": dice.randrange(80, 9000)}
            for _ in range(dice.randrange(1, 4))
        ],
    }


def _payment_refunded(dice: random.Random) -> Payload:
    return {
        "order": _order_number(dice),
        "refund": {"amount": dice.randrange(500, 20_000), "currency": "EUR"},
        "reason": dice.choice(("damaged", "late", "changed mind")),
    }


def _review_posted(dice: random.Random) -> Payload:
    remarks = dice.choices(_REMARKS, k=dice.choice((1, 2, 5, 30, 200)))
    return {
        "product": dice.choice(_PRODUCTS)[0],
        "stars": dice.randrange(1, 6),
        "text": " ".join(remarks),
    }


def _order_number(dice: random.Random) -> str:
    return f"SO-{dice.randrange(100_000, 999_999)}"


def _line(dice: random.Random) -> Payload:
    name, price = dice.choice(_PRODUCTS)
    quantity = dice.randrange(1, 4)
    return {"product": name, "quantity": quantity, "unitPrice": price, "amount": quantity * price}


@dataclass(frozen=True, slots=True)
class _Kind:
    type: str
    weight: int
    payload: Callable[[random.Random], Payload]


# The kinds of events with their weights. Refunds are not in this list, because every twentieth
# event is a refund.
_KINDS: Final = (
    _Kind("order.placed", 40, _order_placed),
    _Kind("order.paid", 30, _order_paid),
    _Kind("order.shipped", 20, _order_shipped),
    _Kind("review.posted", 10, _review_posted),
)
_PAYLOADS: Final = {kind.type: kind.payload for kind in _KINDS} | {REFUSED_TYPE: _payment_refunded}
