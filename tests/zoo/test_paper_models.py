"""The scripts that train the papers' models: tokens, masks, compression, figures, and one run of everything."""

from __future__ import annotations

import json
import tarfile
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from families import CORPUS, tiny

import rationales
from rationales.data import Example
from rationales.models import delta as deltas
from rationales.models.delta import read_delta
from rationales.models.text.filler_files import FILLERS, load_filler
from zoo.paper_models import classifiers, report, train
from zoo.paper_models.cloze import Special, cloze_figures
from zoo.paper_models.delta_files import low_rank_change, save_delta, state_of
from zoo.paper_models.excerpts import excerpt, excerpt_files
from zoo.paper_models.fillers import UNSEEN, fresh_filler, mask_tokens, open_filler
from zoo.paper_models.pack import SharedWords
from zoo.paper_models.storage import load_rows, pack_encoder, save_rows, to_device, token_rows, unpack_encoder

SPECIAL = Special(pad=0, cls=2, sep=3, mask=4, vocabulary=50)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A random BERT encoder of six layers and its tokenizer, saved as the MiniLM package saves its own."""
    module, tokenizer = tiny("bert", num_hidden_layers=6, max_position_embeddings=512)
    folder = tmp_path_factory.mktemp("encoder")
    module.bert.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def carry(encoder, tmp_path_factory):
    """What `zoo.paper_models.pack` writes, of our own sentences."""
    folder = tmp_path_factory.mktemp("carry")
    (folder / "tokens").mkdir()
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    rows = tokenizer(CORPUS[:8])["input_ids"]
    pairs = tokenizer(CORPUS[:8], CORPUS[1:9])
    second = [len(types) - sum(types) for types in pairs["token_type_ids"]]
    single = token_rows(rows, label=[0, 1] * 4, group=[0, 0, 1, 1, 2, 2, 3, 3])
    paired = token_rows(pairs["input_ids"], second, [0, 1] * 4, [0, 0, 1, 1, 2, 2, 3, 3])
    singles = "movies-train movies-val movies-test sst2-train sst2-dev sst-dev sst-test short-text esnli-unseen "
    for name in (singles + "passages-text passages-unseen imdb-unseen imdb-text").split():
        save_rows(single, folder / "tokens", name)
    for name in ("esnli-train", "esnli-test", "multirc-train", "multirc-test"):
        save_rows(paired, folder / "tokens", name)
    for name in excerpt_files():
        save_rows(paired, folder / "tokens", name)
    pack_encoder(encoder, folder / "minilm")
    return folder


class TestFiles:
    def test_rows_come_back_as_they_were(self, tmp_path):
        rows = token_rows([[2, 7, 3], [2, 8, 3, 9, 3]], second=[3, 3], label=[1, 0], group=[5, 6])
        save_rows(rows, tmp_path, "rows")
        again = load_rows(tmp_path, "rows")
        for name in ("ids", "bounds", "second", "label", "group"):
            assert np.array_equal(getattr(again, name), getattr(rows, name))
        assert load_rows(tmp_path, "rows", 1).row(0).tolist() == [2, 7, 3]

    def test_the_encoder_travels_in_half_precision(self, encoder, carry, tmp_path):
        before = transformers.AutoModel.from_pretrained(encoder).state_dict()
        folder = unpack_encoder(carry / "minilm", tmp_path / "again")
        after = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).state_dict()
        assert all(torch.equal(after[name], value.half().float()) for name, value in before.items())

    def test_padding_and_pairs_reach_the_model_as_the_tokenizer_makes_them(self, encoder, carry):
        model = classifiers.fresh_classifier(encoder, ("a", "b")).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
        rows = load_rows(carry / "tokens", "esnli-train")
        arguments, label = to_device(rows, torch.device("cpu"), tokenizer.pad_token_id).batch(np.array([3, 0]))
        alone = [model(**tokenizer(CORPUS[i], CORPUS[i + 1], return_tensors="pt")).logits[0] for i in (3, 0)]
        assert torch.allclose(model(**arguments).logits, torch.stack(alone), atol=1e-5)
        assert label.tolist() == [1, 0]

    def test_a_test_sentence_in_another_spelling_is_recognised(self):
        shared = SharedWords(["It does n't work at all , and we 're glad .", "so so"])
        assert shared.repeats("he said it doesn't work at all")
        assert shared.repeats("So, so!")
        assert not shared.repeats("it works very well and we are glad")


class TestCompression:
    def test_all_components_are_the_whole_change_and_few_its_largest(self, encoder, tmp_path):
        model = classifiers.fresh_classifier(encoder, ("a", "b"))
        before = state_of(model)
        query = model.bert.encoder.layer[0].attention.self.query.weight
        with torch.no_grad():
            query += 3 * torch.outer(torch.ones(32), torch.ones(32)) / 32 + 0.01 * torch.randn(32, 32)
            model.classifier.bias += 1
        after = state_of(model)
        name = "bert.encoder.layer.0.attention.self.query.weight"
        for rank, tolerance in ((32, 1e-5), (1, 0.06)):
            delta = low_rank_change(before, after, rank)
            assert delta.keys() == {f"{name}.up", f"{name}.down", "classifier.bias"}
            assert torch.allclose(
                before[name] + delta[f"{name}.up"] @ delta[f"{name}.down"], after[name], atol=tolerance
            )

    def test_8_bits_are_off_by_half_a_step_at_most(self, tmp_path):
        generator = torch.Generator().manual_seed(0)
        up, down = torch.randn(300, 16, generator=generator), torch.randn(16, 400, generator=generator)
        config = transformers.BertConfig(architectures=["BertForMaskedLM"])
        size = save_delta(tmp_path, {"w.up": up, "w.down": down, "b": torch.ones(3)}, config)
        stored = read_delta(tmp_path / "delta.safetensors")
        assert ((stored["w.up"] - up).abs() <= up.abs().amax(0) / 127 * 0.5001).all()
        assert ((stored["w.down"] - down).abs() <= down.abs().amax(1, keepdim=True) / 127 * 0.5001).all()
        assert size < 1.2 * (up.numel() + down.numel())


class TestMasking:
    def test_a_share_of_the_words_is_hidden_and_never_a_special_token(self):
        ids = torch.tensor([[2, *range(10, 20), 3], [2, 10, 3, *[0] * 9]])
        masked = mask_tokens(ids, SPECIAL, 0.3)
        hidden = masked.ids == SPECIAL.mask
        assert hidden.sum(1).tolist() == [3, 1]  # 0.3 of ten; one at least
        assert not (hidden & ~SPECIAL.maskable(ids)).any()
        assert torch.equal(torch.where(hidden, ids, masked.ids), ids)
        assert torch.equal(masked.target, ids.gather(1, masked.position))
        assert masked.weight.sum(1).tolist() == [3, 1]

    def test_a_fresh_change_leaves_the_encoder_as_it_is(self, encoder):
        model = fresh_filler(encoder, 3).eval()
        ids = torch.tensor([[2, 9, 8, 7, 3]])
        before = model.bert(ids).last_hidden_state
        open_filler(model)
        assert torch.allclose(model.bert(ids).last_hidden_state, before, atol=1e-6)
        frozen = model.bert.embeddings.word_embeddings.weight
        assert not frozen.requires_grad
        assert model.cls.predictions.decoder.weight is frozen


class TestFigures:
    def test_the_cloze_figures_are_those_of_one_word_at_a_time(self, encoder, carry):
        tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
        special = Special.of(tokenizer)
        torch.manual_seed(1)
        model = fresh_filler(encoder, 2).eval()
        rows = load_rows(carry / "tokens", "sst-test", 3)
        losses, ranks = [], []
        for i in range(3):
            for position in range(1, len(rows.row(i)) - 1):
                ids = torch.tensor(rows.row(i).astype(np.int64))[None]
                target = int(ids[0, position])
                ids[0, position] = special.mask
                logits = model(ids).logits[0, position]
                losses.append(-float(logits.detach().log_softmax(0)[target]))
                ranks.append(int((logits > logits[target]).sum()))
        figures = cloze_figures(model, rows, special, limit=10_000)
        assert figures["tokens"] == len(losses)
        assert figures["cross-entropy"] == pytest.approx(np.mean(losses), rel=1e-4)
        assert figures["top-1"] == pytest.approx(np.mean(np.array(ranks) == 0))
        assert figures["top-10"] == pytest.approx(np.mean(np.array(ranks) < 10))

    def test_a_review_is_judged_by_the_mean_of_its_segments(self):
        class FirstToken(torch.nn.Module):
            """Probability of class 1: the second token divided by ten."""

            def __init__(self):
                super().__init__()
                self.config = SimpleNamespace(num_labels=2)
                self.unused = torch.nn.Parameter(torch.zeros(1))

            def forward(self, input_ids, **_):
                share = input_ids[:, 1].float() / 10
                return SimpleNamespace(logits=torch.stack([1 - share, share], 1).log())

        rows = token_rows([[2, 9, 3], [2, 4, 3, 3], [2, 2, 3], [2, 2, 3]], label=[1, 1, 0, 0], group=[0, 0, 1, 1])
        probability, label = classifiers.text_probabilities(FirstToken(), rows, 0, segmented=True)
        assert probability[:, 1].tolist() == pytest.approx([0.65, 0.2])
        assert label.tolist() == [1, 0]
        assert classifiers.accuracy(FirstToken(), rows, 0, segmented=True) == 1.0
        assert classifiers.accuracy(FirstToken(), rows, 0, segmented=False) == 0.75

    def test_a_group_is_for_training_or_for_validation(self):
        rows = token_rows([[2, 3]] * 40, group=[i // 4 for i in range(40)])
        training, validation = classifiers.split_groups(rows, 0.2, np.random.default_rng(0))
        assert (len(training), len(validation)) == (32, 8)
        assert not set(training.group) & set(validation.group)

    def test_a_classifier_is_confirmed_on_groups_that_it_was_not_chosen_by(self):
        class ByLength(torch.nn.Module):
            """Class 1 for the texts whose second token is even."""

            def __init__(self):
                super().__init__()
                self.config = SimpleNamespace(num_labels=2)
                self.unused = torch.nn.Parameter(torch.zeros(1))

            def forward(self, input_ids, **_):
                even = (input_ids[:, 1] % 2 == 0).float()
                return SimpleNamespace(logits=torch.stack([1 - even, even], 1))

        label = [0, 0, 1] * 8
        groups = [i // 3 for i in range(24)]
        rows = token_rows([[2, 6 if value else 5, 3] for value in label], label=label, group=groups)
        figures = classifiers.confirmation(ByLength(), rows, frequent_label=0, pad=0)
        assert (figures["accuracy"], figures["most frequent label"]) == (1.0, pytest.approx(2 / 3))
        assert figures["p"] == pytest.approx(2 / 2**8)  # eight groups differ in the same direction
        assert figures["significant"]
        constant = token_rows([[2, 5, 3]] * 24, label=label, group=groups)
        assert not classifiers.confirmation(ByLength(), constant, frequent_label=0, pad=0)["significant"]

    def test_a_classifier_that_is_not_confirmed_is_not_stored(self, carry, encoder, tmp_path, monkeypatch):
        monkeypatch.setattr(classifiers, "confirmation", lambda *_: {"significant": False, "p": 0.5})
        task = classifiers.Task(
            "minilm-multirc", ("false", "true"), "multirc-train", ("multirc-test",),
            (classifiers.Setting(1e-4, 1, 2),), confirmed=True,
        )  # fmt: skip
        item = train.Item(task.name, "classifiers", partial(classifiers.train_classifier, task))
        results = train.run([item], carry, encoder, tmp_path, tmp_path, minutes=1, seed=0, tiny=False)
        assert "test accuracy" not in results["minilm-multirc"]
        assert results["minilm-multirc"]["confirmation"] == {"multirc-test": {"significant": False, "p": 0.5}}
        assert not (tmp_path / "classifiers.tar").exists()
        assert "not stored" in train.table(results)

    def test_excerpts_of_training_passages_alone_are_learned_first(self, carry, encoder, tmp_path, monkeypatch):
        fits = []

        def record(_model, epochs, *_):
            fits.append([set(rows.group.tolist()) for rows in epochs])
            return [0.5]

        monkeypatch.setattr(classifiers, "fit", record)
        monkeypatch.setattr(classifiers, "confirmation", lambda *_: {"significant": False})
        task = classifiers.Task(
            "minilm-multirc", ("false", "true"), "multirc-train", ("multirc-test",),
            (classifiers.Setting(1e-4, 2, 2, excerpts=excerpt_files()[:2]),), confirmed=True,
        )  # fmt: skip
        classifiers.train_classifier(task, carry, encoder, tmp_path, torch.device("cpu"), minutes=1, seed=0)
        ((*of_excerpts, groups, groups_again),) = fits
        assert of_excerpts == [groups, groups]
        assert groups == groups_again < {0, 1, 2, 3}

    def test_an_excerpt_has_the_marked_sentences_and_as_many_others_in_their_order(self):
        text = "One.\nTwo.\nThree.\nFour."
        example = Example("0", text, "true", ((0, 4), (11, 15)), pair="Which? || Two")
        rng = np.random.default_rng(0)
        assert excerpt(example, 0, rng).text == "One.\nThree."
        assert {excerpt(example, 1, rng).text for _ in range(20)} == {"One.\nTwo.\nThree.", "One.\nThree.\nFour."}
        assert excerpt(example, 5, rng).text == text
        assert excerpt(example, 5, rng).pair == example.pair

    def test_training_starts_from_the_encoder_of_another_classifier(self, encoder, tmp_path):
        torch.manual_seed(0)
        source = classifiers.fresh_classifier(encoder, ("a", "b", "c"))
        initial = state_of(source)
        with torch.no_grad():
            source.bert.encoder.layer[0].output.dense.bias += 1.0
        save_delta(tmp_path / "source", low_rank_change(initial, state_of(source), 2) | classifiers.head_of(source),
                   source.config)  # fmt: skip
        model = classifiers.fresh_classifier(encoder, ("a", "b"))
        head = model.classifier.weight.clone()
        classifiers.start_from(model, tmp_path / "source", encoder)
        change = model.bert.encoder.layer[0].output.dense.bias - initial["bert.encoder.layer.0.output.dense.bias"]
        assert torch.allclose(change, torch.ones_like(change), atol=1e-3)
        assert torch.equal(model.classifier.weight, head)


@pytest.fixture(scope="module")
def trip(carry, tmp_path_factory):
    """Everything trained for a few steps; one item fails on purpose."""
    work = tmp_path_factory.mktemp("work")
    encoder = unpack_encoder(carry / "minilm", work / "minilm")
    (work / "models").mkdir()
    (work / "out").mkdir()

    def fail(*_):
        raise RuntimeError("no memory")

    items = train.items()
    items.insert(2, train.Item("minilm-movies", "classifiers", fail))
    results = train.run(items, carry, encoder, work / "models", work / "out", minutes=5, seed=0, tiny=True)
    return work / "out", results, encoder


class TestTrip:
    def test_a_failure_loses_no_other_model(self, trip):
        out, results, _ = trip
        assert json.loads((out / "results.json").read_text()).keys() == results.keys()
        assert [name for name, figures in results.items() if "error" in figures] == ["minilm-movies"]
        with tarfile.open(out / "classifiers.tar") as classifier_file, tarfile.open(out / "fillers.tar") as filler_file:
            assert {"minilm-sst2", "minilm-esnli", "minilm-multirc"} <= set(classifier_file.getnames())
            assert {f"{name}/delta.safetensors" for name in FILLERS} <= set(filler_file.getnames())
        assert "FAILED: RuntimeError: no memory" in train.table(results)

    def test_what_was_trained_loads_by_name(self, trip, tmp_path, monkeypatch):
        out, _, encoder = trip
        for archive in ("classifiers", "fillers"):
            with tarfile.open(out / f"{archive}.tar") as file:
                file.extractall(tmp_path, filter="data")
        monkeypatch.setattr(deltas, "DELTA_FOLDER", tmp_path)
        monkeypatch.setattr(deltas, "encoder_folder", lambda: encoder)
        assert rationales.load("minilm-sst2").labels == ("negative", "positive")
        model = rationales.load("minilm-esnli")
        assert model.labels == ("entailment", "neutral", "contradiction")
        explained = rationales.explain(model, (CORPUS[0], CORPUS[1]), method="saliency")
        assert len(explained.scores) == len(explained.units)
        assert load_filler("minilm-filler-sst2")[0].config.delta_base == "minilm-filler"
        assert len(load_filler("minilm-filler-small")[0].bert.encoder.layer) == 3

    def test_the_report_has_a_row_for_every_test_and_text(self, trip):
        _, results, _ = trip
        classifier_rows = report.classifier_table([results["minilm-sst2"], results["minilm-esnli"]]).splitlines()
        tests = [row.split("|")[5].split()[0] for row in classifier_rows[2:]]
        assert tests == ["sst2-dev", "sst-dev", "sst-test", "esnli-test"]
        filler_rows = report.filler_table([results[name] for name in FILLERS]).splitlines()
        assert len(filler_rows) == 2 + len(FILLERS) * len(UNSEEN)
        assert all(row.count("|") == 8 for row in filler_rows)
