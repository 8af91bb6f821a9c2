"""Documents that others write: filters, templates, events, batches and schemas."""

import re
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from jsonpath import JSONPathEnvironment, JSONPathError

from app.api.publish.batch_items import BatchItem, Form, items
from app.api.publish.cloudevents import event_of
from app.api.publish.headers import is_own_id
from app.domain.catalogue.filters import FILTERS_MAX, Filter, FilterType, MatchingStrategy
from app.domain.catalogue.subscription import endpoint_url
from app.domain.catalogue.templates import TARGET_LENGTH_MAX, EndpointTemplate, TemplateError
from app.domain.errors import (
    AngeliaError,
    FormatInvalidError,
    MessageTooLargeError,
    ValidationFailedError,
)
from app.domain.message import Message, Partition, Record
from app.filtering.bodies import ParsedBodies
from app.filtering.budget import Budget, ExhaustedError, PathError
from app.filtering.matching import FilterChain, Verdict, check_filters
from app.filtering.paths import Path
from app.schemas.avro import AvroCodec
from app.schemas.json_schema import JsonSchema
from app.schemas.problems import AvroError, MismatchError
from tests.fuzz.target import Target, run

_LIBRARY: Final = JSONPathEnvironment(strict=True)
# A schema of others is made once, and its own cost is bounded by its length.
SCHEMA_LENGTH_MAX: Final = 2_000


def _two(data: bytes) -> tuple[str, bytes]:
    """A text, and what stands behind the first empty line."""
    text, _, body = data.partition(b"\n\n")
    return text.decode(errors="replace"), body


def check_filters_of_messages(data: bytes) -> None:
    """Filters are refused, or judge every message, by paths, headers and expressions.

    Each line is a filter: its kind, and its two texts behind tabs.
    """
    text, body = _two(data)
    with suppress(ValidationFailedError):
        lines = text.split("\n")[:FILTERS_MAX]
        filters = [_filter(*(line + "\t\t").split("\t")[:3]) for line in lines]
        check_filters(filters)
        chain = FilterChain(filters, ParsedBodies())
        assert not chain.problem, chain.problem
        record = Record(0, 0, b"k", body, [(b"h-x", b"y"), (b"id", b"m1")])
        assert isinstance(chain.judge(Message(record, Partition("t", 0))), Verdict)


def _filter(kind: str, first: str, second: str) -> Filter:
    match kind:
        case "p":
            return Filter(type=FilterType.JSONPATH, path=first, matcher=second)
        case "a":
            strategy = MatchingStrategy.ANY
            return Filter(
                type=FilterType.JSONPATH, path=first, matcher=second, matching_strategy=strategy
            )
        case "h":
            return Filter(type=FilterType.HEADER, header=first, matcher=second)
        case _:
            return Filter(type=FilterType.CEL, expression=first)


# A test of a query without segments, such as `!@` and `@ && …`: what it names exists (RFC 9535,
# 2.3.5). The library tests the value of `@` instead.
_TEST_OF_WHOLE: Final = re.compile(r"[@$]\s*(?:&&|\|\||[\]),])")


def check_path(data: bytes) -> None:
    """A path is refused, or finds what the library finds, which parses it for us."""
    text, body = _two(data)
    if not text.startswith("$") or len(text) > 1_000 or _TEST_OF_WHOLE.search(text):
        return
    try:
        path, document = Path(text), orjson.loads(body)
    except (PathError, orjson.JSONDecodeError):
        return
    try:
        ours = path.values(document, Budget(2_000))
    except (PathError, ExhaustedError):
        return
    # The library parses a text as JSON.
    given = orjson.dumps(document).decode() if isinstance(document, str) else document
    with suppress(JSONPathError, RecursionError):
        theirs = _found_by_library(text, given)
        assert _same(ours, theirs), (text, ours, theirs)


def _found_by_library(text: str, document: Any) -> list[object]:  # noqa: ANN401 - JSON can have any type
    """Return what the library finds. Slices of texts are left out: RFC 9535 has none."""
    found = _LIBRARY.compile(text).finditer(document)
    return [
        each.obj for each in found if each.parent is None or not isinstance(each.parent.obj, str)
    ]


def _same(ours: object, theirs: object) -> bool:
    return orjson.dumps(ours) == orjson.dumps(theirs)


def check_template(data: bytes) -> None:
    """No message chooses the host of an endpoint, or another path than its template has."""
    text, body = _two(data)
    try:
        endpoint = endpoint_url(text)
        value = orjson.loads(body)
    except (ValidationFailedError, orjson.JSONDecodeError):
        return
    template = EndpointTemplate.of(endpoint)
    if template is None:
        return
    with suppress(TemplateError):
        target = template.target(value)
        assert len(target) <= TARGET_LENGTH_MAX
        assert target.isascii()
        assert target.startswith("/")
        assert not set(target) & set(" \r\n\t#"), target
        made, sample = urlsplit(f"http://host{target}"), urlsplit(template.sample)
        assert made.netloc == "host"
        path = sample.path or "/"
        assert made.path.count("/") == path.count("/"), target
        assert made.query.count("&") == sample.query.count("&"), target


def check_event(data: bytes) -> None:
    """An event is refused with a reason, or has an id and a key that a record can have."""

    async def read() -> None:
        with suppress(FormatInvalidError, ValidationFailedError):
            event = await event_of(data)
            assert event.checked
            assert event.id is None or is_own_id(event.id)

    run(read())


def check_batch(data: bytes) -> None:
    """A batch is cut into what it has: for each form that it can have, by its first byte."""
    if not data:
        return
    form, enveloped = tuple(Form)[data[0] % len(Form)], data[0] >= 128
    body = data[1:]
    found: list[BatchItem | AngeliaError] = []
    whole = False

    async def read() -> None:
        nonlocal whole
        with suppress(FormatInvalidError):
            found.extend([each async for each in items(body, form, envelope=enveloped)])
            whole = True

    run(read())
    if form is Form.ARRAY and not enveloped:
        _compare(body, found, whole=whole)


