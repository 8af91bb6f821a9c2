"""Every setting of topics and subscriptions refuses what it cannot be, and says what it can.

The settings are found in the schemas: one without a row here fails the tests.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

import httpx
import pytest
from pydantic import BaseModel

from app.api.bodies.problems import schema_in
from app.api.management.catalogue.subscription_bodies import SubscriptionBody
from app.api.management.catalogue.topic_bodies import TopicBody
from app.api.management.fields.oauth import OAuthProviderBody
from tests.integration.api.fields import oauth_settings
from tests.integration.api.fields.wrong_values import (
    NO_LISTS,
    NO_NUMBERS,
    NO_STRINGS,
    Setting,
    Wrong,
    choice,
    flag,
    lists,
    number,
    objects,
    text,
    words,
    wrong,
)

JSONPATH = {"type": "jsonpath", "path": "$.a", "matcher": "x"}
HEADER = {"type": "header", "header": "h", "matcher": "x"}
CEL = {"type": "cel", "expression": "true"}
OWNER = {
    "owner": Setting(wrong=objects()),
    "owner.source": Setting(wrong=text(1, 256)),
    "owner.id": Setting(wrong=text(1, 256)),
}
TOPIC_NAME = [
    *words("group.topic", "orders", ".orders", "shop."),
    *wrong("letters", "", "shop.or/ders", "shop. x", "shop.\0"),
    *wrong("100", "a." + "x" * 99),
]
EXPRESSION = [
    *words("1 to 1000 characters", ""),
    *wrong("1000 characters", "x" * 1001),
    *wrong("line 1, column", "1 +", "a b"),
    *wrong("names nothing; there are", "nothing == 1"),
    *wrong("may only use", "[1].map(body, body) == []", "'a'.matches('a')"),
    *wrong("zero", "'\0' == ''"),
]
HEADER_NAMES = wrong("1 to 128 characters", "", "a b", "x" * 129, "ż", "a\0")

TRACKING = {
    "trackingMode": Setting(wrong=choice("trackingOff", "discardedOnly", "trackingAll")),
    "trackingEnabled": Setting(wrong=flag()),
}

TOPIC: dict[str, Setting] = {
    **OWNER,
    "name": Setting(wrong=TOPIC_NAME, required=True),
    "description": Setting(wrong=text(0, 10_000)),
    "retentionTime": Setting(wrong=objects()),
    "retentionTime.duration": Setting(
        wrong=[
            *wrong("at least 1", 0, -1),
            *wrong(("whole number", "at least 1"), "1", 1.5, *NO_NUMBERS),
            *wrong("at most 3650 days", 3_651, 10**15),
        ]
    ),
    "retentionTime.retentionUnit": Setting(wrong=choice("SECONDS", "MINUTES", "HOURS", "DAYS")),
    "ack": Setting(wrong=choice("NONE", "LEADER", "ALL")),
    "contentType": Setting(wrong=choice("JSON", "AVRO")),
    "adopted": Setting(wrong=flag()),
    "migratedFromJsonType": Setting(wrong=[*flag(), Wrong(value=True, says=["must be false"])]),
    "schema": Setting(
        wrong=[
            *text(0, 131_072),
            *wrong("is not JSON", "x", "{"),
            *wrong("true or false", "[]", "7"),
            *wrong("is not a JSON Schema", '{"type": "nope"}'),
            *wrong("may refer to its own parts alone", '{"$ref": "http://h.test/"}'),
        ]
    ),
    "maxMessageSize": Setting(wrong=number(1024, 2 * 1024 * 1024)),
    "partitions": Setting(wrong=number(1, 1000)),
    "alternateTopic": Setting(wrong=TOPIC_NAME),
    "throughputQuota": Setting(wrong=number(1024, 1024**3)),
    "deduplication": Setting(wrong=objects()),
    "deduplication.expression": Setting(wrong=EXPRESSION),
    "deduplication.ttl": Setting(wrong=number(1, 604_800)),
    "deduplication.maxEntries": Setting(wrong=number(1, 1_000_000)),
    "deduplication.onDuplicate": Setting(wrong=choice("ACCEPT", "REFUSE")),
    "propagatedHeaders": Setting(wrong=lists(50, "x")),
    "propagatedHeaders.0": Setting(
        wrong=[*wrong("must be a string", *NO_STRINGS), *HEADER_NAMES], required=True
    ),
    "auth": Setting(wrong=objects()),
    "auth.enabled": Setting(wrong=flag()),
    "auth.publishers": Setting(wrong=lists(1000, "x")),
    "auth.publishers.0": Setting(wrong=text(1, 100), required=True),
    "auth.unauthenticatedAccessEnabled": Setting(wrong=flag()),
    "subscribingRestricted": Setting(wrong=flag()),
    "offlineStorage": Setting(wrong=objects()),
    "offlineStorage.enabled": Setting(wrong=flag(), beside={"retentionTime": {"duration": 60}}),
    "offlineStorage.retentionTime": Setting(wrong=objects()),
    "offlineStorage.retentionTime.duration": Setting(wrong=number(0, 36_500)),
    "offlineStorage.retentionTime.infinite": Setting(wrong=flag()),
    **TRACKING,
}

POLICY: dict[str, Setting] = {
    "rate": Setting(wrong=number(1, 1_000_000)),
    "messageTtl": Setting(wrong=number(0, 7200)),
    "requestTimeout": Setting(wrong=number(100, 300_000)),
    "messageBackoff": Setting(wrong=number(0, 600_000)),
    "backoffMultiplier": Setting(wrong=number(1, 10, whole=False)),
    "backoffMaxIntervalInSec": Setting(wrong=number(1, 600)),
    "retryClientErrors": Setting(wrong=flag()),
    "inflightSize": Setting(wrong=number(1, 10_000)),
    "retryBufferSize": Setting(wrong=number(1, 1_000_000)),
    "parkedKeysMax": Setting(wrong=number(1, 100_000)),
    "adaptiveRate": Setting(wrong=flag()),
    "heartbeatMax": Setting(wrong=number(1, 3600)),
    "maxRetries": Setting(wrong=number(0, 1_000)),
    "firstRetryImmediate": Setting(wrong=flag()),
    "publishTtl": Setting(wrong=number(1, 2_592_000)),
    "onExhausted": Setting(wrong=choice("WAIT", "DISCARD", "DISCARD_OLDEST", "ABORT", "RUN")),
    "exhaustedWaitMax": Setting(wrong=number(1, 7200)),
    "sendingDelay": Setting(wrong=number(0, 5_000)),
    "batchSize": Setting(wrong=number(1, 10_000)),
    "batchVolume": Setting(wrong=number(1, 8 * 1024 * 1024)),
    "batchTime": Setting(wrong=number(1, 2_147_483_647)),
}

FETCH: dict[str, Setting] = {
    "mode": Setting(wrong=choice("PREFETCH", "POLLING")),
    "fetchSize": Setting(wrong=number(0, 10_000)),
    "fetchTimeout": Setting(wrong=number(100, 60_000)),
    "frequency": Setting(wrong=number(1_000, 60_000)),
    "pollSize": Setting(wrong=number(1, 10_000)),
    "pollingTime": Setting(wrong=number(100, 3_600_000)),
}

ERROR_TYPES = ("TIMEOUT", "CONNECTION", "HTTP_5XX", "HTTP_429", "HTTP_503", "EXPRESSION")
CIRCUIT_BREAKER: dict[str, Setting] = {
    "errorTypes": Setting(
        wrong=[
            *wrong("must be a list", 7, "TIMEOUT", *NO_LISTS),
            *wrong(("one or more", *ERROR_TYPES), []),
        ]
    ),
    "errorTypes.0": Setting(wrong=choice(*ERROR_TYPES), required=True),
    "errorsThreshold": Setting(wrong=number(1, 10_000)),
    "tripTimeout": Setting(
        wrong=[
            *wrong("must be 1 to 86400 SECONDS", 0, -1, 86_401, 10**15),
            *wrong(("whole number", "at least 1"), "30", 1.5, *NO_NUMBERS),
        ]
    ),
    "tripTimeoutUnit": Setting(wrong=choice("MILLISECONDS", "SECONDS", "MINUTES", "HOURS")),
    "circuitName": Setting(wrong=words("1 to 100 letters", "", "a b", "x" * 101, "a\0")),
}

SUBSCRIPTION: dict[str, Setting] = {
    **OWNER,
    "name": Setting(
        wrong=[
            *words("letters", "", "a/b", "a b", "a\0"),
            *wrong("dots", ".", ".."),
            *wrong("100", "x" * 101),
        ],
        required=True,
    ),
    "topicName": Setting(wrong=wrong("shop.orders", "shop.other", "", "x\0", *NO_STRINGS)),
    "endpoint": Setting(
        wrong=[
            *words("http://", "", "ftp://h.test/", "h.test", "http:///x", "http://h.test/ x"),
            *wrong("path and its query", "http://{a}.test/"),
            *wrong("password", "http://u:*****@h.test/"),
            *wrong("ASCII", "http://ż.test/", "http://h.test/\0"),
        ],
        required=True,
    ),
    "description": Setting(wrong=text(0, 10_000)),
    "contact": Setting(wrong=text(0, 10_000)),
    "supportTeam": Setting(wrong=text(1, 256)),
    "state": Setting(wrong=choice("PENDING", "ACTIVE", "SUSPENDED")),
    "subscriptionPolicy": Setting(wrong=objects()),
    **{f"subscriptionPolicy.{name}": setting for name, setting in POLICY.items()},
    "deliveryType": Setting(wrong=choice("SERIAL", "BATCH")),
    "mode": Setting(wrong=choice("ANYCAST", "BROADCAST")),
    "batchFormat": Setting(wrong=choice("WRAPPED", "PLAIN", "NDJSON")),
    "contentType": Setting(
        wrong=[*choice("JSON", "AVRO"), *wrong("its topic is not of AVRO", "AVRO")]
    ),
    "contentMode": Setting(wrong=choice("PLAIN", "CE_BINARY", "CE_STRUCTURED")),
    "monitoringDetails": Setting(wrong=objects()),
    "monitoringDetails.severity": Setting(wrong=choice("CRITICAL", "IMPORTANT", "NON_IMPORTANT")),
    "monitoringDetails.reaction": Setting(wrong=text(0, 10_000)),
    "endpointAddressResolverMetadata": Setting(
        wrong=[
            *objects(),
            *wrong("at most 10000 characters", {"a": "x" * 10_000}),
            *wrong("zero characters", {"a": ["\0"]}, {"\0": 1}),
        ]
    ),
    "autoDeleteWithTopicEnabled": Setting(wrong=flag()),
    "fetch": Setting(wrong=objects()),
    **{f"fetch.{name}": setting for name, setting in FETCH.items()},
    "circuitBreaker": Setting(wrong=objects()),
    **{f"circuitBreaker.{name}": setting for name, setting in CIRCUIT_BREAKER.items()},
    "filters": Setting(wrong=lists(50, JSONPATH)),
    "filters.0": Setting(wrong=objects(), required=True),
    "filters.0.type": Setting(
        wrong=choice("jsonpath", "header", "cel")[1:], beside=JSONPATH, required=True
    ),
    "filters.0.path": Setting(
        wrong=[*text(1, 1_000), *wrong("JSONPath", "a[", "$[")], beside=JSONPATH, required=True
    ),
    "filters.0.header": Setting(wrong=text(1, 1_000), beside=HEADER, required=True),
    "filters.0.matcher": Setting(
        wrong=[*text(1, 1_000), *wrong("RE2", "(", "(?=x)")], beside=HEADER, required=True
    ),
    "filters.0.expression": Setting(
        wrong=[*wrong("true or false", "1", "body"), *EXPRESSION], beside=CEL, required=True
    ),
    "filters.0.matchingStrategy": Setting(wrong=choice("all", "any")[1:], beside=JSONPATH),
    "ordering": Setting(wrong=choice("NONE", "KEY", "PARTITION")),
    "retryableStatusCodes": Setting(wrong=lists(200, 408)),
    "retryableStatusCodes.0": Setting(
        wrong=[
            *wrong("400 to 599", 399, 600, -1, 10**15),
            *wrong(("whole number", "400 to 599"), "408", 408.5, *NO_NUMBERS),
            *wrong("410", 410),
        ],
        required=True,
    ),
    "suspendOnGone": Setting(wrong=flag()),
    "deadLetter": Setting(wrong=objects()),
    "deadLetter.topic": Setting(
        wrong=[*TOPIC_NAME, *wrong("topic that exists", "shop.none")], required=True
    ),
    "clientCertificate": Setting(wrong=objects()),
    "clientCertificate.certificate": Setting(
        wrong=[
            *words("1 to 10 certificates in PEM form", "", "x", "ż", "-----BEGIN CERTIFICATE-----"),
            *wrong("at most 32768", "x" * 32_769),
        ],
        beside={"privateKey": "x"},
        required=True,
    ),
    "clientCertificate.privateKey": Setting(
        wrong=[
            *words("private key in PEM form", "", "x", "ż", "-----BEGIN PRIVATE KEY-----"),
            *wrong("at most 32768", "x" * 32_769),
            *wrong("masked", "*****"),
        ],
        beside={"certificate": "x"},
        required=True,
    ),
    "http2Enabled": Setting(wrong=flag()),
    "failureExpression": Setting(wrong=[*wrong("true or false", "1", "body"), *EXPRESSION]),
    "headers": Setting(wrong=lists(50, {"name": "X", "value": ""})),
    "headers.0": Setting(wrong=objects(), required=True),
    "headers.0.name": Setting(
        wrong=[
            *wrong("must be a string", *NO_STRINGS),
            *HEADER_NAMES,
            *wrong("about the connection", "Host", "content-length"),
        ],
        beside={"value": ""},
        required=True,
    ),
    "headers.0.value": Setting(
        wrong=[
            *words("0 to 4096 printable", "x" * 4097, "a\r\nb: c", " a", "ż", "\0"),
        ],
        beside={"name": "X"},
        required=True,
    ),
    "subscriptionIdentityHeadersEnabled": Setting(wrong=flag()),
    "idempotencyKeyEnabled": Setting(wrong=flag()),
    "oAuthPolicy": Setting(wrong=objects()),
    **{f"oAuthPolicy.{name}": setting for name, setting in oauth_settings.POLICY.items()},
    **TRACKING,
}


def settings_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The path of every field of `model`, of what is in it, and of the first item of each list."""
    for name, info in model.model_fields.items():
        path = f"{prefix}{info.alias or name}"
        yield path
        inner, is_list = schema_in(info.annotation), _holds_list(info.annotation)
        if is_list:
            path = f"{path}.0"
            yield path
        if inner:
            yield from settings_of(inner, f"{path}.")


