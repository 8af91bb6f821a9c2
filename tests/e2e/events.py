"""What the end-to-end tests publish: real webhook payloads when at hand, else the shop's."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.cli.commands.demo.events import REFUSED_TYPE, shop_events

# A sample of real GitHub webhooks that may lie beside the checkout.
REAL_EVENTS = Path(__file__).parents[3] / "shared" / "data" / "github-events.ndjson"
COUNT = 165


@dataclass(frozen=True, slots=True)
class Events:
    """Bodies with their partition keys, and the bodies that a strict subscriber refuses."""

    bodies: Sequence[tuple[bytes, str]]
    refused: frozenset[bytes]


def some_events() -> Events:
    """165 events, the same in every run."""
    return _github_events() if REAL_EVENTS.exists() else _shop_events()


def _github_events() -> Events:
    lines = REAL_EVENTS.read_bytes().splitlines()
    parsed = [(line, json.loads(line)) for line in lines]
    return Events(
        bodies=[(line, event["repository"] or "none") for line, event in parsed],
        refused=frozenset(line for line, event in parsed if event["event"] == "push"),
    )


def _shop_events() -> Events:
    events = list(shop_events(COUNT, seed=165))
    return Events(
        bodies=[(event.body, event.key) for event in events],
        refused=frozenset(event.body for event in events if event.type == REFUSED_TYPE),
    )
