"""What brokers must speak: what is asked in bytes of our own, and what kafka-python asks for us."""

from collections.abc import Mapping
from typing import Final

from app.log.kafka.protocol.appends import PRODUCE
from app.log.kafka.protocol.commits import COMMIT
from app.log.kafka.protocol.ends import LIST_OFFSETS
from app.log.kafka.protocol.fetches import FETCH

# To tell offsets and coordinators of many groups at once (KIP-709, KIP-699); Kafka has both from
# 3.0 on, and all else from 2.4 on.
OFFSETS_OF_GROUPS: Final = (9, 8)
COORDINATORS_OF_GROUPS: Final = (10, 4)

_NAMES: Final = {
    PRODUCE: "Produce",
    FETCH: "Fetch",
    LIST_OFFSETS: "ListOffsets",
    COMMIT: "OffsetCommit",
    OFFSETS_OF_GROUPS: "OffsetFetch",
    COORDINATORS_OF_GROUPS: "FindCoordinator",
}


def unspoken(versions: Mapping[int, tuple[int, int]]) -> str | None:
    """What is missing from the lowest and highest versions that brokers speak of each API."""
    missing = [
        f"{name} {version}"
        for (key, version), name in _NAMES.items()
        if not versions.get(key, (0, -1))[0] <= version <= versions.get(key, (0, -1))[1]
    ]
    if not missing:
        return None
    return f"the brokers do not speak {', '.join(missing)}: Kafka does from 3.0 on"
