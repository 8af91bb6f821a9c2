"""Filters of a subscription in Hermes' form, and the debugger that tries them on a message."""

import base64
import binascii
import time
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from app.api.bodies.base import JsonObject, OtherFields, OwnSchema, Rules, Schema, parse
from app.domain.catalogue.filters import EXPRESSION_LENGTH_MAX, Filter, FilterType, MatchingStrategy
from app.domain.catalogue.schema import ContentType
from app.domain.catalogue.topic import Topic
from app.domain.errors import FieldProblem, ValidationFailedError
from app.domain.message import HEADER_ID, HEADER_PROPAGATED_PREFIX, Message, Partition, Record
from app.filtering.bodies import ParsedBodies
from app.filtering.matching import FilterChain, Verdict, check_filters
from app.schemas.compiled import avro_codec
from app.schemas.problems import AvroError
from app.schemas.publications import PLAIN_JSON, Given, typed


class FilterBody(OwnSchema):
    """One filter. A jsonpath filter has a `path`, and a header filter has a `header`.

    Both have a `matcher`. A cel filter has only an `expression`.
    """

    type: Literal["jsonpath", "header", "cel", "avropath"] = Field(
        description=(
            "avropath: Hermes' `.a.b[*].c` finds what the jsonpath `$.a.b[*].c` finds, and a null"
            " matches as the text `null`"
        )
    )
    path: str | None = Field(
        default=None,
        max_length=EXPRESSION_LENGTH_MAX,
        description=(
            "JSONPath (RFC 9535) into the body. Without `$` it is read as in Hermes: `name` is"
            " `$.name`, `.name` is `$..name`"
        ),
        examples=["$.customer.country"],
    )
    header: str | None = Field(
        default=None,
        max_length=EXPRESSION_LENGTH_MAX,
        description="name of a header that publishers send, among the topic's propagatedHeaders",
    )
    matcher: str | None = Field(
        default=None,
        max_length=EXPRESSION_LENGTH_MAX,
        description="regex (RE2 syntax) that matches a whole value",
        examples=["PL|DE"],
    )
    expression: str | None = Field(
        default=None,
        max_length=EXPRESSION_LENGTH_MAX,
        description=(
            "CEL that is true of messages to deliver, over body (its JSON), text (the body as it"
            " is), headers (the propagated ones, by lower-case names), key, id, topic and timestamp"
            " (of publication, in ms)"
        ),
        examples=["body.amount > 100 && headers['x-tenant'] == 'acme'"],
    )
    matching_strategy: Literal["all", "any"] | None = Field(
        default=None, description="of several values that the path finds; all by default"
    )

    @classmethod
    def of(cls, each: Filter) -> "FilterBody":
        """Return the body that describes `each`."""
        by_path = each.type is FilterType.JSONPATH
        return cls(
            type="avropath" if each.avropath else each.type.value,
            path=each.avropath or each.path or None,
            header=each.header or None,
            matcher=each.matcher or None,
            expression=each.expression or None,
            matching_strategy=each.matching_strategy.value if by_path else None,
        )

    def to_domain(self) -> Filter:
        """Return the filter.

        Raises:
            ValidationFailedError: The filter is not valid.
        """
        path = self.path or ""
        by_avropath = self.type == "avropath"
        return Filter(
            type=FilterType.JSONPATH if by_avropath else FilterType(self.type),
            path=_jsonpath(path) if by_avropath else path,
            avropath=path if by_avropath else "",
            header=self.header or "",
            matcher=self.matcher or "",
            expression=self.expression or "",
            matching_strategy=MatchingStrategy(self.matching_strategy or "all"),
        )


def _jsonpath(avropath: str) -> str:
    """Return the JSONPath of the same place. As in Hermes, dots around the path do not matter."""
    names = avropath.strip(".")
    return f"$.{names}" if names else ""