def _holds_list(annotation: object) -> bool:
    if get_origin(annotation) is Literal:
        return False
    return get_origin(annotation) is list or any(map(_holds_list, get_args(annotation)))


def body_of(path: str, value: object, setting: Setting) -> dict[str, Any]:
    """A body that says no more than that."""
    *above, last = path.split(".")
    held: Any = [value] if last == "0" else setting.beside | {last: value}
    for name in reversed(above):
        held = [held] if name == "0" else {name: held}
    result: dict[str, Any] = held
    return result


def complaint(path: str, each: Wrong, refused: httpx.Response) -> str | None:
    """What is wrong with how it was refused, if anything."""
    said = f"{str(each.value)[:60]!r}: {refused.status_code} {refused.text[:300]}"
    if refused.status_code != 400 or refused.json()["code"] != "VALIDATION_ERROR":
        return said
    # The domain names a list where any of its items may be meant.
    paths = {path, path.removesuffix(".0")}
    problems = [item["message"] for item in refused.json()["details"] if item["path"] in paths]
    if not any(all(words in problem for words in each.says) for problem in problems):
        return f"{each.says} not said of {path} in {said}"
    return None


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    return [
        (name, before.get(name), after.get(name))
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
    ]


def two_of_a_kind(values: Sequence[Wrong]) -> Sequence[Wrong]:
    """The first two of the values of which the answer says the same: too low and too high."""
    kinds: dict[tuple[str, ...], list[Wrong]] = {}
    for each in values:
        kinds.setdefault(tuple(each.says), []).append(each)
    return [each for kind in kinds.values() for each in kind[:2]]


