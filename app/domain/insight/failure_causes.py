"""Names the likely cause of similar failures (a `FailureCluster`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from app.domain.access.audit import AuditEvent
from app.domain.insight.analytics import DistinguishingField, FailureCluster, FailurePattern

# If a change of settings was made at most this long before the first failure, the change may have
# caused the failure.
CHANGED_WITHIN: Final = timedelta(hours=1)
# If the first failure is less than this time after the start of the analysed time, failures may
# have begun before the analysed time.
BEGUN_BEFORE: Final = timedelta(minutes=5)
# The settings that most often cause failures, the most likely one first. If several settings were
# changed before a failure, these settings are named first.
_FIRST: Final = ("schema", "endpoint", "contentType")
# Fields that are not named as changed settings, because they change only together with others.
_FOLLOWING: Final = frozenset({"createdAt", "modifiedAt", "schemaVersion"})

_PATTERNS: Final[Mapping[FailurePattern, str]] = {
    FailurePattern.ONE_SHAPE: "the publisher: payloads of one form fail at several subscriptions",
    FailurePattern.ONE_SUBSCRIPTION: (
        "the subscriber: payloads of several forms fail at one subscription"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChange:
    """A change of settings of a topic or of a subscription.

    Attributes:
        of: The topic, or the subscription as `topic/subscription`.
        at: The time of the change.
        settings: The names of the changed settings.
        version: The new version of the topic's schema; None if the schema was not changed.
    """

    of: str
    at: datetime
    settings: tuple[str, ...]
    version: int | None = None


def changes_of(events: Iterable[AuditEvent]) -> Sequence[SettingsChange]:
    """Return which settings the audit events changed. Creations and deletions are left out."""
    found = []
    for event in events:
        before, after = event.change.before, event.change.after
        if before is not None and after is not None:
            names = sorted((before.keys() | after.keys()) - _FOLLOWING)
            changed = tuple(name for name in names if before.get(name) != after.get(name))
            version = after.get("schemaVersion") if "schema" in changed else None
            found.append(
                SettingsChange(of=event.change.name, at=event.at, settings=changed, version=version)
            )
    return [each for each in found if each.settings]


def likely_cause(
    cluster: FailureCluster, changes: Iterable[SettingsChange], *, since: datetime
) -> str:
    """Return the likely cause in words. `since` is the start of the analysed time."""
    begun = f"since {_time(cluster.first_at)}"
    if cluster.first_at - since < BEGUN_BEFORE:
        begun = "in all of the time"
    parts = [f"{cluster.status or cluster.error} {begun}"]
    if cluster.fields:
        parts.append(_fields_text(cluster.fields))
    many = cluster.subscriptions
    parts.append("one subscription" if many == 1 else f"{many} subscriptions")
    return f"{', '.join(parts)}: {_cause(cluster, changes)}"


def _cause(cluster: FailureCluster, changes: Iterable[SettingsChange]) -> str:
    near = [each for each in changes if _is_before(each, cluster)]
    if near:
        # Name the change of the setting that most often causes failures. If there are several such
        # changes, name the last one.
        first = min(near, key=lambda each: (_rank(each), cluster.first_at - each.at))
        names = ", ".join(sorted(first.settings, key=_rank_of))
        version = "" if first.version is None else f" (schema version {first.version})"
        return f"a change of {names} of {first.of} at {_time(first.at)}{version}"
    if cluster.fields:
        return "the publisher: messages of this form fail, and others pass"
    return _PATTERNS.get(cluster.pattern, "nothing stands out")


def _is_before(change: SettingsChange, cluster: FailureCluster) -> bool:
    of_it = {cluster.topic}
    if cluster.subscriptions == 1:
        of_it.add(f"{cluster.topic}/{cluster.example_subscription}")
    return change.of in of_it and (timedelta(0) <= cluster.first_at - change.at <= CHANGED_WITHIN)


def _rank(change: SettingsChange) -> int:
    return min(_rank_of(name)[0] for name in change.settings)


def _rank_of(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST)), name


def _fields_text(fields: Sequence[DistinguishingField]) -> str:
    first = fields[0]
    only = "only" if first.support == 1 and first.passing == 0 else "mostly"
    value = "" if first.value is None else f" = {first.value}"
    return f"{only} messages {'with' if first.present else 'without'} `{first.field}`{value}"


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M")
