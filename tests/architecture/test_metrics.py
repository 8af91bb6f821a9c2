"""What is said of metrics outside of the code: it names those that exist, and all of them."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cache
from typing import Annotated, Any, Final, Literal

import promql_parser as promql
import pytest
import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.metrics import catalogue
from app.metrics.catalogue import MetricKind
from app.metrics.documented import described
from tests.architecture.tree import ROOT

DEPLOY: Final = ROOT / "deploy"
ALERTS: Final[Any] = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
SCRAPE: Final[Any] = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
DASHBOARD: Final[Any] = json.loads((DEPLOY / "grafana" / "angelia.json").read_text())

# What every scrape adds, and what Prometheus itself says of it.
OF_SCRAPE: Final = frozenset({"job", "instance"})
OWN: Final = {"up": OF_SCRAPE}
# What Grafana puts in place of its variables before it asks.
_FILLED: Final = {"$__rate_interval": "1m", "$group": ".*", "$topic": ".*", "$subscription": ".*"}
_LABEL_VALUES: Final = re.compile(r"label_values\((.+), (\w+)\)")
_SHOWN: Final = re.compile(r"{{ ?(?:\$labels\.)?(\w+) ?}}")


def _query(text: str) -> str:
    promql.parse(text)
    return text


def _duration(text: str) -> timedelta:
    return promql.parse_duration(text)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Annotations(Strict):
    summary: str
    description: str


class Labels(Strict):
    severity: Literal["critical", "warning", "info"]


class Rule(Strict):
    """An alerting rule, with what Prometheus knows of it and we want of it."""

    alert: Annotated[str, Field(pattern=r"^Angelia[A-Z]\w+$")]
    expr: Annotated[str, AfterValidator(_query)]
    for_: Annotated[str, AfterValidator(_duration)] | None = Field(default=None, alias="for")
    labels: Labels
    annotations: Annotations


class Group(Strict):
    name: str
    rules: list[Rule]


class Rules(Strict):
    groups: list[Group]


def rules() -> list[Rule]:
    return [rule for group in Rules.model_validate(ALERTS).groups for rule in group.rules]


def panels() -> list[Mapping[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def filled(query: str) -> str:
    for variable, value in _FILLED.items():
        query = query.replace(variable, value)
    return query


def dashboard_queries() -> Iterator[str]:
    for panel in panels():
        yield from (filled(target["expr"]) for target in panel["targets"])
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            found = _LABEL_VALUES.fullmatch(filled(variable["definition"]))
            assert found, variable["definition"]
            yield f"sum by ({found[2]}) ({found[1]})"


@cache
def labels_of() -> Mapping[str, frozenset[str]]:
    """The labels of each series that a scrape finds, by its name."""
    found = dict(OWN)
    for metric in catalogue.ALL:
        labels = OF_SCRAPE | frozenset(metric.labels)
        if metric.kind is MetricKind.HISTOGRAM:
            found[f"{metric.name}_bucket"] = labels | {"le"}
            found |= {f"{metric.name}_{end}": labels for end in ("sum", "count")}
        else:
            found[metric.name] = labels
    return found


def problems(query: str) -> list[str]:
    """What the query names that is not there."""
    found: list[str] = []
    known: set[str] = set()
    grouped: list[str] = []

    def visit(expr: promql.Expr) -> None:
        if isinstance(expr, promql.VectorSelector):
            series = labels_of().get(expr.name or "")
            if series is None:
                found.append(f"no metric {expr.name}")
                return
            known.update(series)
            matched = {matcher.name for matcher in expr.matchers.matchers}
            found.extend(f"{expr.name} has no label {each}" for each in matched - series)
        elif isinstance(expr, promql.AggregateExpr) and expr.modifier is not None:
            grouped.extend(expr.modifier.labels)

    promql.walk(promql.parse(query), pre_visit=visit)
    return [*found, *(f"nothing has the label {each}" for each in grouped if each not in known)]


@pytest.mark.parametrize("query", sorted(set(dashboard_queries())))
def test_the_dashboard_asks_for_what_exists(query: str) -> None:
    assert problems(query) == []


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.alert)
def test_alerts_ask_for_what_exists(rule: Rule) -> None:
    assert problems(rule.expr) == []


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.alert)
def test_alerts_speak_of_labels_that_their_series_have(rule: Rule) -> None:
    spoken = set(_SHOWN.findall(rule.annotations.summary + rule.annotations.description))
    text = promql.parse(rule.expr).prettify()
    grouped = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", text))))
    # Without a grouping all labels of the series are there.
    left = grouped or set().union(*(labels_of()[n] for n in labels_of() if n in text))
    assert spoken <= left


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("no_such_metric", "no metric no_such_metric"),
        ('up{topic="x"}', "up has no label topic"),
        ("sum by (topic) (angelia_workers)", "nothing has the label topic"),
        ("rate(hermes_frontend_topic_ack_all_latency_seconds[5m])", "no metric hermes_frontend"),
    ],
)
def test_a_query_for_what_does_not_exist_is_found(query: str, problem: str) -> None:
    assert [each for each in problems(query) if each.startswith(problem)]


def test_no_two_alerts_have_one_name() -> None:
    names = [rule.alert for rule in rules()]
    assert len(set(names)) == len(names)


def test_panels_have_titles_units_and_places_of_their_own() -> None:
    assert all(panel["title"] and panel["fieldConfig"]["defaults"]["unit"] for panel in panels())
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for place in (panel["gridPos"],)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_panels_use_the_chosen_data_source_and_known_labels_in_legends() -> None:
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert names == {"datasource", "group", "topic", "subscription"}
    known = frozenset[str]().union(*labels_of().values())
    for panel in panels():
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert set(_SHOWN.findall(target["legendFormat"])) <= known


def test_the_example_scrapes_the_jobs_that_alerts_and_dashboard_speak_of() -> None:
    jobs = {each["job_name"]: each for each in SCRAPE["scrape_configs"]}
    assert set(jobs) == {"angelia-api", "angelia-worker"}
    assert {each["metrics_path"] for each in jobs.values()} == {"/metrics"}
    assert SCRAPE["rule_files"] == ["alerts.yml"]


def test_the_document_has_the_closed_list() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert page.endswith(f"## All metrics\n\n{described()}\n"), (
        "replace all below `## All metrics` in docs/metrics.md by what"
        " `.venv/bin/python -m app.metrics.documented` prints"
    )