Choose = Callable[[Sequence[Wrong]], Sequence[Wrong]]
CHOICES = pytest.mark.parametrize(
    "choose", [two_of_a_kind, pytest.param(list, marks=pytest.mark.long, id="all")]
)


class Edited:
    """A resource that is created and changed."""

    def __init__(self, api: httpx.AsyncClient, collection: str, body: Mapping[str, Any]) -> None:
        self.api = api
        self.collection = collection
        self.body = dict(body)
        self.path = f"{collection}/{body['name']}"
        # As many connections, none of which rests until the server closes it.
        self.turn = asyncio.Semaphore(4)

    async def all(self) -> dict[str, Any]:
        """What there is of them, but for when it was touched."""
        read: dict[str, Any] = (await self.api.get(self.path)).json()
        read.pop("modifiedAt", None)
        return read | {"all": (await self.api.get(self.collection)).json()}

    async def complaints(self, settings: Mapping[str, Setting], choose: Choose) -> str:
        """Change each setting to wrong values, and create one with the first of them."""
        found: list[str] = []
        before = await self.all()
        for path, setting in settings.items():
            nulls = wrong((), None) if setting.required else ()
            values = (*choose(setting.wrong), *nulls)
            refusals = [self.not_changed(path, each, setting) for each in values]
            refusals.append(self.not_created(path, values[0], setting))
            found += [each for each in await asyncio.gather(*refusals) if each]
        if (after := await self.all()) != before:
            found.append(f"changed {differences(before, after)}")
        return "\n".join(found)

    async def not_created(self, path: str, each: Wrong, setting: Setting) -> str | None:
        body = self.body | {"name": "a.new"} | body_of(path, each.value, setting)
        async with self.turn:
            return complaint(path, each, await self.api.post(self.collection, json=body))

    async def not_changed(self, path: str, each: Wrong, setting: Setting) -> str | None:
        body = body_of(path, each.value, setting)
        async with self.turn:
            return complaint(path, each, await self.api.put(self.path, json=body))

    async def not_reset(self, settings: Mapping[str, Setting]) -> str:
        """Give each setting null, which leaves it at its default."""
        before, failed = await self.all(), list[str]()
        for path, setting in settings.items():
            if not setting.required and ".0" not in path:
                # What it is part of may not have been there: null takes that away again.
                for each in (path, path.partition(".")[0]):
                    given = setting if each == path else Setting(wrong=())
                    answer = await self.api.put(self.path, json=body_of(each, None, given))
                    failed += [f"{path}: {answer.text}"] if answer.is_error else []
        if (after := await self.all()) != before:
            failed.append(f"changed {differences(before, after)}")
        return "\n".join(failed)


