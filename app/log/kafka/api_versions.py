"""The Kafka API versions that are required, by Angelia's own requests and by kafka-python."""

from collections.abc import Mapping
from typing import Final

from app.log.kafka.protocol.appends import PRODUCE
from app.log.kafka.protocol.commits import COMMIT
from app.log.kafka.protocol.ends import LIST_OFFSETS
from app.log.kafka.protocol.fetches import FETCH

# The API version of OffsetFetch that reads the offsets of many groups at once (KIP-709). Kafka has
# this version, and that of COORDINATORS_OF_GROUPS, since 3.0, and all other required versions since
# 2.4.
OFFSETS_OF_GROUPS: Final = (9, 8)
# The API version of FindCoordinator that looks up the coordinators of many groups at once
# (KIP-699).
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
    """Return the required API versions that the brokers do not have; None if they have all.

    `versions` has the lowest and the highest supported version of each API.
    """
    missing = [
        f"{name} {version}"
        for (key, version), name in _NAMES.items()
        if not versions.get(key, (0, -1))[0] <= version <= versions.get(key, (0, -1))[1]
    ]
    if not missing:
        return None
    return f"the brokers do not speak {', '.join(missing)}: Kafka does from 3.0 on"
