import sys

import orjson
import pytest

from app.api.errors import RequestRefusedError
from app.api.publish.batch_items import BatchItem, Form, form_of, items
from app.domain.errors import AngeliaError, FormatInvalidError

EVENT = b'{"specversion":"1.0","id":"e1","source":"/s","type":"t"%s}'


async def taken(
    body: bytes, form: Form = Form.ARRAY, *, envelope: bool = False
) -> list[BatchItem | AngeliaError]:
    return [each async for each in items(body, form, envelope=envelope)]


async def bodies(body: bytes, form: Form = Form.ARRAY) -> list[bytes | str]:
    """The body of each message, or why it is refused."""
    return [
        each.body if isinstance(each, BatchItem) else each.message
        for each in await taken(body, form)
    ]


@pytest.mark.parametrize(
    ("body", "elements"),
    [
        (b"[]", []),
        (b" [ ] ", []),
        (b"[1]", [b"1"]),
        (b'[ {"a" : 1.50} ,\n\t"x,]", null]\r\n', [b'{"a" : 1.50}', b'"x,]"', b"null"]),
        (
            '[{"ü":"\\u00fc", "ü":2}, "€"]'.encode(),
            ['{"ü":"\\u00fc", "ü":2}'.encode(), '"€"'.encode()],
        ),
        (b"[[1, [2]], -0.0e+10]", [b"[1, [2]]", b"-0.0e+10"]),
        (b"[" + b"9" * 5_000 + b"]", [b"9" * 5_000]),
    ],
)
async def test_takes_the_elements_of_an_array_as_they_stand_there(
    body: bytes, elements: list[bytes]
) -> None:
    assert await bodies(body) == elements


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (b"", []),
        (b"\n \t\r\n\n", []),
        (b"1", [b"1"]),
        (b" 1 \r\n\n\t\n2\n", [b" 1 ", b"2"]),
        (b"\r\n1\r\r\n", [b"1\r"]),
        (b"1\n2", [b"1", b"2"]),
    ],
)
async def test_takes_the_lines_that_are_not_blank(body: bytes, lines: list[bytes]) -> None:
    assert await bodies(body, Form.LINES) == lines


@pytest.mark.parametrize("blank", [b"\n", b" ", b" \n", b"\r\n"])
async def test_a_million_blank_lines_are_passed_over_at_once(blank: bytes) -> None:
    body = blank * 1_000_000 + b"\n1\n" + blank * 1_000_000
    found: list[bytes | str] = []
    steps = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal steps
        steps += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        found = await bodies(body, Form.LINES)
    finally:
        sys.setprofile(None)
    assert found == [b"1"]
    assert steps < 100


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[",
        b"[1",
        b"[1,]",
        b"[,1]",
        b"[1 2]",
        b"[1]]",
        b"[1] x",
        b"[NaN]",
        b"[-Infinity]",
        b"['a']",
        b'["\xff"]',
        b'["\x01"]',
        b"[" * 200_000,
    ],
)
async def test_refuses_what_is_no_array_of_json(body: bytes) -> None:
    with pytest.raises(FormatInvalidError):
        await bodies(body)


async def test_takes_lines_as_they_are() -> None:
    body = b'{"a" : 1}\r\n\n  \n 2 \n{"a":\n"x"'
    # Which of them are JSON depends on their topic: tests/integration/api/publish/test_batches.py.
    assert await bodies(body, Form.LINES) == [b'{"a" : 1}', b" 2 ", b'{"a":', b'"x"']


@pytest.mark.parametrize(
    ("envelope", "item"),
    [
        (b'{"message": {"a" :  1.0}}', BatchItem(b'{"a" :  1.0}', checked=True)),
        (
            b' {"message":[1 , 2], "id":"m1","key":"k\xc3\xbc"} ',
            BatchItem(b"[1 , 2]", id=b"m1", key=b"k\xc3\xbc", checked=True),
        ),
        (b'{"id":null,"message":"}","key":""}', BatchItem(b'"}"', checked=True)),
        (b'{"message":1,"message":2 }', BatchItem(b"2", checked=True)),
    ],
)
@pytest.mark.parametrize("form", [Form.ARRAY, Form.LINES])
async def test_opens_envelopes(envelope: bytes, item: BatchItem, form: Form) -> None:
    body = b"[" + envelope + b"]" if form is Form.ARRAY else envelope
    assert await taken(body, form, envelope=True) == [item]


@pytest.mark.parametrize(
    ("envelope", "says"),
    [
        (b"1", "must be an object"),
        (b'{"id":"m1"}', "must be an object"),
        (b'{"message":1,"id":5}', "id must be 1 to 128"),
        (b'{"message":1,"id":"a.b"}', "id must be 1 to 128"),
        (b'{"message":1,"key":5}', "key must be a string"),
        (b'{"message":1,"ID":"x"}', "ID is not one of"),
    ],
)
async def test_refuses_an_envelope_that_is_wrong_and_goes_on(envelope: bytes, says: str) -> None:
    wrong, right = await taken(b'[%s, {"message":2}]' % envelope, Form.ARRAY, envelope=True)
    assert isinstance(wrong, AngeliaError)
    assert says in wrong.message
    assert right == BatchItem(b"2", checked=True)


async def test_takes_id_and_key_of_an_event_and_all_of_it_as_the_message() -> None:
    event = EVENT % b', "partitionkey":"k"'
    assert await taken(b"[ %s]" % event, Form.EVENTS) == [
        BatchItem(event, b"application/cloudevents+json", id=b"e1", key=b"k", checked=True)
    ]


async def test_an_event_whose_id_no_message_can_have_is_taken_without_it() -> None:
    event = EVENT.replace(b"e1", b"a.b c") % b""
    (item,) = await taken(b"[%s]" % event, Form.EVENTS)
    assert isinstance(item, BatchItem)
    assert (item.id, item.body) == (None, event)


@pytest.mark.parametrize(
    ("lacking", "path"),
    [("specversion", "specversion"), ("id", "id"), ("source", "source"), ("type", "type")],
)
async def test_refuses_an_event_that_lacks_what_all_must_have(lacking: str, path: str) -> None:
    event = orjson.loads(EVENT % b"")
    del event[lacking]
    (refused,) = await taken(orjson.dumps([event]), Form.EVENTS)
    assert isinstance(refused, AngeliaError)
    assert refused.message.startswith(path)


def test_says_which_media_types_a_batch_may_have() -> None:
    with pytest.raises(RequestRefusedError, match="application/x-ndjson") as refused:
        form_of("text/plain")
    assert refused.value.status == 415
