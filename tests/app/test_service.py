"""What the page can do, without a browser: explain, edit, explain a table, download; each visitor alone."""

from __future__ import annotations

import csv
import io
import json
import zipfile

import numpy as np
import pytest
from web_samples import HOSTILE_LABEL, LIMITS, data_url, make_service, png, scene

import rationales
from rationales.app.editing import cell_shape, edited_probabilities, image_keep
from rationales.app.explaining import VisitorRequest
from rationales.app.sessions import VisitorResults, VisitorStore
from rationales.app.views.curve_chart import curve_chart
from rationales.app.views.edit_panel import edit_panel, edited_view
from rationales.app.views.messages import message
from rationales.app.views.result_page import frame, result_page
from rationales.errors import OptionError, RationalesError
from rationales.models.image.reading import Fit

HOSTILE = "\"><script>alert(1)</script>' onload=x & {{value}} ${1}"
TEXT = "A dull and careless film, but the cast is good."


def explained(service, visitor="anna", **request):
    prepared = service.prepare(
        VisitorRequest(**{"model": "embedded", "text": TEXT, "methods": ("occlusion",), **request})
    )
    job = service.start(visitor, prepared)
    assert job.wait(60)
    results = job.outcome()
    service.keep_results(visitor, prepared, results)
    return results


def test_rationales_are_those_of_the_library(service):
    both = explained(service, methods=("occlusion", "saliency"))
    model = rationales.load()
    for result in both:
        alone = rationales.explain(model, TEXT, method=result.method, curve=True)
        np.testing.assert_allclose(result.scores, alone.scores, atol=1e-5)
        assert result.curve is not None


def test_a_method_that_fails_does_not_stop_the_others(service):
    prepared = service.prepare(VisitorRequest("embedded", "Good", methods=("solvex", "occlusion"), steps=None))
    object.__setattr__(prepared, "options", {"solvex": {"passes": 1}})
    job = service.start("anna", prepared)
    assert job.wait(60)
    assert [result.method for result in job.outcome()] == ["occlusion"]
    assert "solvex" in job.problems[0]


def test_an_edit_is_what_the_model_says_of_the_kept_words(service):
    result = explained(service)[0]
    _, as_it_is = service.edit("anna", [])
    assert as_it_is == pytest.approx(result.probabilities["full"], abs=1e-5)
    _, alone = service.edit("anna", np.flatnonzero(~result.selected()).tolist())
    assert alone == pytest.approx(result.probabilities["rationale"], abs=1e-5)
    _, without = service.edit("anna", np.flatnonzero(result.selected()).tolist())
    assert without == pytest.approx(result.probabilities["complement"], abs=1e-5)


@pytest.mark.parametrize("removed", [[-1], [10**9], ["x"], [None]])
def test_parts_that_do_not_exist_are_refused(service, removed):
    explained(service)
    with pytest.raises(OptionError):
        service.edit("anna", removed)


