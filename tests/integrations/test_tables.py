"""Rationales in tables: a DataFrame, a data set, and the artefacts of an MLflow run."""

from __future__ import annotations

import json

import pytest

import rationales
from rationales.errors import OptionError
from rationales.integrations.mlflow import log_rationales, mean_drops
from rationales.integrations.tables import dataset_columns, explain_frame, rationale_columns

TEXTS = ["The old bridge", "Nobody came"]


def model():
    return rationales.load(lambda texts: [0.9 if "bridge" in text else 0.2 for text in texts], labels=["no", "yes"])


def test_columns_are_plain_values_that_json_can_hold():
    columns = rationale_columns(rationales.explain(model(), TEXTS, method="loo-empty", top=1, target="yes"))
    assert json.loads(json.dumps(columns)) == columns
    assert columns["rationale"][0] == "bridge"
    assert columns["rationale_spans"][0] == [[8, 14]]
    assert columns["rationale_words"][0] == ["The", "old", "bridge"]
    assert columns["rationale_probability"] == [0.9, 0.2]
    assert columns["rationale_without"][0] == pytest.approx(0.2)


def test_a_function_for_map_returns_the_columns_of_a_batch():
    columns = dataset_columns(model(), column="body", prefix="why", method="loo-empty", top=1)
    assert columns({"body": TEXTS, "id": [1, 2]})["why"][0] == "bridge"
    with pytest.raises(OptionError, match="batched=True"):
        columns({"body": TEXTS[0]})
    with pytest.raises(OptionError, match="no column 'body'"):
        columns({"text": TEXTS})


def test_a_data_set_gets_the_columns():
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    mapped = datasets.Dataset.from_dict({"text": TEXTS}).map(
        dataset_columns(model(), method="loo-empty", top=1), batched=True, new_fingerprint="rationales"
    )
    assert mapped[0]["rationale"] == "bridge"
    assert mapped.column_names[0] == "text"


def test_a_frame_gets_the_columns_and_keeps_its_own():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"text": TEXTS, "id": [7, 8]}, index=["a", "b"])
    explained = explain_frame(model(), frame, method="loo-empty", top=1)
    assert list(explained.index) == ["a", "b"]
    assert explained.loc["a", "rationale"] == "bridge"
    assert list(frame.columns) == ["text", "id"]
    with pytest.raises(OptionError, match="already"):
        explain_frame(model(), explained)


def test_means_by_hand():
    """Full .9 and .2; alone .9 and .2; without .2 and .2; one word of three, one of two."""
    means = mean_drops(rationales.explain(model(), TEXTS, method="loo-empty", top=1, target="yes"))
    assert means == pytest.approx(
        {"rationale.sufficiency": 0.0, "rationale.comprehensiveness": 0.35, "rationale.share": (1 / 3 + 1 / 2) / 2}
    )


def test_a_run_gets_the_page_the_record_and_the_metrics(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database needs more than mlflow-skinny
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        means = log_rationales(rationales.explain(model(), TEXTS, method="loo-empty", top=1))
    logged = mlflow.get_run(run.info.run_id).data
    assert logged.metrics == pytest.approx(means)
    files = {path.name for path in tmp_path.rglob("rationales/*")}
    assert files == {"index.html", "record.jsonl"}


def test_without_mlflow_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mlflow", None)
    with pytest.raises(OptionError, match="pip install mlflow"):
        log_rationales(rationales.explain(model(), TEXTS, method="loo-empty"))
