"""What the settings of OAuth providers, and of the policies of subscriptions, cannot be."""

from tests.integration.api.fields.wrong_values import (
    NO_STRINGS,
    Setting,
    choice,
    lists,
    number,
    objects,
    text,
    words,
    wrong,
)

PLAIN_NAME = wrong("1 to 100 letters", "", "a b", "a/b", ".", "..", "x" * 101, "a\0")
LOGIN = {"providerName": "login"}
BY_USER = LOGIN | {"grantType": "password", "username": "me", "password": "x"}
POLICY: dict[str, Setting] = {
    "grantType": Setting(
        wrong=choice("clientCredentials", "password", "usernamePassword"), beside=LOGIN
    ),
    "providerName": Setting(
        wrong=[
            *wrong("must be a string", *NO_STRINGS),
            *PLAIN_NAME,
            *wrong("an OAuth provider that exists", "none"),
        ],
        required=True,
    ),
    "scope": Setting(
        wrong=words("printable ASCII", " ", "a  b", 'a"b', "a\\b", "ż", "a\0", "x" * 1001),
        beside=LOGIN,
    ),
    "username": Setting(
        wrong=[
            *words("1 to 1000 printable", "", "a\nb", "a\0", "x" * 1001),
        ],
        beside=BY_USER,
        required=True,
    ),
    "password": Setting(
        wrong=[
            *words("1 to 4096 printable", "", "a\nb", "a\0", "x" * 4097),
            *wrong("masked", "******", "*****"),
        ],
        beside=BY_USER,
        required=True,
    ),
}

PROVIDER: dict[str, Setting] = {
    "name": Setting(wrong=[*wrong("must be a string", *NO_STRINGS), *PLAIN_NAME], required=True),
    "tokenEndpoint": Setting(
        wrong=[
            *words("http://", "", "ftp://h.test/", "h.test", "/token"),
            *wrong("with a host", "http:///x", "http://h.test/ x", "http://ż.test/", "http://h/\0"),
            *wrong("fragment", "http://h.test/#a", "http://u:p@h.test/", "http://u@h.test/"),
            *wrong("port from 1", "http://h.test:0/", "http://h%41.test/"),
            *wrong("at most 2000", "http://h.test/" + "x" * 2000),
            *wrong("is not a URI", "http://h.test:x/", "http://[::1/"),
        ],
        required=True,
    ),
    "clientId": Setting(
        wrong=words("1 to 1000 printable ASCII", "", "ż", "a\0", "x" * 1001), required=True
    ),
    "clientSecret": Setting(
        wrong=words("1 to 4096 printable", "", "a\nb", "a\0", "x" * 4097), required=True
    ),
    "tokenEndpointAuthMethod": Setting(
        wrong=choice("client_secret_post", "client_secret_basic")[1:]
    ),
    "tokenRequestInitialDelay": Setting(wrong=number(0, 3_600_000)),
    "tokenRequestMaxDelay": Setting(wrong=number(0, 3_600_000)),
    "requestTimeout": Setting(wrong=number(100, 60_000)),
    "socketTimeout": Setting(wrong=number(0, 60_000)),
    "owners": Setting(wrong=lists(100, {"id": "x"})),
    "owners.0": Setting(wrong=objects(), required=True),
    "owners.0.source": Setting(wrong=text(1, 256), beside={"id": "x"}),
    "owners.0.id": Setting(wrong=text(1, 256)),
    "endpointHosts": Setting(wrong=lists(100, "h.test")),
    "endpointHosts.0": Setting(
        wrong=words(
            "must be a host such as",
            *("", "*", "*.", "http://h.test", "h.test/x", "h.test:80", "a..b", "ż.test", "h\0"),
            "x" * 254,
        ),
        required=True,
    ),
    "scopes": Setting(wrong=lists(100, "x")),
    "scopes.0": Setting(
        wrong=words("must be one name", "", "a b", 'a"b', "a\\b", "ż", "a\0", "x" * 1001),
        required=True,
    ),
}