@pytest.fixture
def a_topic(api: httpx.AsyncClient, topic: str) -> Edited:
    return Edited(api, "/topics", {"name": topic})


@pytest.fixture
async def a_subscription(api: httpx.AsyncClient, topic: str, a_provider: Edited) -> Edited:
    del a_provider  # for its policy
    body = {"name": "billing", "endpoint": "http://h.test/"}
    collection = f"/topics/{topic}/subscriptions"
    (await api.post(collection, json=body)).raise_for_status()
    # Once it was changed it is ACTIVE, and not PENDING for lack of a worker.
    for text_of_it in ("changed", ""):
        await api.put(f"{collection}/billing", json={"description": text_of_it})
    return Edited(api, collection, body)


@pytest.fixture
async def a_provider(api: httpx.AsyncClient) -> Edited:
    body = {
        "name": "login",
        "tokenEndpoint": "http://h.test/token",
        "clientId": "angelia",
        "clientSecret": "x",
    }
    (await api.post("/oauth/providers", json=body)).raise_for_status()
    return Edited(api, "/oauth/providers", body)


def test_every_setting_of_a_provider_has_its_row() -> None:
    assert set(oauth_settings.PROVIDER) == set(settings_of(OAuthProviderBody)), (
        "each setting has a row in PROVIDER, with values that are refused"
    )


