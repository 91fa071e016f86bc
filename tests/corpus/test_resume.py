"""A run goes on where it was stopped, whatever stopped it, and ends with the bytes of an undisturbed run."""

from __future__ import annotations

import copy
import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from reviews import known_model
from runs import content, rows, run, texts, write_table

import rationales
from rationales import corpus
from rationales.corpus.engines import local
from rationales.corpus.engines.engine import WorkerOptions
from rationales.corpus.manifest import ShardEntry
from rationales.corpus.progress import ProgressMeter
from rationales.corpus.records import BadRecord
from rationales.corpus.settings import ChangedRunError
from rationales.corpus.shards import Shard
from rationales.errors import RationalesError
from rationales.models.text.fingerprint import tokenizer_digest

DRIVER = Path(__file__).with_name("kill_driver.py")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path / "table.csv", 20)


def killed_runs(table: Path, out: Path, moments: list[str]) -> list[dict]:
    command = [sys.executable, str(DRIVER), str(table), str(out), *moments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_kills(table: Path, tmp_path: Path, moments: list[str]) -> None:
    undisturbed = tmp_path / "undisturbed"
    corpus.run(table, undisturbed, model=rationales.load(), methods=["random"], shard_size=4)
    reports = killed_runs(table, tmp_path / "killed", moments)
    assert [report["status"] for report in reports] == [-signal.SIGKILL] * len(moments) + [0]
    recorded: set[int] = set()
    for report in reports:
        assert not recorded & set(report["finished"]), "a finished shard was explained again"
        assert recorded <= set(report["recorded"]), "a finished shard was lost"
        recorded = set(report["recorded"])
    assert content(tmp_path / "killed") == content(undisturbed)


def test_killed_at_each_of_the_first_system_calls_of_a_shard(table, tmp_path):
    """Between the calls of one shard: its file, its folder, the manifest, its folder."""
    check_kills(table, tmp_path, ["1", "2", "3", "4", "5", "6", "7"])


@pytest.mark.slow
def test_killed_at_ten_random_system_calls(tmp_path):
    rng = random.Random(0)  # noqa: S311
    check_kills(write_table(tmp_path / "long.csv", 100), tmp_path, [str(rng.randint(1, 12)) for _ in range(10)])


@pytest.mark.slow
def test_killed_after_ten_random_times(tmp_path):
    """The times are short and the corpus is long, so that every run is killed before its end."""
    rng = random.Random(1)  # noqa: S311
    moments = [f"{rng.uniform(0.01, 0.3):.3f}s" for _ in range(10)]
    check_kills(write_table(tmp_path / "long.csv", 1200), tmp_path, moments)


@pytest.mark.slow
def test_killed_from_outside_while_workers_explain(tmp_path):
    table = write_table(tmp_path / "table.csv", 60)
    options = ["--methods", "random", "--shard-size", "4"]
    command = [sys.executable, "-m", "rationales", "run", str(table), "--out", str(tmp_path / "out"), *options]
    process = subprocess.Popen([*command, "--workers", "2"], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("out/shards/*.parquet"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.wait()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    corpus.run(table, tmp_path / "undisturbed", methods=["random"], shard_size=4)
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")


def test_a_finished_run_is_not_repeated(table, tmp_path):
    first = run(table, tmp_path / "out")
    before = content(tmp_path / "out")
    again = run(table, tmp_path / "out")
    assert (first.shards_now, again.shards_now) == (5, 0)
    assert (first.records, first.explained, again.records) == (20, 20, 20)
    assert content(tmp_path / "out") == before


def test_an_exception_of_a_callback_stops_the_run_and_loses_nothing(table, tmp_path):
    def stop(entry):
        if entry.index == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(table, tmp_path / "out", on_shard=stop)
    assert len(list((tmp_path / "out" / "shards").glob("*.parquet"))) == 4
    assert run(table, tmp_path / "out").shards_now == 1
    run(table, tmp_path / "undisturbed")
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"x"), Path.unlink], ids=["overwritten", "removed"])
def test_a_damaged_shard_is_explained_again(table, tmp_path, damage):
    run(table, tmp_path / "out")
    before = content(tmp_path / "out")
    damage(tmp_path / "out" / "shards" / "000003.parquet")
    assert run(table, tmp_path / "out").shards_now == 1
    assert content(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"methods": ["occlusion"]}, "random"),
        ({"seed": 1}, "seed"),
        ({"shard_size": 5}, "shard_size"),
        ({"limit": 8}, "limit"),
        ({"threads": 2}, "threads"),
        ({"where": ["lang=en"]}, "where"),
    ],
    ids=lambda value: str(value),
)
def test_changed_options_are_refused(table, tmp_path, options, named):
    run(table, tmp_path / "out")
    before = content(tmp_path / "out")
    with pytest.raises(ChangedRunError, match=named):
        run(table, tmp_path / "out", **options)
    assert content(tmp_path / "out") == before
    assert run(table, tmp_path / "out", restart=True, **options).shards_now > 0