def _compare(body: bytes, found: list[BatchItem | AngeliaError], *, whole: bool) -> None:
    try:
        expected: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return
    if isinstance(expected, list):
        assert whole, body
        bodies = [each.body for each in found if isinstance(each, BatchItem)]
        assert [orjson.loads(each) for each in bodies] == expected


def check_json_schema(data: bytes) -> None:
    """A JSON Schema is refused, or holds for each message or names its problems."""
    text, body = _two(data)
    if len(text) > SCHEMA_LENGTH_MAX:
        return
    with suppress(ValidationFailedError, orjson.JSONDecodeError):
        value = orjson.loads(body)
        for problem in JsonSchema(text).problems(value, body):
            assert problem.path
            assert problem.message


def check_avro(data: bytes) -> None:
    """An Avro schema is refused, or reads bytes to JSON that it writes and reads to the same."""
    text, body = _two(data)
    if len(text) > SCHEMA_LENGTH_MAX:
        return
    with suppress(ValidationFailedError, AvroError):
        codec = AvroCodec(text)
        said = codec.json(body)
        with suppress(MismatchError, MessageTooLargeError):
            again = codec.binary(orjson.loads(said), wrapped=False, metadata={}, size=len(said))
            assert codec.json(again) == said


FILTERS: Final = Target(
    check_filters_of_messages,
    [
        b'p\t$.kind\tPL|DE\np\t$..sku\tA-.*\n\n{"kind":"PL","items":[{"sku":"A-1"}]}',
        b'a\t$.items[?@.count > 2 && @.price].sku\t.*\n\n{"items":[{"sku":"b","count":7}]}',
        b"h\tx\t[a-z]{1,9}\nc\theaders['x'] == 'y' && id != key\n\n1",
        b'c\tbody.kind == "PL" && body.items.size() > 1 || text.contains("x")\n\n{"kind":"PL"}',
        b'p\tname\t^a.*$\np\t.deep\t.*\n\n{"name":"ab","a":[{"deep":null}]}',
    ],
)
PATHS: Final = Target(
    check_path,
    [
        b'$.lines[?(@.amount >= 7 && @.price)].sku\n\n{"lines":[{"sku":"a","amount":7,"price":1}]}',
        b"$..['name','gift']\n\n" + b'{"name":"a","b":[{"gift":true}]}',
        b"$.a[::-1][*]\n\n" + b'{"a":[[1,2],[3]]}',
        b'$[?@.a == $.b || !@.c]\n\n{"b":1,"x":{"a":1,"c":2}}',
    ],
)
TEMPLATES: Final = Target(
    check_template,
    [
        b'http://h.example/orders/{id}?by={user.name}\n\n{"id":7,"user":{"name":"a b/../c"}}',
        b'https://h.example:8443/{a}/{b}\n\n{"a":"..","b":true}',
        b'http://h.example?x={a}\n\n{"a":1e300}',
    ],
)
EVENTS: Final = Target(
    check_event,
    [
        b'{"specversion":"1.0","id":"a-1","source":"/s","type":"t","partitionkey":"k","data":{}}',
        b'{"specversion":"1.0","id":"a.1","source":"/s","type":"t","data_base64":"e30="}',
    ],
)
BATCHES: Final = Target(
    check_batch,
    [
        bytes((kind,)) + body
        for kind in (0, 1, 2, 128, 129)
        for body in (
            b'[{"a":[1,"]"]}, 2.5e3 , "\\u00e9", null]',
            b'{"a":1}\n\n {"b":"\xc3\xa9"}\r\n3',
            b'[{"message":{"a":1},"id":"m-1","key":"k"},{"message":2,"x":1}]',
            b'[{"specversion":"1.0","id":"a","source":"s","type":"t"}]',
        )
    ],
)
JSON_SCHEMAS: Final = Target(
    check_json_schema,
    [
        (
            b'{"type":"object","required":["a"],"properties":{"a":{"type":"string","pattern":"^[a-z]+$"},'
            b'"b":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"number","multipleOf":0.01}}}\n\n'
            b'{"a":"x","b":1.5}'
        ),
        (
            b'{"type":"array","items":{"oneOf":[{"type":"integer"},{"format":"date-time"}]},'
            b'"uniqueItems":true,"contains":{"const":3}}\n\n[1,3,"2026-01-01T00:00:00Z"]'
        ),
        (
            b'{"if":{"minProperties":1},"then":{"additionalProperties":false},"patternProperties":'
            b'{"^x":{"enum":[1,null]}}}\n\n{"x1":1}'
        ),
    ],
)
AVRO: Final = Target(
    check_avro,
    [
        (
            b'{"type":"record","name":"R","fields":[{"name":"a","type":"string"},{"name":"b","type":'
            b'["null","long"]},{"name":"c","type":{"type":"array","items":"int"}}]}\n\n'
            b"\x02x\x02\x0e\x04\x02\x04\x00"
        ),
        (
            b'{"type":"map","values":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}}'
            b"\n\n\x02\x02k\x04\x01\x02\x00"
        ),
        b'{"type":"enum","name":"E","symbols":["A","B"]}\n\n\x02',
        (
            b'{"type":"record","name":"N","fields":[{"name":"n","type":["null","N"]},{"name":"f","type":'
            b'{"type":"fixed","name":"F","size":3}}]}\n\n\x02\x00abcdef'
        ),
        b'["null","boolean","double","float"]\n\n\x04' + bytes(8),
    ],
)