def filters_of(
    bodies: Sequence[FilterBody], *, stored: Sequence[Filter] = ()
) -> tuple[Filter, ...]:
    """Return the filters, after a check of them. `stored` are filters that are in use already.

    Raises:
        ValidationFailedError: Some filters are refused; the error names each.
    """
    filters = _filters_of(bodies)
    check_filters(filters, stored=stored)
    return filters


def _filters_of(bodies: Sequence[FilterBody]) -> tuple[Filter, ...]:
    filters: list[Filter] = []
    problems: list[FieldProblem] = []
    for index, body in enumerate(bodies):
        try:
            filters.append(body.to_domain())
        except ValidationFailedError as exc:
            problems += [
                FieldProblem(path=f"filters.{index}.{item.path}", message=item.message)
                for item in exc.details
            ]
    if problems:
        raise ValidationFailedError(problems)
    return tuple(filters)


class FilterTrialBody(Schema):
    """A message, and the filters to try on it."""

    filters: list[FilterBody]
    message: str = Field(
        description="the body, in base64: JSON, on an AVRO topic too",
        examples=["eyJjb3VudHJ5IjoiUEwifQ=="],
    )
    headers: dict[str, str] | None = Field(
        default=None, description="its propagated headers, for header and cel filters"
    )
    key: str | None = Field(default=None, description="its Partition-Key, for cel filters")
    id: str | None = Field(default=None, description="its id, for cel filters")
    timestamp: int | None = Field(
        default=None, ge=0, description="when it was published, in ms; now, when absent"
    )


class FilterTrialRead(Schema):
    """The result for the message.

    ERROR also filters the message out; `errorMessage` has the reason.

    A body that is not JSON is an error for jsonpath filters, and for cel filters that read the
    body. On an AVRO topic, a body that does not match the schema is an error for all filters.
    """

    status: Literal["MATCHED", "NOT_MATCHED", "ERROR"]
    error_message: str | None = None


def tried(topic: Topic, body: JsonObject, *, strict: bool) -> FilterTrialRead:
    """Return the result of trying the filters in `body` on the message in `body`.

    On an AVRO topic, the message is converted to Avro first, as it would be when it is published.

    Raises:
        ValidationFailedError: The body is invalid.
    """
    trial = parse(FilterTrialBody, body, Rules(others=OtherFields(), strict=strict))
    chain = FilterChain(_filters_of(trial.filters), ParsedBodies())
    given = _decoded(trial.message)
    try:
        value = _as_delivered(topic, given)
    except (ValidationFailedError, AvroError) as exc:
        return FilterTrialRead(status="ERROR", error_message=str(exc))
    return _trial_read(chain.judge(_message_of(topic.name, trial, value)))


def _decoded(message: str) -> bytes:
    try:
        return base64.b64decode(message, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ValidationFailedError.of("message", "must be base64") from exc


def _as_delivered(topic: Topic, value: bytes) -> bytes:
    """Return the message in the form that filters see if it is published to the topic.

    Raises:
        ValidationFailedError: The message does not match the topic's Avro schema.
        AvroError: The message cannot be read again as JSON.
    """
    if topic.content_type is ContentType.JSON or topic.schema is None:
        return value
    given = Given(body=value, media=PLAIN_JSON, message_id=b"", now_ms=0)
    return avro_codec(topic.schema.text).json(typed(topic, given).body)


def _message_of(topic: str, trial: FilterTrialBody, value: bytes) -> Message:
    headers = [
        (HEADER_PROPAGATED_PREFIX + name.encode(), text.encode())
        for name, text in (trial.headers or {}).items()
    ]
    headers.append((HEADER_ID, (trial.id or "").encode()))
    published_ms = time.time_ns() // 1_000_000 if trial.timestamp is None else trial.timestamp
    record = Record(0, published_ms, (trial.key or "").encode(), value, headers)
    return Message(record, Partition(topic, 0))


def _trial_read(verdict: Verdict) -> FilterTrialRead:
    if verdict.error is not None:
        return FilterTrialRead(status="ERROR", error_message=verdict.error)
    return FilterTrialRead(status="MATCHED" if verdict.wanted else "NOT_MATCHED")
