import json
import shlex

from app.console.api import Call
from app.console.links import Links
from app.console.rendering import SHOWN_MAX, curl, curl_of_input, has_long_body, pretty, render

HOSTILE = "<script>alert(1)</script>\"' onload=x \u202egnp.exe"


def test_what_others_wrote_is_text_on_a_page() -> None:
    html = render(
        "topic_messages.html",
        {
            "title": HOSTILE,
            "section": "topics",
            "topic": HOSTILE,
            "link": Links("/"),
            "page": type("P", (), {"live": {}}),
            "sections": (),
            "signed_in": False,
            "controlled": False,
            "writable": True,
            "done": HOSTILE,
            "flashes": {},
            "calls": [Call(method="GET", path="/x?y='", body={"a": HOSTILE})],
            "forms": [Call(method="DELETE", path="/x", headers={"if-match": HOSTILE})],
            "api_root": "http://angelia.test",
            "rights": None,
            "messages": [
                {
                    "messageId": HOSTILE,
                    "timestamp": 1,
                    "partition": 0,
                    "offset": 0,
                    "content": HOSTILE,
                    "truncated": False,
                }
            ],
        },
    )
    assert "<script>alert" not in html
    assert "\u202e" not in html
    assert "style=" not in html


def test_a_line_of_a_megabyte_is_cut() -> None:
    assert len(pretty("x" * 1_000_000)) == SHOWN_MAX + 1
    assert len(pretty(json.dumps({"a": "x" * 3000}))) < SHOWN_MAX + 2


def test_json_is_shown_in_lines_and_other_texts_as_they_are() -> None:
    assert pretty('{"a":1}') == '{\n  "a": 1\n}'
    assert pretty("{not json") == "{not json"
    assert pretty("[" * 3000) == "[" * 3000


def test_a_command_has_the_headers_and_sends_no_file() -> None:
    headers = {"content-type": "application/json", "partition-key": "it's"}
    call = Call(method="POST", path="/topics/a", body=b"@/etc/passwd", headers=headers)
    assert curl(call, "http://angelia.test", key=False) == (
        "curl -X POST http://angelia.test/topics/a -H 'Content-Type: application/json'"
        " -H 'Partition-Key: it'\"'\"'s' --data-raw @/etc/passwd"
    )


def test_a_command_has_no_secrets() -> None:
    body = {
        "endpoint": "http://user:secret-1@subscriber.test/",
        "headers": [{"name": "Authorization", "value": "secret-2"}],
        "oAuthPolicy": {"username": "joe", "password": "secret-3"},
        "clientCertificate": {"privateKey": "secret-4", "certificate": "public"},
        "filters": [{"type": "header", "header": "X", "matcher": "a://b:c"}],
    }
    command = curl(Call(method="PUT", path="/x", body=body), "http://angelia.test", key=False)
    assert "secret" not in command
    assert '"endpoint": "http://user:*****@subscriber.test/"' in command
    assert '"matcher": "a://b:c"' in command
    assert '"certificate": "public"' in command


def test_a_command_has_no_password_of_an_endpoint_in_another_spelling() -> None:
    for endpoint, shown in (
        ("http://joe:p@ss@h:8080/?u=a@b", "http://joe:*****@h:8080/?u=a@b"),
        ("https://h:8080?u=a@b", "https://h:8080?u=a@b"),
        ("http://joe:pa\nss@h/", "*****"),
        ("http://joe:pass@[h/", "*****"),
        ("ask joe: a@b", "ask joe: a@b"),
    ):
        command = curl(Call(method="PUT", path="/x", body=endpoint), "http://a.test", key=False)
        assert shlex.split(command)[-1] == json.dumps(shown)


def test_a_command_sends_a_long_body_from_a_file() -> None:
    longest = "x" * (SHOWN_MAX - 2)
    for body in (longest, b"x" * SHOWN_MAX):
        shown = Call(method="PUT", path="/x", body=body)
        assert longest in curl(shown, "http://angelia.test", key=False)
        assert not has_long_body(shown)
    for body in (f"{longest}x", b"x" * (SHOWN_MAX + 1)):
        long = Call(method="PUT", path="/x", body=body)
        assert curl(long, "http://angelia.test", key=False).endswith(" --data-binary @body.json")
        assert has_long_body(long)


def test_a_call_can_be_copied_into_a_shell() -> None:
    call = Call(method="PUT", path="/topics/a", body={"it's": "$(rm)"})
    assert curl(call, "http://angelia.test", key=True) == (
        'curl -X PUT http://angelia.test/topics/a -H "Authorization: Bearer $ANGELIA_API_KEY"'
        " -H 'Content-Type: application/json' -d '{\"it'\"'\"'s\": \"$(rm)\"}'"
    )
    assert curl_of_input(call, "http://a b", key=False) == (
        "curl -X PUT 'http://a b/topics/a' -H 'Content-Type: application/json' -d @-"
    )
