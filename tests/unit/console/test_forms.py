from app.console.api import ApiRefusedError, FieldError
from app.console.diffs import Difference, changed_lines, differences
from app.console.edits import more_problems, with_more
from app.console.forms import Field, SentForm, body_of, json_object, numbers, problems_in, whole

FIELDS = (
    Field(path="name", label="Name"),
    Field(path="policy.rate", label="Rate", kind="number", read=whole),
    Field(path="policy.retries", label="Retries", kind="number", read=whole, optional=True),
    Field(path="codes", label="Codes", read=numbers),
    Field(path="on", label="On", kind="check"),
    Field(path="more", label="More", kind="area", read=json_object, optional=True),
)


def test_a_form_becomes_the_json_that_the_api_takes() -> None:
    form = SentForm(
        [
            ("name", " billing "),
            ("policy.rate", "40"),
            ("policy.retries", ""),
            ("codes", "408, 409"),
            ("on", "on"),
            ("more", '{"a": 1}'),
        ]
    )
    assert body_of(FIELDS, form) == {
        "name": "billing",
        "policy": {"rate": 40, "retries": None},
        "codes": [408, 409],
        "on": True,
        "more": {"a": 1},
    }


def test_what_is_no_number_goes_to_the_api_as_it_is() -> None:
    form = SentForm([("policy.rate", "many"), ("codes", "4xx")])
    body = body_of(FIELDS, form)
    assert body["policy"]["rate"] == "many"
    assert body["codes"] == ["4xx"]
    assert body["on"] is False


def test_each_error_is_at_its_field_and_the_others_above() -> None:
    error = ApiRefusedError(
        400,
        "wrong",
        details=[
            FieldError("policy.rate", "must be 1 to 9"),
            FieldError("codes.0", "must be 400 to 599"),
            FieldError("other", "is not known"),
        ],
    )
    problems = problems_in(error, [each.path for each in FIELDS])
    assert problems.at("policy.rate") == ["must be 1 to 9"]
    assert problems.at("codes") == ["0 must be 400 to 599"]
    assert problems.others == ["other is not known"]
    assert problems.at("name") == ()


def test_an_error_without_fields_is_above_the_form() -> None:
    problems = problems_in(ApiRefusedError(400, "It exists"), ["name"])
    assert problems.others == ["It exists"]


def test_the_differences_are_those_that_a_reader_made() -> None:
    before = {"a": 1, "policy": {"rate": 4, "ttl": 5}, "modifiedAt": 1.0}
    after = {"a": 1, "policy": {"rate": 9, "ttl": 5}, "modifiedAt": 2.0, "letter": "x"}
    assert differences(before, after) == [
        Difference("letter", None, "x"),
        Difference("policy.rate", 4, 9),
    ]


def test_a_change_of_tracing_is_a_difference() -> None:
    before, after = {"trackingEnabled": False}, {"trackingEnabled": True}
    assert differences(before, after) == [Difference("trackingEnabled", before=False, after=True)]


def test_changed_lines_have_what_is_around_them() -> None:
    before = "\n".join("abcdefgh")
    after = before.replace("e", "E")
    assert [tuple(each) for each in changed_lines(before, after)] == [
        (" ", "c"),
        (" ", "d"),
        ("-", "e"),
        ("+", "E"),
        (" ", "f"),
        (" ", "g"),
    ]
    assert changed_lines(before, before) == []
    assert changed_lines("a\n" * 2_000, "b") == ()


def test_other_settings_must_be_a_json_object() -> None:
    assert more_problems(SentForm([("more", "[1]")])).at("more") == ["must be a JSON object"]
    assert not more_problems(SentForm([("more", ' {"a": 1} ')]))
    assert not more_problems(SentForm([("more", "  ")]))
    assert with_more({"a": 1, "more": {"b": 2}}) == {"a": 1, "b": 2}
