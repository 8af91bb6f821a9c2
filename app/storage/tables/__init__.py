"""All tables of the database. Rows of these tables are used only in `app.storage`.

Every table is imported here, so that the foreign keys between tables always resolve.
"""

from typing import Final

from app.storage.tables.access import AccessStateRow, ApiKeyRow, AuditEventRow, IdempotentRequestRow
from app.storage.tables.analytics import (
    ANALYTICS_LATENCY,
    AnalyticsFailureRow,
    AnalyticsUndeliveredRow,
)
from app.storage.tables.archives import (
    DROPPED,
    KEPT,
    WRITING,
    ArchiveFolderRow,
    ArchivePieceRow,
    ArchivePositionRow,
)
from app.storage.tables.base import Base, Json
from app.storage.tables.catalogue import (
    ChangeClockRow,
    GroupRow,
    OAuthProviderRow,
    OnceAdoptedRow,
    SubscriptionRow,
    TombstoneRow,
    TopicRow,
    TopicVolumeRow,
)
from app.storage.tables.discards import RetractionRow, UndeliveredRow
from app.storage.tables.health import AlertRow, LeaseRow, SubscriptionHealthRow
from app.storage.tables.jobs import JobRow, SparkRunnerRow
from app.storage.tables.ledgers import (
    LedgerCountRow,
    LedgerDiscardRow,
    LedgerEntryRow,
    LedgerRequestRow,
)
from app.storage.tables.metrics_history import METRICS_HISTORY, METRICS_RECORDED
from app.storage.tables.operations import DatacenterRow, TopicActivityRow, WorkloadConstraintRow
from app.storage.tables.republishing import OfflinePartRow, OfflineTaskRow
from app.storage.tables.retransmissions import (
    RetransmissionRecordRow,
    RetransmissionRow,
    RetransmissionRunRow,
    RetransmissionSentRow,
)
from app.storage.tables.simulations import SimulatedMinuteRow, SimulationRow
from app.storage.tables.traces import (
    TRACE_LOSSES,
    TRACE_PACKS,
    TRACE_SOURCES,
    TRACES,
    pack_key,
    trace_key,
)
from app.storage.tables.workers import (
    AppliedClockRow,
    CircuitRow,
    CursorRow,
    PublishedIdRow,
    RateNoteRow,
    RecorderPositionRow,
    SubscriptionLoadRow,
    WorkerRow,
)

metadata: Final = Base.metadata

__all__ = [
    "ANALYTICS_LATENCY",
    "DROPPED",
    "KEPT",
    "METRICS_HISTORY",
    "METRICS_RECORDED",
    "TRACES",
    "TRACE_LOSSES",
    "TRACE_PACKS",
    "TRACE_SOURCES",
    "WRITING",
    "AccessStateRow",
    "AlertRow",
    "AnalyticsFailureRow",
    "AnalyticsUndeliveredRow",
    "ApiKeyRow",
    "AppliedClockRow",
    "ArchiveFolderRow",
    "ArchivePieceRow",
    "ArchivePositionRow",
    "AuditEventRow",
    "ChangeClockRow",
    "CircuitRow",
    "CursorRow",
    "DatacenterRow",
    "GroupRow",
    "IdempotentRequestRow",
    "JobRow",
    "Json",
    "LeaseRow",
    "LedgerCountRow",
    "LedgerDiscardRow",
    "LedgerEntryRow",
    "LedgerRequestRow",
    "OAuthProviderRow",
    "OfflinePartRow",
    "OfflineTaskRow",
    "OnceAdoptedRow",
    "PublishedIdRow",
    "RateNoteRow",
    "RecorderPositionRow",
    "RetractionRow",
    "RetransmissionRecordRow",
    "RetransmissionRow",
    "RetransmissionRunRow",
    "RetransmissionSentRow",
    "SimulatedMinuteRow",
    "SimulationRow",
    "SparkRunnerRow",
    "SubscriptionHealthRow",
    "SubscriptionLoadRow",
    "SubscriptionRow",
    "TombstoneRow",
    "TopicActivityRow",
    "TopicRow",
    "TopicVolumeRow",
    "UndeliveredRow",
    "WorkerRow",
    "WorkloadConstraintRow",
    "metadata",
    "pack_key",
    "trace_key",
]
