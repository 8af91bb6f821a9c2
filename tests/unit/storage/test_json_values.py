from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import orjson

from app.storage.json_values import from_json, to_json


class Colour(StrEnum):
    RED = "RED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: str
    colour: Colour = Colour.RED
    every: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    ttl: timedelta | None = None
    since: datetime | None = None
    codes: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    labels: Mapping[str, timedelta] = field(default_factory=dict)
    factor: float = 1.0
    on: bool = False


def kept(whole: Whole) -> Whole:
    return Whole(**from_json(Whole, orjson.loads(orjson.dumps(to_json(whole)))))


def test_settings_of_every_kind_are_kept_as_they_are() -> None:
    whole = Whole(
        ttl=timedelta(milliseconds=1_500),
        since=datetime(2026, 11, 21, 12, 30, tzinfo=UTC),
        codes=frozenset({503, 409}),
        names=("b", "a"),
        part=Part(name="x", every=timedelta(seconds=2)),
        parts=(Part(name="y"), Part(name="z")),
        labels={"slow": timedelta(days=1)},
        factor=2.0,
        on=True,
    )
    assert kept(whole) == whole


def test_settings_that_are_not_set_are_kept_as_such() -> None:
    assert kept(Whole()) == Whole()


def test_what_a_newer_version_stored_is_passed_over_at_every_depth() -> None:
    stored = {"colour": "GREEN", "part": {"name": "x", "size": 7}}
    assert Whole(**from_json(Whole, stored)) == Whole(part=Part(name="x"))
