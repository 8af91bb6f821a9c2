"""The errors that Angelia raises itself. A caller of the API gets them as responses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class AngeliaError(Exception):
    """The base class of all errors. `code` never changes, and `message` is a text for people."""

    code: ClassVar[str] = "OTHER"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblem:
    """A field whose value is wrong. `message` says what value would be right."""

    path: str
    message: str


class ValidationFailedError(AngeliaError):
    """The form of a request is right, but values are not valid. `details` names their fields."""

    code = "VALIDATION_ERROR"

    def __init__(self, details: Sequence[FieldProblem]) -> None:
        super().__init__("; ".join(f"{problem.path} {problem.message}" for problem in details))
        self.details = tuple(details)

    @classmethod
    def of(cls, path: str, message: str) -> "ValidationFailedError":
        """Return the error for a single field."""
        return cls([FieldProblem(path=path, message=message)])


class MessageInvalidError(ValidationFailedError):
    """A published message does not match the schema of its topic.

    The paths in `details` are paths of fields in the message.
    """

    def __init__(self, details: Sequence[FieldProblem]) -> None:
        super().__init__(details)
        self.message = f"Invalid message: {self.message}"


class SchemaVersionNotFoundError(AngeliaError):
    """The topic's schema does not have the requested version."""

    code = "SCHEMA_VERSION_DOES_NOT_EXIST"


class OperationDisabledError(AngeliaError):
    """Angelia never supports this operation, such as removing the schema of an AVRO topic."""

    code = "OPERATION_DISABLED"


class GroupNameInvalidError(AngeliaError):
    """A group cannot have the requested name."""

    code = "GROUP_NAME_IS_INVALID"


class InvalidQueryError(AngeliaError):
    """A query over topics or subscriptions is not valid."""

    code = "INVALID_QUERY"


class FormatInvalidError(AngeliaError):
    """The body is not JSON, or not the required kind of JSON value."""

    code = "FORMAT_ERROR"


class NotFoundError(AngeliaError):
    """An object that is named in the path of the request does not exist."""


class GroupNotFoundError(NotFoundError):
    """The group does not exist."""

    code = "GROUP_NOT_EXISTS"


class TopicNotFoundError(NotFoundError):
    """The topic does not exist."""

    code = "TOPIC_NOT_EXISTS"


class SubscriptionNotFoundError(NotFoundError):
    """The subscription does not exist."""

    code = "SUBSCRIPTION_NOT_EXISTS"


class OAuthProviderNotFoundError(NotFoundError):
    """The OAuth provider does not exist."""

    code = "OAUTH_PROVIDER_NOT_EXISTS"


class SigningSecretNotFoundError(NotFoundError):
    """The subscription does not have this signing secret, or it has expired."""

    code = "SIGNING_SECRET_NOT_EXISTS"


class JobNotFoundError(NotFoundError):
    """The job does not exist."""

    code = "JOB_NOT_EXISTS"


class WorkerNotFoundError(NotFoundError):
    """No worker with this id is running."""

    code = "WORKER_NOT_EXISTS"


class RetransmissionNotFoundError(NotFoundError):
    """The subscription does not have this retransmission."""

    code = "RETRANSMISSION_NOT_EXISTS"


class KeyNotFoundError(NotFoundError):
    """The API key does not exist."""

    code = "KEY_NOT_EXISTS"


class OwnerSourceNotFoundError(NotFoundError):
    """There is no register of owners with this name."""

    code = "OWNER_SOURCE_NOT_FOUND"


class PartitionNotFoundError(NotFoundError):
    """The topic does not have this partition."""

    code = "PARTITIONS_NOT_FOUND_FOR_TOPIC"


class OffsetNotFoundError(NotFoundError):
    """The partition has no message at the offset, or the message is gone."""

    code = "OFFSET_NOT_FOUND_EXCEPTION"


class ClusterNotFoundError(NotFoundError):
    """There is no cluster or data centre with this name. Angelia has only one."""

    code = "BROKERS_CLUSTER_NOT_FOUND_EXCEPTION"


class ImplementationAbsentError(NotFoundError):
    """The request needs an optional part of Hermes that this installation does not have."""

    code = "IMPLEMENTATION_ABSENT"


class AnalysisNotFoundError(NotFoundError):
    """No finished job has results for this request."""

    code = "ANALYSIS_NOT_EXISTS"


class ConflictError(AngeliaError):
    """The request conflicts with the current state."""


class GroupExistsError(ConflictError):
    """A group with this name exists."""

    code = "GROUP_ALREADY_EXISTS"


class TopicExistsError(ConflictError):
    """A topic with this name exists."""

    code = "TOPIC_ALREADY_EXISTS"


class SubscriptionExistsError(ConflictError):
    """The topic has a subscription with this name."""

    code = "SUBSCRIPTION_ALREADY_EXISTS"


class GroupNotEmptyError(ConflictError):
    """The group still has topics."""

    code = "GROUP_NOT_EMPTY"


class TopicNotEmptyError(ConflictError):
    """The topic still has subscriptions."""

    code = "TOPIC_NOT_EMPTY"


class OAuthProviderExistsError(ConflictError):
    """An OAuth provider with this name exists."""

    code = "OAUTH_PROVIDER_ALREADY_EXISTS"


