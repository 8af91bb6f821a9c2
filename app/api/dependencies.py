"""What routes are given: the services of this process, and names from the path."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path
from starlette.requests import Request

from app.api.media import wants_texts
from app.domain.console import ConsoleSettings
from app.services.access import AccessService
from app.services.activity import ActivityService
from app.services.alerting import Announcer
from app.services.analytics import AnalyticsService
from app.services.archiving import ArchiveService
from app.services.audit import AuditService
from app.services.catalogue import CatalogueService
from app.services.catalogue_figures import CatalogueFigures
from app.services.consistency import ConsistencyService
from app.services.consumer_groups import ConsumerGroupService
from app.services.durability import DurabilityService
from app.services.figures import ApiFigures
from app.services.groups import GroupService
from app.services.health import HealthService
from app.services.idempotent_requests import IdempotentRequests
from app.services.jobs import JobService
from app.services.keys import KeyService
from app.services.ledgers import LedgerService
from app.services.metrics import MetricsService
from app.services.oauth import OAuthProviderService
from app.services.offline import OfflineService
from app.services.operations import OperationsService
from app.services.pinging import PingService
from app.services.previewing import PreviewService
from app.services.readiness import ReadinessService
from app.services.redriving import RedriveService
from app.services.retransmitting import RetransmissionService
from app.services.schemas import SchemaService
from app.services.searching import MessageSearch
from app.services.seeking import SeekService
from app.services.signing import SigningService
from app.services.simulating import SimulationService
from app.services.subscriptions import SubscriptionService
from app.services.topics import TopicService
from app.services.traces import TraceService
from app.services.undelivered import UndeliveredService


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """All use cases behind the management routes."""

    access: AccessService
    keys: KeyService
    audit: AuditService
    catalogue: CatalogueService
    catalogue_figures: CatalogueFigures
    operations: OperationsService
    activity: ActivityService
    previews: PreviewService
    archives: ArchiveService
    consistency: ConsistencyService
    consumer_groups: ConsumerGroupService
    console: ConsoleSettings
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
    figures: ApiFigures
    health: HealthService
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
        """The secrets that deliveries are signed with: settings of subscriptions."""
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
