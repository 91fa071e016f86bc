"""A record that ends its worker is found and reported, and costs no other record."""

from __future__ import annotations

import json
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

from poison_method import LONGEST, Poison
from runs import content, rows, small_model

from rationales import corpus
from rationales.corpus.engines import local, worker_process
from rationales.corpus.engines.division import divided_outcomes
from rationales.corpus.engines.engine import WorkerError, WorkerOptions, WorkerTask
from rationales.corpus.explaining import CorpusMethod, ExplainRequest, ModelSource, Outcomes
from rationales.corpus.failures import DeviceError
from rationales.corpus.records import Record
from rationales.corpus.shards import Shard
from rationales.methods import resolve_method

POISON = "poison"


class TestDivision:
    @given(st.integers(1, 40), st.sets(st.integers(0, 39), max_size=4), st.integers(2, 40))
    def test_those_that_end_their_worker_are_found_and_no_others(self, count, deadly, too_many):
        """`deadly` end it alone, `too_many` records together."""
        records = [Record(position, str(position), f"line {position}") for position in range(count)]
        deaths = 0

        def explain(group):
            nonlocal deaths
            if len(group) >= too_many or any(record.position in deadly for record in group):
                deaths += 1
                return None
            return Outcomes({record.position: [{"id": record.id}] for record in group}, {})

        outcomes = divided_outcomes(records, explain, lambda: True)
        assert outcomes.failures.keys() == {position for position in deadly if position < count}
        assert outcomes.rows == {n: [{"id": str(n)}] for n in range(count) if n not in deadly}
        assert {bad.reason for bad in outcomes.failures.values()} <= {"worker-died"}
        assert deaths <= 2 * count - 1

    def test_where_every_worker_dies_no_record_is_to_blame(self):
        with pytest.raises(WorkerError, match="workers die on every input, not only on line 7"):
            divided_outcomes([Record(0, "a", "line 7")], lambda _records: None, lambda: False)


class FakePool:
    """A pool that works in this process; a text with the word 'poison' ends it, or breaks its device."""

    ended = 0
    death: Exception = BrokenProcessPool()
    sizes: list[int]

    def __init__(self, workers, _context, _initializer, arguments):
        self.broken, self.pending = False, []
        worker_process.Worker.task, worker_process.Worker.folder, _, _, worker_process.Worker.shares = arguments
        worker_process.Worker.model, worker_process.Worker.number = small_model(), 0
        FakePool.sizes.append(workers)

    def submit(self, function, *arguments):
        if self.broken:
            raise BrokenProcessPool
        future: Future = Future()
        given_records = getattr(arguments[0], "records", arguments[0]) if arguments else ()
        if any(POISON in record.text for record in given_records):
            FakePool.ended += 1
            self.broken = isinstance(FakePool.death, BrokenProcessPool)
            future.set_exception(FakePool.death)
        else:
            future.set_result(function(*arguments))
        return future

    def shutdown(self, **_options):
        self.broken = True


@pytest.fixture
def pool(tmp_path, monkeypatch):
    """An engine of two workers, and shards of three texts of which some hold the word 'poison'."""
    monkeypatch.setattr(local, "ProcessPoolExecutor", FakePool)
    monkeypatch.setattr(FakePool, "ended", 0)
    monkeypatch.setattr(FakePool, "sizes", [], raising=False)
    for name in ("task", "folder", "model", "shares", "number"):
        monkeypatch.setattr(worker_process.Worker, name, None, raising=False)
    for name in ("shards", "errors"):
        (tmp_path / name).mkdir()
    request = ExplainRequest((CorpusMethod("random", resolve_method("random", {}, "text")),), 0, None)
    task = WorkerTask(ModelSource(None, "text"), request)
    return local.WorkerPool(task, tmp_path, WorkerOptions(workers=2))


def shards(*poisoned: int, count: int = 8) -> list[Shard]:
    records = [
        Record(number, f"r{number}", f"line {number}", f"{POISON if number in poisoned else 'bread'} is warm")
        for number in range(3 * count)
    ]
    return [Shard(k, tuple(records[3 * k : 3 * k + 3]), (), 0, 3 * k, "", (k + 1) / count) for k in range(count)]


class TestPool:
    @pytest.mark.parametrize(
        "death", [BrokenProcessPool(), DeviceError("the device has failed")], ids=["death", "device"]
    )
    def test_all_other_records_are_explained(self, pool, monkeypatch, death):
        monkeypatch.setattr(FakePool, "death", death)
        entries = list(pool.explained(iter(shards(4, 5, 13)), {}, lambda _index, _share: None))
        assert sorted(entry.index for entry in entries) == list(range(8)), "each once"
        assert {entry.index: entry.failed for entry in entries if entry.failed} == {1: 2, 4: 1}
        assert sum(entry.explained for entry in entries) == 21
        assert {*(entry.index for entry in entries[-2:])} <= {1, 4, 5, 3, 2}, "suspicious shards come last"
        errors = [json.loads(line) for path in pool.folder.glob("errors/*") for line in path.read_text().splitlines()]
        assert sorted((error["id"], error["reason"]) for error in errors) == [
            (f"r{number}", "worker-died") for number in (13, 4, 5)
        ]
        assert set(FakePool.sizes) == {1, 2}

    def test_a_death_without_a_deadly_record_costs_nothing(self, pool):
        """The first pool ends with the second shard, whatever that holds."""
        deadly = iter([POISON])

        class Text(str):
            def __contains__(self, word):
                return bool(next(deadly, ""))

        first, second, *further = shards(count=4)
        flaky = [Record(record.position, record.id, record.location, Text(record.text)) for record in second.records]
        second = Shard(1, tuple(flaky), (), 0, 3, "", 0.5)
        entries = list(pool.explained(iter([first, second, *further]), {}, lambda _index, _share: None))
        assert FakePool.ended == 1
        assert sorted(entry.index for entry in entries) == [0, 1, 2, 3]
        assert not any(entry.failed for entry in entries)
        assert FakePool.sizes == [2, 2]

    def test_more_suspects_than_may_wait_are_explained_in_between(self, pool):
        deadly = shards(*range(0, 90, 3), count=30)
        entries = list(pool.explained(iter(deadly), {}, lambda _index, _share: None))
        assert [entry.failed for entry in sorted(entries, key=lambda entry: entry.index)] == [1] * 30

    def test_an_error_of_the_request_ends_the_run(self, pool, monkeypatch):
        monkeypatch.setattr(FakePool, "death", WorkerError("an image is not there"))
        with pytest.raises(WorkerError, match="an image"):
            list(pool.explained(iter(shards(4)), {}, lambda _index, _share: None))


@pytest.mark.slow
def test_a_record_that_ends_real_workers(tmp_path):
    lines = [{"id": number, "text": "good film " * (LONGEST if number == 5 else 2)} for number in range(12)]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    summary = corpus.run(path, tmp_path / "out", methods=[Poison()], workers=2, shard_size=2)
    assert (summary.explained, summary.reasons) == (11, {"worker-died": 1})
    assert [row["id"] for row in rows(tmp_path / "out")] == [str(number) for number in range(12) if number != 5]
    before = content(tmp_path / "out")
    again = corpus.run(path, tmp_path / "out", methods=[Poison()], workers=2, shard_size=2, retry_failed=True)
    assert again.shards_now == 1
    assert content(tmp_path / "out") == before