def test_a_restart_that_cannot_begin_removes_nothing(table, tmp_path):
    run(table, tmp_path / "out")
    before = content(tmp_path / "out")
    with pytest.raises(RationalesError, match="no-such-model"):
        run(table, tmp_path / "out", restart=True, model=str(tmp_path / "no-such-model"))
    assert content(tmp_path / "out") == before


def test_a_changed_model_is_refused(table, tmp_path):
    run(table, tmp_path / "out")
    with pytest.raises(ChangedRunError, match=r"model\.fingerprint"):
        run(table, tmp_path / "out", model=rationales.load())


def test_a_changed_tokenizer_is_refused(table, tmp_path):
    """The weights are the same, but the tokenizer reads 'sea' where 'bread' stands."""
    from tokenizers import normalizers

    module, tokenizer = known_model()
    changed = copy.deepcopy(tokenizer)
    changed.backend_tokenizer.normalizer = normalizers.Replace("bread", "sea")
    run(table, tmp_path / "out", model=rationales.load(module, tokenizer))
    tokenizer(["a text", "a longer text"], padding=True, truncation=True, max_length=8)  # no change of the tokenizer
    run(table, tmp_path / "out", model=rationales.load(module, tokenizer))
    with pytest.raises(ChangedRunError, match=r"model\.tokenizer"):
        run(table, tmp_path / "out", model=rationales.load(module, changed))


def test_slow_tokenizers_are_told_apart_by_their_vocabulary():
    class Words:
        def __init__(self, *words):
            self.words = list(words)

        def get_vocab(self):
            return {word: number for number, word in enumerate(self.words)}

    first = Words("bread", "sea")
    assert tokenizer_digest(first) == tokenizer_digest(Words("bread", "sea"))
    assert tokenizer_digest(first) != tokenizer_digest(Words("sea", "bread"))
    before = tokenizer_digest(first)
    first.words.append("owl")
    assert tokenizer_digest(first) != before


@pytest.mark.parametrize("change", ["edited", "appended", "shortened"])
def test_a_changed_input_is_refused(table, tmp_path, change):
    run(table, tmp_path / "out")
    lines = table.read_text(encoding="utf-8").splitlines(keepends=True)
    if change == "edited":
        lines[9] = lines[9].replace(",", ",another ", 1)
    elif change == "appended":
        lines += lines[-4:]
    else:
        lines = lines[:-4]
    table.write_text("".join(lines), encoding="utf-8")
    with pytest.raises(ChangedRunError, match=r"changed|fewer|more"):
        run(table, tmp_path / "out")


def test_the_log_has_an_event_for_the_start_each_shard_and_the_end(table, tmp_path):
    def stop(entry):
        if entry.index == 1:
            raise KeyboardInterrupt

    log = tmp_path / "log.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run(table, tmp_path / "out", on_shard=stop, log=log)
    summary = run(table, tmp_path / "out", log=log)
    events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [event["event"] for event in events] == [
        *("start", "shard", "stopped"), "start", *["shard"] * 3, "end"]  # fmt: skip
    assert [event["shard"] for event in events if event["event"] == "shard"] == [0, 2, 3, 4]
    assert (events[2]["error"], events[2]["records"]) == ("KeyboardInterrupt", 8)
    assert events[3]["model"]["fingerprint"] == events[0]["model"]["fingerprint"]
    assert events[-1] == {"event": "end", "time": events[-1]["time"], **summary.to_dict()}


class TestBeforeTheFirstShard:
    """A run that is stopped before its first shard goes on, or begins with other options."""

    @pytest.fixture
    def stopped(self, table, tmp_path, monkeypatch):
        def stop(*_arguments):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr("rationales.corpus.job.shards", stop)
            with pytest.raises(KeyboardInterrupt):
                run(table, tmp_path / "out", log=tmp_path / "out" / "log.jsonl")

    @pytest.mark.usefixtures("stopped")
    def test_it_goes_on_although_its_log_is_in_the_folder(self, table, tmp_path):
        assert run(table, tmp_path / "out").explained == 20

    @pytest.mark.usefixtures("stopped")
    def test_other_options_are_no_change(self, table, tmp_path):
        assert run(table, tmp_path / "out", seed=3).explained == 20

    def test_a_log_alone_is_not_taken_for_results_of_somebody_else(self, table, tmp_path):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "log.jsonl").write_text("{}\n")
        with pytest.raises(RationalesError, match=r"holds other files \(log\.jsonl"):
            run(table, tmp_path / "out")
        assert run(table, tmp_path / "out", log=tmp_path / "out" / "log.jsonl").explained == 20


