"""The Helm chart: what it says, and (in the long tests) what Helm makes of it."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml

from app.config import Settings
from app.main import SHUTDOWN_S
from tests.architecture.test_metrics import problems
from tests.architecture.tree import ROOT
from tests.servers.helm import CHART, rendered, run
from workers.assignment.supervisor import LAST_COMMIT_TIMEOUT, LAST_REQUEST_TIMEOUT
from workers.main import LAST_TRACES_MAX

EVERYTHING: Final = CHART / "ci" / "everything-values.yaml"
VALUES: Final[Mapping[str, Any]] = yaml.safe_load((CHART / "values.yaml").read_text())
# The oldest that the chart takes, and the newest whose schemas are known here.
VERSIONS: Final = ("1.25.0", "1.37.0")
# Of operators, whose schemas are not among Kubernetes' own.
FOREIGN: Final = frozenset({"ScaledObject", "ServiceMonitor"})
READY: Final = "/status/ready"
A_DAY_S: Final = 86_400
USER: Final = 10001  # of the images
OURS: Final = frozenset({"api", "worker", "migrate", "spark"})
SETTINGS: Final = frozenset(f"ANGELIA_{field}".upper() for field in Settings.model_fields)


def everything(kubernetes: str = VERSIONS[-1]) -> list[dict[str, Any]]:
    return list(rendered("--values", EVERYTHING, kubernetes=kubernetes))


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for each in everything():
        if "template" in each["spec"]:
            yield (
                each["metadata"]["labels"]["app.kubernetes.io/component"],
                each["spec"]["template"],
            )


def test_the_chart_has_the_version_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (project["version"], project["version"])


@pytest.mark.parametrize("file", [CHART / "values.yaml", EVERYTHING], ids=lambda file: file.name)
def test_the_settings_of_values_exist(file: Path) -> None:
    values = yaml.safe_load(file.read_text())
    assert values["settings"].keys() | values["secrets"].keys() <= SETTINGS


def test_a_worker_has_the_time_that_it_takes_to_stop() -> None:
    takes = LAST_REQUEST_TIMEOUT + LAST_COMMIT_TIMEOUT + LAST_TRACES_MAX
    assert VALUES["worker"]["terminationGracePeriodSeconds"] > takes.total_seconds() + 5


@pytest.mark.long
@pytest.mark.parametrize("values", [CHART / "values.yaml", EVERYTHING], ids=lambda file: file.name)
def test_helm_finds_no_fault(values: Path) -> None:
    run("lint", "--strict", CHART, "--kube-version", VERSIONS[-1], "--values", values)


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_what_it_makes_has_the_form_that_kubernetes_wants(version: str) -> None:
    made = [*rendered(kubernetes=version), *everything(version)]
    assert {each["kind"] for each in made} >= FOREIGN | {"Deployment", "Job", "NetworkPolicy"}
    for each in made:
        if each["kind"] not in FOREIGN:
            kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.long
def test_every_pod_runs_without_rights_on_a_root_that_nobody_writes_to() -> None:
    found = dict(pods())
    assert found.keys() == OURS
    for template in found.values():
        assert template["spec"]["securityContext"]["runAsUser"] == USER
        assert template["spec"]["automountServiceAccountToken"] is False
        (container,) = template["spec"]["containers"]
        assert container["securityContext"] == {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.long
def test_every_process_gets_its_secrets_by_reference() -> None:
    for _, template in pods():
        (container,) = template["spec"]["containers"]
        by_name = {each["name"]: each for each in container["env"]}
        assert len(by_name) == len(container["env"])
        assert by_name["ANGELIA_CONNECTIONS_MAX"]["value"] == "1000000"
        assert by_name.keys() <= SETTINGS
        secret = by_name["ANGELIA_DATABASE_URL"]["valueFrom"]["secretKeyRef"]
        assert secret == {"name": "angelia", "key": "database-url"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "instead"),
    [("ANGELIA_PORT", "service.port"), ("ANGELIA_SPARK_MEMORY", "spark.memory")],
)
def test_settings_of_the_chart_itself_are_refused_with_what_is_right(
    name: str, instead: str
) -> None:
    with pytest.raises(CalledProcessError) as refused:
        list(rendered("--set", f"settings.{name}=1", kubernetes=VERSIONS[-1]))
    assert f"The chart sets {name} itself" in refused.value.stderr
    assert instead in refused.value.stderr


@pytest.mark.long
def test_a_budget_has_one_of_both_keys() -> None:
    for made in (everything(), list(rendered(kubernetes=VERSIONS[-1]))):
        budgets = [each["spec"] for each in made if each["kind"] == "PodDisruptionBudget"]
        assert [len(each) for each in budgets] == [2, 2]  # with whose pods


@pytest.mark.long
def test_files_of_secrets_are_read_by_the_group_alone() -> None:
    for _, template in pods():
        modes = [each["secret"]["defaultMode"] for each in template["spec"]["volumes"]
                 if "secret" in each]  # fmt: skip
        assert modes == [0o440]
        assert template["spec"]["securityContext"]["fsGroup"] == USER


@pytest.mark.long
@pytest.mark.parametrize(("master", "has_one"), [("local[2]", True), ("spark://spark:7077", False)])
def test_a_driver_that_executors_call_has_no_policy(master: str, *, has_one: bool) -> None:
    given = ("--values", EVERYTHING, "--set", f"settings.ANGELIA_SPARK_MASTER={master}")
    policies = [
        each["metadata"]["labels"]["app.kubernetes.io/component"]
        for each in rendered(*given, kubernetes=VERSIONS[-1])
        if each["kind"] == "NetworkPolicy"
    ]
    assert ("spark" in policies) is has_one


@pytest.mark.long
def test_new_pods_wait_for_what_does_not_answer_and_are_not_killed() -> None:
    (api,), (worker,) = (dict(pods())[part]["spec"]["containers"] for part in ("api", "worker"))
    started = api["startupProbe"]
    assert started["httpGet"]["path"] == worker["readinessProbe"]["httpGet"]["path"] == READY
    assert started["periodSeconds"] * started["failureThreshold"] >= A_DAY_S
    for probe in (api["livenessProbe"], worker["livenessProbe"], worker["startupProbe"]):
        assert probe["httpGet"]["path"] == "/status/ping"


@pytest.mark.long
def test_services_budgets_and_policies_choose_the_pods_of_their_part() -> None:
    labels = {name: template["metadata"]["labels"] for name, template in pods()}
    for each in everything():
        spec = each["spec"]
        chosen = spec.get("podSelector") or spec.get("selector")
        if each["kind"] in {"NetworkPolicy", "PodDisruptionBudget", "Service", "Deployment"}:
            part = each["metadata"]["labels"]["app.kubernetes.io/component"]
            assert chosen.get("matchLabels", chosen) == labels[part]


@pytest.mark.long
def test_the_api_ends_before_it_is_killed() -> None:
    spec = dict(pods())["api"]["spec"]
    (_, waits) = spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert spec["terminationGracePeriodSeconds"] > int(waits) + SHUTDOWN_S


@pytest.mark.long
def test_workers_are_scaled_by_a_metric_that_exists() -> None:
    (scaled,) = (each for each in everything() if each["kind"] == "ScaledObject")
    assert problems(scaled["spec"]["triggers"][0]["metadata"]["query"]) == []
