"""Which jars Spark is told to bring."""

import tempfile
from pathlib import Path

import pyspark
import pytest

from app.config import Settings
from spark.connectors import HADOOP, KAFKA, MSK_IAM, MSK_IAM_WITHOUT, S3, S3_WITHOUT, connectors

ON_S3 = {"spark_output": "s3a://bucket/results"}
ON_KAFKA = {"kafka_bootstrap": "localhost:9092"}
ON_MSK = ON_KAFKA | {
    "kafka_security_protocol": "SASL_SSL",
    "kafka_sasl_mechanism": "OAUTHBEARER",
    "kafka_oauth_provider": "aws-msk-iam",
    "kafka_oauth_aws_region": "eu-west-1",
}


@pytest.mark.parametrize(
    ("given", "packages"),
    [
        ({}, []),
        ({"spark_output": "/s3a:/results"}, []),
        (ON_KAFKA, [KAFKA]),
        (ON_S3, list(S3)),
        (ON_S3 | ON_KAFKA, [KAFKA, *S3]),
    ],
)
def test_connectors_are_fetched_for_what_is_configured_alone(
    given: dict[str, str], packages: list[str]
) -> None:
    found = dict(connectors(Settings.model_validate(given)))
    assert found.pop("spark.jars.packages", "").split(",") == (packages or [""])
    # Of S3's, not all of Amazon's services.
    excluded = {"spark.jars.excludes": ",".join(S3_WITHOUT)} if "spark_output" in given else {}
    assert found == (excluded if packages[-1:] == [S3[-1]] else {})


def test_amazons_login_is_fetched_for_tokens_that_are_signed() -> None:
    assert connectors(Settings.model_validate(ON_MSK)) == {
        "spark.jars.packages": f"{KAFKA},{MSK_IAM}",
        "spark.jars.excludes": ",".join(MSK_IAM_WITHOUT),
    }
    both = connectors(Settings.model_validate(ON_MSK | ON_S3))
    assert both["spark.jars.packages"].split(",") == [KAFKA, MSK_IAM, *S3]
    excluded = both["spark.jars.excludes"].split(",")
    assert sorted(excluded) == sorted({*MSK_IAM_WITHOUT, *S3_WITHOUT})


def test_connectors_are_fetched_to_a_folder_of_ours_where_the_home_is_read_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = Settings.model_validate(ON_KAFKA)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert connectors(settings) == {"spark.jars.packages": KAFKA}
    # As nobody can write to.
    monkeypatch.setenv("HOME", str(tmp_path / "missing"))
    folder = Path(connectors(settings)["spark.jars.ivy"])
    mode = folder.stat().st_mode & 0o777
    folder.rmdir()
    assert (folder.parent, mode) == (Path(tempfile.gettempdir()), 0o700)


def test_connectors_in_a_folder_are_taken_from_there(tmp_path: Path) -> None:
    for name in ("b.jar", "a.jar", "read.me"):
        (tmp_path / name).touch()
    folder = {"spark_jars": str(tmp_path)}
    assert connectors(Settings.model_validate(folder)) == {}
    found = connectors(Settings.model_validate(folder | ON_S3))
    assert found == {"spark.jars": f"{tmp_path}/a.jar,{tmp_path}/b.jar"}


def test_the_connector_for_s3_is_of_the_hadoop_that_pyspark_has() -> None:
    jars = Path(pyspark.__path__[0]) / "jars"
    assert [each.name for each in jars.glob("hadoop-client-api-*.jar")] == [
        f"hadoop-client-api-{HADOOP}.jar"
    ]
