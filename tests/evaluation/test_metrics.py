"""The registry: every metric is listed with what a person needs to know of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rationales
from rationales.errors import OptionError
from rationales.evaluation.metrics import KINDS, METRICS, select_metrics
from rationales.evaluation.studies import STUDIES


def test_every_metric_is_listed_with_one_line():
    listed = rationales.list_metrics()
    assert [metric.name for metric in listed] == list(METRICS)
    for metric in listed:
        assert metric.summary
        assert "\n" not in metric.summary
        assert metric.name == metric.name.lower().replace("_", "-").replace(" ", "-")
        assert metric.kind in KINDS
        assert set(metric.needs) <= {"model", "marks", "boxes", "text", "labels"}
        assert metric.fitted_to in METRICS


def test_the_names_of_the_plan_hold():
    named = {"sufficiency", "comprehensiveness", "log-odds", "deletion", "insertion"}
    assert named | {"token-f1", "iou-f1", "average-precision"} <= set(METRICS)
    down = {name for name, metric in METRICS.items() if metric.higher is False}
    assert down == {"sufficiency", "aopc-sufficiency", "log-odds", "deletion", "roar", "roar-bert"}
    assert {name for name, metric in METRICS.items() if metric.kind == "study"} == set(STUDIES)


def test_what_is_there_decides_what_is_measured():
    assert [metric.name for metric in select_metrics(None, {"model", "text"})] == ["sufficiency", "comprehensiveness"]
    names = [metric.name for metric in select_metrics(None, {"model", "text", "marks"})]
    assert names[:2] == ["sufficiency", "comprehensiveness"]
    assert {"average-precision", "token-f1", "iou-f1", "f1-gold-length"} <= set(names)
    assert "pointing" in [metric.name for metric in select_metrics(None, {"model", "image", "boxes"})]


def test_what_cannot_be_measured_is_told():
    with pytest.raises(OptionError, match="no metric 'f1'; there are: sufficiency"):
        select_metrics(["f1"], {"model"})
    with pytest.raises(OptionError, match=r"token-f1 needs people's marks \(spans\), and these examples have none"):
        select_metrics(["token-f1"], {"model", "text"})
    with pytest.raises(OptionError, match="pointing needs boxes"):
        select_metrics(["pointing"], {"model", "text", "marks"})
    with pytest.raises(OptionError, match="no metric requested"):
        select_metrics([], {"model"})


def test_listing_needs_nothing_heavy():
    code = "import sys, rationales; rationales.list_metrics(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