def test_brushing_the_red_square_out_of_an_image_changes_the_class(service):
    result = explained(service, model="red", text="", upload=data_url(png(scene())), methods=("occlusion",))[0]
    assert result.target == "red"
    editable = service.visitors.get("anna").editable
    rows, columns = editable.cells
    left = [row * columns + column for row in range(rows) for column in range(columns // 2)]
    right = [cell for cell in range(rows * columns) if cell not in left]
    assert edited_probabilities(editable, left)["red"] < 0.5 < edited_probabilities(editable, right)["red"]


def test_cells_of_an_image_fall_on_the_pixels_that_the_model_reads():
    import torch

    assert cell_shape(40, 60) == (16, 24)
    assert cell_shape(1, 5000) == (1, 24)
    cells = torch.tensor([[1.0, 0.0]])  # the right half is removed
    squashed = image_keep(cells, Fit("squash", 4, 4), (10, 20)).view(4, 4)
    assert squashed.tolist() == [[1, 1, 0, 0]] * 4
    cropped = image_keep(cells, Fit("crop", 4, 4), (10, 30)).view(4, 4)  # the middle third
    assert cropped.tolist() == [[1, 1, 0, 0]] * 4


@pytest.mark.parametrize(
    "request_fields",
    [
        {"model": "../../etc/passwd"},
        {"model": "bert-base-uncased"},
        {"methods": ("nothing",)},
        {"methods": ()},
        {"methods": ("marc", "occlusion", "saliency", "lime", "random")},
        {"methods": ("grad-cam",)},
        {"target": "no such label"},
        {"text": " "},
        {"text": "a" * 4001},
        {"seed": -1},
        {"steps": 10**9},
        {"model": "red", "upload": ""},
        {"model": "red", "upload": "/etc/passwd"},
        {"model": "red", "upload": "http://127.0.0.1/x.png"},
    ],
)
def test_requests_outside_what_the_server_offers_are_refused(service, request_fields):
    with pytest.raises(RationalesError):
        service.prepare(VisitorRequest(**{"model": "embedded", "text": TEXT, **request_fields}))


def test_visitors_have_their_own_results(service):
    explained(service, "anna")
    assert service.download("anna", "html").content
    with pytest.raises(OptionError, match="nothing to download"):
        service.download("ben", "html")
    with pytest.raises(OptionError, match="nothing to edit"):
        service.edit("ben", [])
    service.forget("anna")
    with pytest.raises(OptionError, match="nothing to download"):
        service.download("anna", "html")


def test_results_are_forgotten_after_a_while_and_when_there_are_many():
    now = 0.0
    store = VisitorStore(2, 10.0, lambda: now)
    kept = VisitorResults(table=("x",))
    for visitor in ("a", "b", "c"):
        store.put(visitor, kept)
    assert [len(store.get(visitor).table) for visitor in ("a", "b", "c")] == [0, 1, 1]
    now = 11.0
    assert store.get("b").table == ()
    assert len(store) == 0


def test_downloads_of_a_text(service):
    comparison = explained(service)
    assert service.download("anna", "html").content == result_page(comparison).encode()
    assert json.loads(service.download("anna", "json").content)["method"] == "occlusion"
    pytest.importorskip("matplotlib")
    assert service.download("anna", "picture").content.startswith(b"<?xml")
    explained(service, methods=("occlusion", "saliency"))
    pictures = zipfile.ZipFile(io.BytesIO(service.download("anna", "picture").content))
    assert pictures.namelist() == ["occlusion.svg", "saliency.svg"]
    assert json.loads(service.download("anna", "json").content)["methods"] == ["occlusion", "saliency"]
    with pytest.raises(OptionError):
        service.download("anna", "../x")


def test_downloads_of_an_image(service):
    for methods in (("occlusion",), ("occlusion", "saliency")):
        explained(service, model="red", text="", upload=data_url(png(scene())), methods=methods)
        assert service.download("anna", "picture").content.startswith(b"\x89PNG")


def test_a_table_is_explained_and_its_formulas_are_harmless(service):
    content = f'text\nA good film.\n=1+1 is a dull film\n"{HOSTILE.replace(chr(34), chr(34) * 2)}"\n'.encode()
    job = service.start_table("anna", "embedded", data_url(content, "t.csv", "text/csv"), "", "saliency")
    assert job.wait(60)
    service.keep_table("anna", job.outcome())
    rows = list(csv.DictReader(io.StringIO(service.download_table("anna", "csv").content.decode())))
    assert [row["row"] for row in rows] == ["row 1", "row 2", "row 3"]
    assert rows[1]["text"].startswith("'=")
    assert len(service.download_table("anna", "jsonl").content.decode().splitlines()) == 3
    assert_escaped(service.download_table("anna", "html").content.decode())


def assert_escaped(content: str) -> None:
    """No markup of the visitor's is left: `<script>alert` and `<img src=x` occur escaped only."""
    assert "<script>alert" not in content
    assert "<img src=x" not in content


def test_texts_and_labels_arrive_escaped(service):
    text_results = explained(service, text=HOSTILE)
    editable = service.visitors.get("anna").editable
    for content in (
        result_page(text_results),
        frame(result_page(text_results), HOSTILE),
        edit_panel(editable, text_results[0]),
        message(HOSTILE),
        curve_chart(text_results[0]),
    ):
        assert_escaped(content)
    image = data_url(png(scene()), "%3Cscript%3Ealert(1)%3C%2Fscript%3E.png")
    image_results = explained(service, model="red", text="", upload=image, target=HOSTILE_LABEL)
    before = image_results[0].probabilities["full"]
    for content in (
        result_page(image_results),
        edited_view(before, before, HOSTILE_LABEL, 0, "cell"),
        curve_chart(image_results[0]),
    ):
        assert_escaped(content)
        assert "onerror=&quot;alert(1)&quot;" in content


def test_the_frame_gives_its_page_no_rights(service):
    content = frame(result_page(explained(service), framed=True), "a title")
    assert 'sandbox="allow-scripts"' in content
    assert content.count("<iframe") == content.count('"></iframe>') == 1


def test_limits_hold_for_a_table():
    served = make_service(LIMITS)
    rows = "text\n" + "a\n" * 6
    with pytest.raises(RationalesError, match="more than 5 rows"):
        served.start_table("anna", "embedded", data_url(rows.encode(), "t.csv", "text/csv"), "", "saliency")
    with pytest.raises(RationalesError, match="reads images"):
        served.start_table("anna", "red", data_url(b"text\na\n", "t.csv", "text/csv"), "", "saliency")
    with pytest.raises(RationalesError, match="cannot explain"):
        served.start_table("anna", "embedded", data_url(b"text\na\n", "t.csv", "text/csv"), "", "grad-cam")
