"""docker-compose.yml and Dockerfile, read as Docker reads them: no Docker is needed for it."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jsonschema_rs
import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema

from app.config import Settings
from tests.architecture.tree import ROOT

COMPOSE: Final[Mapping[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: Final[Mapping[str, Mapping[str, Any]]] = COMPOSE["services"]
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text()
STAGES: Final = re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE)
BASES: Final = set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE))


OURS: Final = ("migrate", "api", "worker", "spark")
# Of each service that is not always started.
PROFILES: Final[Mapping[str, Sequence[str]]] = {
    "kafka": ["kafka"],
    "prometheus": ["monitoring"],
    "grafana": ["monitoring"],
}
DEPLOY: Final = ROOT / "deploy"


def read(name: str) -> Any:  # noqa: ANN401 - YAML is of any type
    return yaml.safe_load((DEPLOY / name).read_text())


def test_compose_starts_the_parts_of_the_service() -> None:
    assert set(SERVICES) == {"postgres", *OURS, *PROFILES}
    assert {
        name: each["profiles"] for name, each in SERVICES.items() if "profiles" in each
    } == PROFILES


def test_compose_has_the_form_of_the_compose_specification() -> None:
    jsonschema_rs.validate(get_builtin_schema("vendor.compose-spec"), COMPOSE)


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_is_pinned_to_a_version(name: str) -> None:
    assert re.search(r":v?\d+(\.\d+)+$", SERVICES[name]["image"])


@pytest.mark.parametrize("name", OURS)
def test_an_image_of_ours_has_the_version_of_the_project(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert SERVICES[name]["image"].endswith(f":{project['version']}")


@pytest.mark.parametrize("name", SERVICES)
def test_settings_are_ones_that_exist(name: str) -> None:
    ours = {key for key in SERVICES[name].get("environment", {}) if key.startswith("ANGELIA_")}
    assert ours <= {f"ANGELIA_{field}".upper() for field in Settings.model_fields}


@pytest.mark.parametrize("name", OURS)
def test_settings_of_our_processes_can_be_read(name: str) -> None:
    given = {
        key.removeprefix("ANGELIA_").lower(): re.sub(r"\$\{\w+:-(\w*)\}", r"\1", value)
        for key, value in SERVICES[name]["environment"].items()
    }
    settings = Settings.model_validate(given)
    assert not settings.embedded_database
    assert settings.embedded_log
    broker = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")[0]
    address = broker.removeprefix("INTERNAL://")
    assert f"ANGELIA_KAFKA_BOOTSTRAP={address}" in (ROOT / "docker-compose.yml").read_text()


@pytest.mark.parametrize("name", OURS)
def test_our_processes_write_nothing_but_what_is_in_memory_or_a_volume(name: str) -> None:
    assert SERVICES[name]["read_only"]
    assert SERVICES[name]["tmpfs"] == ["/tmp:exec,mode=1777"]  # noqa: S108 - of a container


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_waits_for_what_can_be_waited_for(name: str) -> None:
    needs = SERVICES[name].get("depends_on", {})
    for needed, how in needs.items() if isinstance(needs, dict) else ():
        assert how.get("required", True) is (needed not in PROFILES)
        if how["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[needed]
        else:
            assert how["condition"] == "service_completed_successfully"
            assert SERVICES[needed]["restart"] == "no"


@pytest.mark.parametrize("name", ["api", "worker", "spark"])
def test_a_process_starts_on_a_migrated_database(name: str) -> None:
    assert SERVICES[name]["depends_on"]["migrate"] == {
        "condition": "service_completed_successfully"
    }


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_open_to_this_machine_alone(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


def test_volumes_that_are_used_are_declared() -> None:
    used = {
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
    }
    files = {place for place in used if place.startswith("./")}
    assert used - files == set(COMPOSE["volumes"])
    assert all((ROOT / place).is_file() for place in files)


def test_prometheus_scrapes_our_processes_as_the_jobs_of_the_alert_rules() -> None:
    ours, example = read("compose/prometheus.yml"), read("prometheus/prometheus.yml")
    assert ours["rule_files"] == example["rule_files"]
    scraped = {each["job_name"]: each for each in ours["scrape_configs"]}
    assert set(scraped) == {each["job_name"] for each in example["scrape_configs"]}
    targets = {name: each["static_configs"][0]["targets"] for name, each in scraped.items()}
    worker = SERVICES["worker"]["environment"]["ANGELIA_WORKER_ADDRESS"].rpartition(":")[2]
    api = SERVICES["api"]["ports"][0].rpartition(":")[2]
    assert targets == {"angelia-api": [f"api:{api}"], "angelia-worker": [f"worker:{worker}"]}
    (secret,) = SERVICES["prometheus"]["secrets"]
    key = scraped["angelia-api"]["authorization"]["credentials_file"]
    assert (secret in COMPOSE["secrets"], key) == (True, f"/run/secrets/{secret}")


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    (source,) = read("compose/grafana-datasource.yml")["datasources"]
    port = SERVICES["prometheus"]["ports"][0].rpartition(":")[2]
    assert source["url"] == f"http://prometheus:{port}"
    (provider,) = read("compose/grafana-dashboards.yml")["providers"]
    mounted = [volume.split(":")[1] for volume in SERVICES["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/angelia.json" in mounted


def test_the_image_copies_what_exists_and_is_let_through() -> None:
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
        for name in line.split()
    ]
    let_through = (ROOT / ".dockerignore").read_text().splitlines()
    assert copied
    assert all((ROOT / name).exists() and f"!{name}" in let_through for name in copied)


def test_the_image_has_a_version_a_user_and_a_health_check() -> None:
    assert BASES - set(STAGES) == {"python:3.11-slim-bookworm"}
    assert re.search(r"^USER (?!root\b)\w+$", DOCKERFILE, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK .*CMD", DOCKERFILE, re.MULTILINE)
    assert "--require-hashes" in DOCKERFILE


@pytest.mark.parametrize("name", OURS)
def test_a_process_is_built_from_a_stage_of_the_image_that_can_run_it(name: str) -> None:
    target = SERVICES[name]["build"]["target"]
    assert target == ("spark" if name == "spark" else "service")
    assert target in STAGES


def test_stages_copy_from_stages_before_them() -> None:
    seen: set[str] = set()
    for line in DOCKERFILE.splitlines():
        if named := re.fullmatch(r"FROM \S+ AS (\S+)", line):
            seen.add(named[1])
        elif source := re.match(r"COPY --from=(\S+)", line):
            assert source[1] in seen
    # What is built when no stage is named.
    assert STAGES[-1] == "service"


def test_only_the_image_for_spark_has_java_and_pyspark() -> None:
    stages = dict(
        zip(STAGES, re.split(r"^FROM .+$", DOCKERFILE, flags=re.MULTILINE)[1:], strict=True)
    )
    assert {name for name, text in stages.items() if "-jre-headless" in text} == {"spark"}
    assert {name for name, text in stages.items() if "requirements-spark.lock" in text} == {
        "pyspark"
    }
    assert "--from=pyspark" in stages["spark"]
    assert "--from=pyspark" not in stages["service"]
