"""Settings that have a form are refused when they have another."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.config import Settings
from app.secret_files import SecretFile


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("namespace", "a b!"),
        ("schema_subject_suffix", "a b!"),
        ("namespace", "x" * 31),
        ("spark_memory", "x1gz"),
        ("spark_memory", "0g"),
        # It would be shown with what opens it.
        ("spark_output", "s3a://key:secret@bucket/results"),
        ("spark_output", "s3a://key:se/cret@bucket/results"),
        ("spark_output", "s3a://key:123/cret@bucket/results"),
        ("spark_output", "s3a://bucket/results?k=a@b"),
        ("spark_output", "s3a://key:secret/results"),
        # Browsers never send such origins, so they would allow nothing.
        ("cors_origins", "https://a.example/,https://b.example"),
        ("cors_origins", "https://a.example,abc"),
        ("cors_origins", "b.example"),
        ("cors_origins", "https://b.example/app"),
        ("cors_origins", "https://B.example"),
        ("cors_origins", "https://b.example:x"),
        ("cors_origins", "https://b@c.example"),
        *(
            ("worker_address", text)
            for text in ("localhost", ":9", "host:", "h:123456", "h:65536", "h:port")
        ),
    ],
)
def test_what_does_not_have_the_form_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValidationError, match=name):
        Settings.model_validate({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("namespace", ""),
        ("namespace", "prod_eu.1-"),
        ("spark_memory", "512m"),
        ("spark_output", "s3a://bucket/results"),
        ("spark_output", "/srv/a@b"),
        ("spark_output", "file:///srv/results"),
        ("spark_output", "hdfs://namenode:8020/results"),
        ("spark_output", "hdfs://[::1]:8020/results"),
        ("worker_address", "0.0.0.0:9400"),
        ("worker_address", "[::1]:0"),
        ("cors_origins", ("*", "https://a.example:8443", "http://[::1]:80", "app://a")),
    ],
)
def test_what_has_it_is_taken(name: str, value: str) -> None:
    assert getattr(Settings.model_validate({name: value}), name) == value


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"database_password": "p"}, ["database_password"]),
        ({"database_password": SecretFile(Path(__file__))}, ["database_password_file"]),
        ({"database_direct_url": "postgresql://h/d"}, ["database_direct_url"]),
        (
            {"database_password": "p", "database_direct_url": "postgresql://h/d"},
            ["database_password", "database_direct_url"],
        ),
        ({"database_password": "", "database_url": ""}, []),
        ({"database_password": "p", "database_url": "postgresql://h/d"}, []),
    ],
)
def test_settings_of_a_database_that_is_not_named_are_refused(
    given: dict[str, object], names: list[str]
) -> None:
    """They would be without effect, and a process would start the embedded database."""
    assert [name for name, message in problems(given) if "has no use" in message] == names


def problems(given: dict[str, object]) -> list[tuple[str, str]]:
    try:
        Settings.model_validate(given)
    except ValidationError as error:
        return [(str(each["loc"][0]), each["msg"]) for each in error.errors()]
    return []