class TestProgress:
    def test_it_goes_on_inside_a_shard(self, table, tmp_path, monkeypatch):
        monkeypatch.setattr("rationales.corpus.job.REPORT_SECONDS", 0.0)
        states = []
        methods = ["occlusion", {"name": "occlusion", "title": "again"}]
        run(table, tmp_path / "out", methods=methods, shard_size=20, on_progress=states.append)
        shares = [state.share for state in states]
        assert shares == sorted(shares)
        assert any(0 < share < 0.5 for share in shares), "while the first method runs"
        assert any(0.5 < share < 1 for share in shares), "while the second method runs"
        for state in states[:-1]:
            assert state.totals["records"] == 0
            assert state.open_records == state.records_now == int(20 * state.share)
        assert (states[-1].totals["records"], states[-1].open_records, states[-1].share) == (20, 0, 1.0)

    def test_an_exception_of_a_callback_inside_a_shard_is_no_failure_of_a_record(self, table, tmp_path, monkeypatch):
        monkeypatch.setattr("rationales.corpus.job.REPORT_SECONDS", 0.0)

        def stop(_state):
            raise ValueError("enough")

        with pytest.raises(ValueError, match="enough"):
            run(table, tmp_path / "out", methods=["occlusion"], shard_size=20, on_progress=stop)
        assert not list((tmp_path / "out" / "shards").iterdir())

    def test_workers_say_how_far_they_are(self, tmp_path, monkeypatch):
        monkeypatch.setattr(local, "SHARE_SECONDS", 0.01)
        pool = local.WorkerPool(None, tmp_path, WorkerOptions(workers=3))
        pool._shares = [4.0, 0.25, -1.0, 0.0, 2.0, 1.0]  # the third worker has finished its shard
        seen = []

        def on_share(index, share):
            seen.append((index, share))
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            pool._done({Future(): Shard(4, (), (), 0, 0, "", 1.0)}, on_share)
        assert seen == [(4, 0.25)]

    def test_what_is_finished_and_what_is_open_add_up(self):
        """Shards of a quarter, a half and a quarter of the input; the second is finished, the third half done."""
        meter = ProgressMeter()
        first, second, third = (
            Shard(index, (), (BadRecord(0, "", "", ""),) * 8, 2, 0, "", share)
            for index, share in enumerate((0.25, 0.75, 1.0))
        )
        meter.skip(first)
        meter.begin(second)
        meter.begin(third)
        meter.advance(2, 0.5)
        counts = dict.fromkeys(("first", "rows", "units", "tokens", "steps", "bytes"), 0)
        meter.finish(ShardEntry(1, explained=0, failed=8, skipped=2, digest="", sha256="", errors_sha256=None,
                                reasons={}, **counts))  # fmt: skip
        state = meter.progress({})
        assert (state.share, state.resumed_share) == (0.875, 0.25)
        assert (state.records_now, state.open_records) == (8 + 4, 4), "skipped records are not counted"
        assert state.remaining_seconds == pytest.approx(state.seconds * 0.125 / 0.625)


def test_the_summary_counts_tokens_and_leaves_skipped_records_out_of_the_rates(table, tmp_path):
    summary = run(table, tmp_path / "out", methods=["random", "occlusion"], where=["lang=en"])
    _, tokenizer = known_model()
    expected = sum(len(ids) for ids in tokenizer(texts(20)[1::2])["input_ids"])
    assert summary.tokens == 2 * expected, "both methods read each text"
    assert (summary.explained, summary.skipped) == (10, 10)
    assert summary.records_per_second == pytest.approx(10 / summary.seconds)
    assert summary.tokens_per_second == pytest.approx(summary.tokens / summary.seconds)


def test_rows_are_in_the_order_of_the_input(table, tmp_path):
    run(table, tmp_path / "out", methods=["random", "occlusion"])
    stored = rows(tmp_path / "out")
    assert [row["id"] for row in stored] == [f"r{number // 2}" for number in range(40)]
    assert [row["method"] for row in stored] == ["random", "occlusion"] * 20
    assert [row["text"] for row in stored[::2]] == texts(20)
