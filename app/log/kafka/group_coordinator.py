"""kafka-python's group coordinator, changed where its owner could not rely on it."""

import math
from collections.abc import Mapping, Sequence

import structlog
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.protocol.consumer import UNKNOWN_MEMBER_ID

from app.log.kafka.assignor import NO_SHARE, is_readable
from app.log.kafka.bridge import Untyped

_log = structlog.get_logger(__name__)


class GroupCoordinator(ConsumerCoordinator):  # type: ignore[misc]  # kafka has no types
    """Joins the group, sends heartbeats, and rebalances.

    Attributes:
        assigned_at: When the request was sent to which the group gave its last assignment
            (monotonic clock, in seconds).
    """

    assigned_at = -math.inf

    def _perform_assignment(
        self, leader_id: str, protocol_name: str, members: Sequence[Untyped]
    ) -> Mapping[str, Untyped]:
        # Another program can join the group under our protocol. Without this, what it sends would
        # end each rebalance with an error, and no worker would get any partition.
        foreign = [each.member_id for each in members if not is_readable(each)]
        if foreign:
            _log.warning("kafka_members_unreadable", group=self.group_id, members=foreign)
        ours = [each for each in members if each.member_id not in foreign]
        shares = super()._perform_assignment(leader_id, protocol_name, ours)
        return {**dict.fromkeys(foreign, NO_SHARE), **shares}

    def _process_sync_group_response(self, response: Untyped, send_time: float) -> Untyped:
        assignment = super()._process_sync_group_response(response, send_time)
        self.assigned_at = send_time
        return assignment

    def reset_generation(self, member_id: str = UNKNOWN_MEMBER_ID) -> None:
        """Forget the generation, because the group has removed this member.

        A join may need several attempts. kafka-python reports lost partitions only before the first
        attempt of a join. After this call, it treats the next attempt as a first one. So it reports
        the partitions also if the group removed the member during an attempt.
        """
        super().reset_generation(member_id)
        self.rejoining = False

    def _handle_metadata_update(self, cluster: Untyped) -> None:
        # kafka-python raises an error if this member is not allowed to describe one of the topics.
        # After that, it would notice no new partitions of any topic. So ignore such a topic: it has
        # no known partitions, and nothing of it is assigned.
        if cluster.unauthorized_topics:
            _log.debug("kafka_topics_unauthorized", topics=sorted(cluster.unauthorized_topics))
            cluster.unauthorized_topics = set()
        super()._handle_metadata_update(cluster)
