"""deploy/: the dashboard and the alert rules speak of metrics and labels that there are, and show every one of them."""

import json
import re
from pathlib import Path

import pytest
import yaml

from octavo.server.metrics import FAMILIES

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
ALERTS = yaml.safe_load((DEPLOY / "prometheus-alerts.yml").read_text(encoding="utf-8"))
SHOWN = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
#: What Prometheus adds to each sample.
EVERYWHERE = {"instance", "job"}


def family_of(name):
    """The family of a name in an expression; a histogram is asked for by its parts."""
    family = FAMILIES.get(name)
    if family is not None:
        return family if family.kind != "histogram" else None
    part = FAMILIES.get(re.sub(r"_(bucket|count|sum)$", "", name))
    return part if part is not None and part.kind == "histogram" else None


@pytest.mark.parametrize("expression", [*SHOWN, *(rule["expr"] for rule in RULES)])
def test_every_expression_speaks_of_what_there_is(expression):
    names = re.findall(r"\bocta\w+", re.sub(r'"[^"]*"', '""', expression))
    assert names or expression.startswith("up{")
    labels = set(EVERYWHERE)
    for name in names:
        family = family_of(name)
        assert family is not None, name
        labels |= {*family.labels, *(["le"] if name.endswith("_bucket") else [])}
    used = set(re.findall(r'(\w+)=~?"', expression))
    used |= {
        word.strip()
        for listed in re.findall(r"(?:by|on) \(([^)]*)\)", expression)
        for word in listed.split(",")
    }
    assert used <= labels
    for name in re.findall(r"(?:rate|increase)\((octavo_\w+)", expression):  # of what only grows
        assert family_of(name).kind in ("counter", "histogram")


def test_the_dashboard_shows_every_metric():
    asked = {family_of(name).name for expression in SHOWN for name in re.findall(r"\boctavo_\w+", expression)}
    assert asked == set(FAMILIES)


def test_legends_and_summaries_name_labels_that_are_left():
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            kept = {
                word.strip()
                for one in re.findall(r"by \(([^)]*)\)", target["expr"])
                for word in one.split(",")
            }
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, panel["title"]
    for rule in RULES:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= {"instance", "index"}


def test_panels_do_not_overlap():
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len(places) == len({panel["id"] for panel in DASHBOARD["panels"]})
