"""Results are read back as rationales, found by id, and summarised on a page."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter

import numpy as np
import pytest
from commands import error
from commands import run as command
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

import pyarrow.parquet as parquet
from runs import rows, run, small_model, texts, write_table

import rationales
from rationales.corpus import open_results
from rationales.corpus.row_format import GRID_SIDE, cell_means, shortened
from rationales.corpus.summary.page import write_report
from rationales.corpus.summary.statistics import (
    SPURIOUS_LIFT,
    MethodStatistics,
    WordCounts,
    _excerpt,
    _suspicion,
    spurious_words,
    statistics_of,
    top_words,
)
from rationales.errors import DataError, InputError


@pytest.fixture
def results(tmp_path):
    run(write_table(tmp_path / "t.csv", 12), tmp_path / "out", methods=["occlusion", "random"])
    return open_results(tmp_path / "out")


def test_rationales_come_back(results):
    fresh = rationales.explain(small_model(), texts(12), method="occlusion")
    for stored, rationale in zip(results.rationales("occlusion"), fresh, strict=True):
        np.testing.assert_allclose(stored.scores, rationale.scores, rtol=2**-11, atol=1e-7)
        assert [(unit.text, unit.start, unit.end) for unit in stored.units] == [
            (unit.text, unit.start, unit.end) for unit in rationale.units
        ]
        assert stored.selected().tolist() == rationale.selected().tolist()
        for name, by_label in rationale.probabilities.items():
            assert stored.probabilities[name] == pytest.approx(by_label, abs=1e-5)
        assert (stored.target, stored.method, stored.rule) == (rationale.target, rationale.method, rationale.rule)
        assert stored.options == rationale.options
        assert stored.notes == rationale.notes


def test_pairs_come_back(tmp_path):
    (tmp_path / "t.csv").write_text("text,pair\nall that bread,warm soup\n", encoding="utf-8")
    run(tmp_path / "t.csv", tmp_path / "out")
    (stored,) = open_results(tmp_path / "out").rationales()
    assert [(unit.text, unit.text_index) for unit in stored.units] == [
        ("all", 0), ("that", 0), ("bread", 0), ("warm", 1), ("soup", 1)]  # fmt: skip


def test_a_record_is_found_by_id_and_by_position(results):
    assert [rationale.method for rationale in results.record("r7")] == ["occlusion", "random"]
    assert results.record("#7")[0].text == results.record("r7")[0].text == texts(12)[7]
    with pytest.raises(InputError, match="no record 'r99'"):
        results.record("r99")


def test_equal_ids_are_all_found(tmp_path):
    (tmp_path / "t.csv").write_text("id,text\n" + "".join(f"{n % 3},text {n}\n" for n in range(9)), encoding="utf-8")
    run(tmp_path / "t.csv", tmp_path / "out", methods=["random", "occlusion"])
    results = open_results(tmp_path / "out")
    assert results.positions("1") == [1, 4, 7]
    assert results.positions("#1") == results.positions("9") == []
    records = list(results.records({7, 2, 99}))
    assert [(position, [rationale.text for rationale in methods]) for position, methods in records] == [
        (2, ["text 2", "text 2"]),
        (7, ["text 7", "text 7"]),
    ]


def test_a_failed_record_is_named_by_its_id_before_any_position(tmp_path):
    lines = ['{"id": 7, "text": "bread"}', "no JSON", '{"id": 1, "text": ""}', '{"id": 2, "text": 5}']
    (tmp_path / "table.jsonl").write_text("\n".join(lines), encoding="utf-8")
    run(tmp_path / "table.jsonl", tmp_path / "out")
    failed = open_results(tmp_path / "out")
    for identifier, reason in (("1", "empty"), ("2", "not-text"), ("#1", "broken-row"), ("#2", "empty")):
        with pytest.raises(InputError, match=f"{identifier} was not explained .{reason}"):
            failed.record(identifier)
    with pytest.raises(InputError, match="no record '3'"):  # the record at position 3 has another id
        failed.record("3")


def test_provenance_stands_once_in_each_shard(results):
    (path, *_) = sorted((results.folder / "shards").glob("*.parquet"))
    provenance = json.loads(parquet.ParquetFile(path).metadata.metadata[b"rationales"])
    assert provenance["model"]["labels"] == ["negative", "positive"]
    assert [method["name"] for method in provenance["methods"]] == ["occlusion", "random"]
    assert {"torch", "rationales", "pyarrow"} <= provenance["versions"].keys()
    assert provenance["shard"] == 0


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_shortened_scores_keep_eleven_bits(values):
    scores = np.asarray(values, dtype=np.float32)
    short = shortened(scores)
    assert np.isfinite(short).all()
    normal = np.abs(scores) >= np.finfo(np.float32).tiny
    largest = np.abs(short) < 3.4e38
    assert not (short.view(np.uint32)[largest] & 0x1FFF).any()
    exact = scores.astype(np.float64)
    assert (np.abs(short - exact)[normal] <= 2.0**-11 * np.abs(exact)[normal]).all()


def test_a_word_takes_less_than_eight_bytes(tmp_path):
    """Scores, positions and spans of texts of a hundred words; the text itself is counted too."""
    long_texts = [" ".join(text.split() * 25)[:600] for text in texts(64)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in long_texts))
    result = run(tmp_path / "t.jsonl", tmp_path / "out", shard_size=512)
    assert result.bytes / result.units < 8


def test_cells_of_an_image_are_means():
    image = np.arange(130 * 70, dtype=np.float32).reshape(130, 70)
    cells = cell_means(image)
    assert max(cells.shape) <= GRID_SIDE
    assert cells.shape == (44, 24)  # cells of 3 x 3 pixels, smaller ones at the end
    assert cells[0, 0] == image[:3, :3].mean()
    assert cells[-1, -1] == image[129:, 69:].mean()


class TestStatistics:
    def test_the_interval_of_a_rate(self):
        """Wilson 1927 with z = 1.96: for 8 of 10 from 0.4901 to 0.9433."""
        assert WordCounts(10, 8).lower_bound() == pytest.approx(0.4901, abs=2e-4)
        assert WordCounts(0, 0).lower_bound() == 0
        assert WordCounts(1, 1).lower_bound() < WordCounts(20, 19).lower_bound()

    def test_counts(self, results):
        statistics = statistics_of(results.rows())
        entry = statistics["occlusion"]
        assert entry.rows == 12
        assert sum(entry.targets.values()) == sum(entry.histograms["certainty"]) == 12
        expected = Counter(word for text in texts(12) for word in text.split())
        assert {word: counts.occurrences for word, counts in entry.all_words().items()} == expected
        selected = sum(int(rationale.selected().sum()) for rationale in results.rationales("occlusion"))
        assert sum(counts.selected for counts in entry.all_words().values()) == selected
        certainties = [record["p_full"] for record in entry.most_certain.listed()]
        assert certainties == sorted(certainties, reverse=True)

    @pytest.mark.parametrize(("word", "suspects"), [("bread", []), ("Bread", [("bread", "name")])])
    def test_the_word_that_decides_leads_and_is_suspicious_if_it_is_a_name(self, tmp_path, word, suspects):
        """The model looks for 'bread' and for nothing else, whatever its case."""
        rng = np.random.default_rng(0)
        fillers = ["sea", "hill", "door", "song", "lamp", "heart", "cup", "film", "owl"]
        lines = [" ".join([*rng.permutation(fillers)[:5], word, *rng.permutation(fillers)[:6]]) for _ in range(40)]
        (tmp_path / "t.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
        run(tmp_path / "t.jsonl", tmp_path / "out", methods=["occlusion"], options={"window": 1})
        statistics = statistics_of(open_results(tmp_path / "out").rows())["occlusion"]
        assert top_words(statistics.words["positive"])[0][0] == "bread"
        assert [(word, why) for _, word, _, why in spurious_words(statistics)] == suspects

    def test_markup_is_one_word(self):
        """Each thing that is selected in part counts once, as selected; its parts are no words."""
        text = 'See https://a.org/x<br /><BR>of&nbsp;it <a href="b">here</a>, www.b.org or &#39;br'
        units = [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]
        selected = [number for number, (start, _) in enumerate(units) if text.startswith(("/>", "nbsp"), start)]
        row = {
            "position": 7,
            "id": "a",
            "location": "line 1",
            "target": "t",
            "image": None,
            "notes": [],
            "pair": None,
            **dict.fromkeys(("p_full", "p_rationale", "p_complement"), 0.5),
            "selected": 2,
            "units": len(units),
            "text": text,
            "text_units": len(units),
            "starts": [start for start, _ in units],
            "lengths": [end - start for start, end in units],
            "spans": [{"first": number, "last": number} for number in selected],
        }
        statistics = MethodStatistics()
        statistics.add(row)
        words = statistics.words["t"]
        assert words.keys() == {
            *("see", "https://…", "<br />", "<br>", "of", "&nbsp;", "it", "<a …>", "here", "</a>", ",", "www.…", "or"),
            *("&#39;", "br"),
        }
        assert {word for word, counts in words.items() if counts.selected} == {"<br />", "&nbsp;"}
        assert words["<br />"].examples == (7,)
        assert statistics.totals["t"].occurrences == 15
        for word in ("https://…", "<br />", "<br>", "&nbsp;", "<a …>", "</a>", "www.…", "&#39;", "br", "nbsp", "http"):
            assert _suspicion(word, WordCounts()) == "mark-up or address"

    def test_a_word_keeps_the_first_records_in_which_it_is_selected(self, results):
        entry = statistics_of(results.rows())["occlusion"]
        for word, counts in entry.all_words().items():
            positions = [
                int(rationale.name[1:])
                for rationale in results.rationales("occlusion")
                if word in {rationale.units[number].text for number in np.flatnonzero(rationale.selected())}
            ]
            assert list(counts.examples) == positions[:3]

    def test_rare_words_are_dropped_where_there_are_too_many(self, results, monkeypatch):
        monkeypatch.setattr("rationales.corpus.summary.statistics.MAX_WORDS", 6)
        entry = statistics_of(results.rows())["occlusion"]
        assert entry.dropped_words
        assert sum(map(len, entry.words.values())) <= 6


@pytest.mark.parametrize(
    ("text", "excerpt"),
    [("short  and\nsweet", "short and sweet"), ("word " * 40, "word " * 23 + "word …"), ("x" * 200, "x" * 120 + " …")],
    ids=["short", "words", "one word"],
)
def test_an_excerpt_ends_between_words(text, excerpt):
    assert _excerpt(text) == excerpt


def test_the_page_escapes_everything_and_its_links_exist(tmp_path):
    evil = "<script>alert(1)</script> bread & \"quotes\" are 'here'"
    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "text"), *[("<img src=x>", evil)] * 8, ("empty", "")])
    run(tmp_path / "t.csv", tmp_path / "out", methods=["occlusion"])
    index = write_report(open_results(tmp_path / "out"))
    page = index.read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;img src=x&gt;" in page
    links = set(re.findall(r'href="([^"]+)"', page))
    assert len(links) == 8
    assert "&lt;img src=x&gt; #3" in page, "equal ids are shown with their positions"
    assert all((index.parent / link).is_file() for link in links)
    assert "1 × empty" in page


class TestReport:
    @pytest.fixture
    def folder(self, tmp_path):
        """Twenty texts that the word 'bread' decides."""
        lines = [f"the {'bread' if number % 2 else 'sea'} was warm and calm that day" for number in range(20)]
        (tmp_path / "t.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
        run(tmp_path / "t.jsonl", tmp_path / "out", methods=["occlusion"], options={"window": 1}, seed=3, limit=19)
        return tmp_path / "out"

    def test_words_link_to_records_in_which_they_decide(self, folder):
        index = write_report(open_results(folder))
        row, *_ = re.findall(r"<bdi>bread</bdi>.*?</tr>", index.read_text(encoding="utf-8"))
        assert re.findall(r'href="(.*?)">#(\d+)<', row) == [(f"records/{n}.html", str(n)) for n in (1, 3, 5)]
        assert "bread" in (index.parent / "records" / "3.html").read_text(encoding="utf-8")

    def test_provenance(self, folder):
        page = write_report(open_results(folder)).read_text(encoding="utf-8")
        assert re.search(r">method occlusion</th>.*?window=1\b", page)
        assert re.search(r'>seed</th><td class="words">3<', page)
        assert "limit=19" in page
        assert "t.jsonl, line 1 to" in page
        assert "torch=" in page
        assert "Function words of English" in page
        assert f"more than {SPURIOUS_LIFT:g} times that of all words" in page

    def test_pages_that_are_no_longer_listed_are_removed(self, folder):
        index = write_report(open_results(folder))
        pages = {path.name for path in (index.parent / "records").iterdir()}
        (index.parent / "records" / "99.html").write_text("of an earlier report")
        (index.parent / "records" / "notes.html").write_text("not of a report")
        write_report(open_results(folder))
        assert {path.name for path in (index.parent / "records").iterdir()} == pages | {"notes.html"}

    def test_a_restart_removes_the_old_report(self, folder):
        index = write_report(open_results(folder))
        run(folder.parent / "t.jsonl", folder, restart=True)
        assert not index.exists()
        assert not list((folder / "report" / "records").iterdir())


class TestCommands:
    def test_run_show_and_report(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        write_table(tmp_path / "t.csv", 6)
        arguments = ("run", "t.csv", "--out", "out", "--methods", "random", "--shard-size", "4")
        done = command(*arguments, "--json", "--log", "log.jsonl")
        assert done.exit_code == 0, done.output
        summary = json.loads(done.stdout)
        assert (summary["records"], summary["explained"], summary["shards"]) == (6, 6, 2)
        assert "6 records (100%)" in done.stderr
        events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
        assert [(event["event"], event.get("records")) for event in events] == [
            ("start", None), ("shard", 4), ("shard", 6), ("end", 6)]  # fmt: skip
        assert "nothing was to be done" in command(*arguments).stdout
        printed = command("show", "out", "r2").stdout
        assert texts(6)[2] in re.sub(r"\[\[|\]\]", "", printed)
        assert "0.0 s" not in printed, "the time is not stored"
        assert json.loads(command("show", "out", "#2", "--json").stdout)["name"] == "r2"
        assert command("report", "out").exit_code == 0
        assert (tmp_path / "out" / "report" / "index.html").is_file()
        assert "another run" in error(command(*arguments, "--seed", "3"))
        assert "no record" in error(command("show", "out", "r77"))

    def test_failed_records_have_an_exit_code_of_their_own(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "t.csv").write_text("text\ngood\n   \n", encoding="utf-8")
        done = command("run", "t.csv", "--out", "out", "--methods", "random")
        assert done.exit_code == 3
        assert "2 records: 1 explained, 1 failed, 0 skipped" in done.stdout
        assert "failed: 1 empty" in done.stdout

    def test_equal_ids_are_told(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "t.csv").write_text("id,text\na,one\nb,two\na,three\n", encoding="utf-8")
        command("run", "t.csv", "--out", "out", "--methods", "random")
        note = "note: 2 records have the id a; this is '#0', others are '#2'\n"
        assert note in command("show", "out", "a").stderr
        assert "note: 2 records" not in command("show", "out", "b").stderr + command("show", "out", "#2").stderr

    def test_an_interrupted_run_says_that_it_goes_on(self, tmp_path, monkeypatch):
        def interrupt(*_arguments, **_options):
            raise KeyboardInterrupt

        monkeypatch.setattr("rationales.corpus.run", interrupt)
        done = command("run", write_table(tmp_path / "t.csv"), "--out", tmp_path / "out")
        assert done.exit_code == 130
        assert "interrupted; finished shards are stored, and the same command goes on from there" in done.stderr

    def test_a_file_in_place_of_the_folder(self, tmp_path):
        path = write_table(tmp_path / "t.csv")
        for arguments in (("show", path, "1"), ("report", path)):
            assert error(command(*arguments)) == f"{path} is a file; give the folder of a corpus run"

    def test_a_manifest_that_cannot_be_read(self, tmp_path):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "manifest.json").write_text("{")
        assert "restart" not in error(command("show", tmp_path / "out", "1"))
        options = ("--out", tmp_path / "out", "--methods", "random")
        assert "--restart" in error(command("run", write_table(tmp_path / "t.csv", 2), *options))

    def test_a_shape_and_tokens(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        write_table(tmp_path / "t.csv", 2)
        done = command("run", "t.csv", "--out", "out", "--methods", "saliency:shape=clauses,random", "--shape", "none")
        assert done.exit_code == 0, done.output
        assert re.search(r"records, [\d,]+ scores and [\d,]+ tokens a second", done.stdout)
        methods = open_results("out").provenance["methods"]
        assert [method["options"]["shape"] for method in methods] == ["clauses", "none"]

    def test_lines_are_piped_in(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        done = command("run", "-", "--out", "out", "--methods", "random", stdin="first text\nsecond text\n")
        assert done.exit_code == 0, done.output
        assert [row["text"] for row in rows(tmp_path / "out")] == ["first text", "second text"]

    def test_a_folder_without_results(self, tmp_path):
        assert "holds no results" in error(command("show", tmp_path, "1"))
        with pytest.raises(DataError, match="holds no results"):
            open_results(tmp_path)