@CHOICES
async def test_a_provider_refuses_what_a_setting_cannot_be_and_says_what_it_can(
    a_provider: Edited, choose: Choose
) -> None:
    assert await a_provider.complaints(oauth_settings.PROVIDER, choose) == ""


async def test_null_is_the_default_of_every_setting_of_a_provider(a_provider: Edited) -> None:
    assert await a_provider.not_reset(oauth_settings.PROVIDER) == ""


def test_every_setting_of_a_topic_has_its_row() -> None:
    assert set(TOPIC) == set(settings_of(TopicBody)), (
        "each setting has a row in TOPIC, with values that are refused"
    )


def test_every_setting_of_a_subscription_has_its_row() -> None:
    assert set(SUBSCRIPTION) == set(settings_of(SubscriptionBody)), (
        "each setting has a row in SUBSCRIPTION, or in POLICY, FETCH, CIRCUIT_BREAKER for theirs,"
        " with values that are refused"
    )


@CHOICES
async def test_a_topic_refuses_what_a_setting_cannot_be_and_says_what_it_can(
    a_topic: Edited, choose: Choose
) -> None:
    assert await a_topic.complaints(TOPIC, choose) == ""


@CHOICES
async def test_a_subscription_refuses_what_a_setting_cannot_be_and_says_what_it_can(
    a_subscription: Edited, choose: Choose
) -> None:
    assert await a_subscription.complaints(SUBSCRIPTION, choose) == ""


async def test_null_is_the_default_of_every_setting_of_a_topic(
    api: httpx.AsyncClient, topic: str
) -> None:
    del topic
    edited = Edited(api, "/topics", {"name": "shop.plain"})
    (await api.post("/topics", json=edited.body)).raise_for_status()
    assert await edited.not_reset(TOPIC) == ""


async def test_null_is_the_default_of_every_setting_of_a_subscription(
    a_subscription: Edited,
) -> None:
    assert await a_subscription.not_reset(SUBSCRIPTION) == ""
