"""The arguments of routes: the services of this process, and names from the path."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path, Query
from starlette.requests import Request

from app.api.media import wants_texts
from app.domain.console import ConsoleSettings
from app.services.access.audit import AuditService
from app.services.access.authorization import AccessService
from app.services.access.keys import KeyService
from app.services.catalogue.consistency import ConsistencyService
from app.services.catalogue.groups import GroupService
from app.services.catalogue.inactive_topics import ActivityService
from app.services.catalogue.listings import CatalogueService
from app.services.catalogue.oauth_providers import OAuthProviderService
from app.services.catalogue.operations import OperationsService
from app.services.catalogue.schemas import SchemaService
from app.services.catalogue.signing_secrets import SigningService
from app.services.catalogue.subscriptions import SubscriptionService
from app.services.catalogue.topics import TopicService
from app.services.discards.redrives import RedriveService
from app.services.discards.undelivered import UndeliveredService
from app.services.durability import DurabilityService
from app.services.health.announcements import Announcer
from app.services.health.subscription_health import HealthService
from app.services.health.workers import WorkerService
from app.services.idempotent_requests import IdempotentRequests
from app.services.insight.analytics import AnalyticsService
from app.services.insight.archives import ArchiveService
from app.services.insight.jobs import JobService
from app.services.insight.ledgers import LedgerService
from app.services.insight.simulations import SimulationService
from app.services.inspection.consumer_groups import ConsumerGroupService
from app.services.inspection.pings import PingService
from app.services.inspection.preview import PreviewService
from app.services.inspection.search import MessageSearch
from app.services.inspection.traces import TraceService
from app.services.metrics.api_process import ApiMetrics
from app.services.metrics.history import MetricsHistoryService
from app.services.metrics.queries import CatalogueMetrics
from app.services.metrics.resources import MetricsService
from app.services.readiness import ReadinessService
from app.services.replay.republishing import OfflineService
from app.services.replay.retransmissions import RetransmissionService
from app.services.replay.seeks import SeekService
from app.shown_settings import ShownSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services that the management routes call."""

    access: AccessService
    keys: KeyService
    audit: AuditService
    catalogue: CatalogueService
    catalogue_figures: CatalogueMetrics
    operations: OperationsService
    activity: ActivityService
    previews: PreviewService
    archives: ArchiveService
    consistency: ConsistencyService
    consumer_groups: ConsumerGroupService
    console: ConsoleSettings
    # The settings of this process, without secrets.
    settings: Sequence[ShownSetting]
    idempotent: IdempotentRequests
    groups: GroupService
    topics: TopicService
    schemas: SchemaService
    subscriptions: SubscriptionService
    oauth: OAuthProviderService
    pings: PingService
    seeking: SeekService
    redriving: RedriveService
    retransmitting: RetransmissionService
    ledgers: LedgerService
    metrics: MetricsService
    metrics_history: MetricsHistoryService
    figures: ApiMetrics
    health: HealthService
    workers: WorkerService
    announcer: Announcer
    undelivered: UndeliveredService
    traces: TraceService
    searching: MessageSearch
    readiness: ReadinessService
    durability: DurabilityService
    jobs: JobService
    analytics: AnalyticsService
    simulating: SimulationService
    offline: OfflineService

    @property
    def signing(self) -> SigningService:
        """Return the service for signing secrets."""
        return SigningService(self.subscriptions)


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesOf = Annotated[Services, Depends(_services)]


async def _wants_texts(request: Request, services: ServicesOf) -> bool:
    return wants_texts(request, default=services.console.hermes_metrics)


TextsWanted = Annotated[bool, Depends(_wants_texts)]
GroupName = Annotated[str, Path(description="name of the group", examples=["shop"])]
TopicName = Annotated[str, Path(description="qualified name", examples=["shop.orders"])]
SubscriptionName = Annotated[str, Path(description="name of the subscription")]
DryRun = Annotated[bool, Query(description="only check the change, and show what it would make")]