class OAuthProviderInUseError(ConflictError):
    """Subscriptions still use the OAuth provider."""

    code = "OAUTH_PROVIDER_IN_USE"


class JobEndedError(ConflictError):
    """The job has ended and cannot be cancelled."""

    code = "JOB_ENDED"


class TopicUnconstrainedError(ConflictError):
    """The topic has no workload constraints."""

    code = "TOPIC_CONSTRAINTS_DO_NOT_EXIST"


class SubscriptionUnconstrainedError(ConflictError):
    """The subscription has no workload constraints."""

    code = "SUBSCRIPTION_CONSTRAINTS_DO_NOT_EXIST"


class OwnerSourceNotSearchableError(ConflictError):
    """The register of owners cannot be searched."""

    code = "OWNER_SOURCE_DOESNT_SUPPORT_AUTOCOMPLETE"


class ChangedMeanwhileError(ConflictError):
    """The resource has changed since the version in `If-Match`."""

    code = "PRECONDITION_FAILED"


class RequestUnderWayError(ConflictError):
    """A request with the same Idempotency-Key is still running."""

    code = "IDEMPOTENT_REQUEST_UNDER_WAY"


class IdempotencyKeyReusedError(ConflictError):
    """The Idempotency-Key was used for another request."""

    code = "IDEMPOTENCY_KEY_REUSED"


class UnroutableError(ConflictError):
    """No active subscription gets the topic's messages, and the publisher requires one."""

    code = "UNROUTABLE"


class DuplicateMessageError(ConflictError):
    """A message with the same id was stored before, and the topic refuses duplicates.

    `duplicate_of` is the id of the stored message; None if this id is not known any more.
    """

    code = "DUPLICATE_MESSAGE"

    def __init__(self, topic: str, duplicate_of: str | None) -> None:
        named = f": message {duplicate_of}" if duplicate_of else ""
        super().__init__(f"Topic {topic} has it already{named}")
        self.duplicate_of = duplicate_of


class AccessError(AngeliaError):
    """The caller is unknown, or has no permission for the request."""


class KeyMissingError(AccessError):
    """An API key is needed, and none was sent."""

    code = "TOKEN_NOT_PROVIDED"


class KeyRefusedError(AccessError):
    """The API key does not exist, has expired, or was revoked."""

    code = "AUTH_ERROR"


class PublishingDeniedError(AccessError):
    """The key may not publish to the topic."""

    code = "AUTH_ERROR"


class PermissionDeniedError(AccessError):
    """The key is valid, but does not allow the request."""

    code = "PERMISSION_DENIED"


class MessageTooLargeError(AngeliaError):
    """A message, or the body of a request, is larger than allowed."""

    code = "VALIDATION_ERROR"


class MessageRefusedError(AngeliaError):
    """The log refuses a message as invalid. Sending it again does not help."""

    code = "VALIDATION_ERROR"


class MessageTimeRefusedError(MessageRefusedError):
    """The log refuses a message for its time, which Angelia's clock gave it.

    The publisher can change nothing, so the same request may succeed later, when the clocks agree.
    """

    code = "MESSAGE_TIME_REFUSED"


class ThroughputQuotaError(AngeliaError):
    """A topic gets more than its quota allows. The same request may succeed a second later.

    This error is also raised for a batch whose messages take more work than one request may take.
    Its publisher must send the messages in several requests.
    """

    code = "THROUGHPUT_QUOTA_VIOLATION"


class JobQueueFullError(AngeliaError):
    """Too many jobs are already waiting."""

    code = "JOB_QUEUE_FULL"


class PingTooSoonError(AngeliaError):
    """The subscription has got a test message just now, or too many of them are in flight."""

    code = "PING_TOO_SOON"


class SecretKeyError(AngeliaError):
    """A secret cannot be stored or read with the keys of this process."""


class SecretKeyMissingError(SecretKeyError):
    """No secret can be stored: no key for encryption is configured."""

    code = "SECRET_KEY_MISSING"


class SecretUnreadableError(SecretKeyError):
    """A stored secret cannot be read: its key is unknown, or the stored text was changed."""

    code = "SECRET_UNREADABLE"


class UnavailableError(AngeliaError):
    """A part of the service did not respond in time. A later request may succeed."""


class LogUnavailableError(UnavailableError):
    """The message log did not respond in time. Perhaps it has done what was requested."""

    code = "SENDING_TO_KAFKA_TIMEOUT"


class LogUnreadableError(LogUnavailableError):
    """The message log has bytes that cannot be decoded. A later read may get others."""


class TooManyWaitersError(UnavailableError):
    """Too many publishers already wait for deliveries. The message is not stored."""

    code = "TOO_MANY_WAITERS"


class TooManySearchesError(UnavailableError):
    """Too many searches of messages are running."""

    code = "TOO_MANY_SEARCHES"


class ReadOnlyError(UnavailableError):
    """Changes are not allowed at present."""


class NoWorkerError(UnavailableError):
    """No worker answered the request in time."""

    code = "NO_WORKER"


class SchemaRegistryError(UnavailableError):
    """The schema registry did not respond, or its response was not valid."""

    code = "SCHEMA_REPOSITORY_INTERNAL_ERROR"


class StorageUnavailableError(UnavailableError):
    """The database did not respond in time."""

    code = "STORAGE_UNAVAILABLE"
