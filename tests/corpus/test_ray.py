"""On Ray a corpus run has the bytes of a local one, whoever dies meanwhile."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("ray", reason="the extra ray is not installed")

import ray
from runs import content, write_table

from rationales import corpus
from rationales.corpus.engines import ray_actors
from rationales.corpus.engines.engine import READ_AHEAD, WorkerError, WorkerOptions
from rationales.corpus.failures import DeviceError
from rationales.errors import OptionError, RationalesError

OPTIONS = {"methods": ["random"], "shard_size": 4}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("ray") / "t.csv", 32)


@pytest.fixture(scope="module")
def undisturbed(table):
    """The files of a local run."""
    corpus.run(table, table.with_name("undisturbed"), **OPTIONS)
    return content(table.with_name("undisturbed"))


@pytest.fixture
def quiet_ray(monkeypatch):
    """Ray sends nothing and leaves nothing in the home folder or in /tmp/ray."""
    ray_actors._secure_local_instance()
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        yield


def worker_processes() -> list[int]:
    """Process ids of the living shard actors on this machine."""
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            title = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        if title.startswith(b"ray::ShardActor"):
            processes.append(int(folder.name))
    return processes


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for the workers in /proc")
def test_a_local_instance_with_a_killed_worker_writes_what_the_local_engine_does(table, undisturbed, tmp_path):
    killed, finished = [], []

    def kill_a_worker(entry):
        finished.append(entry.index)
        if not killed:
            killed.append(worker_processes()[0])
            os.kill(killed[0], signal.SIGKILL)

    summary = corpus.run(table, tmp_path / "out", engine="ray", workers=2, on_shard=kill_a_worker, **OPTIONS)
    assert killed
    assert sorted(finished) == list(range(8)), "each shard is finished once"
    assert (summary.explained, summary.shards_now) == (32, 8)
    assert summary.peak_open_records <= 4 * (2 + READ_AHEAD)
    assert content(tmp_path / "out") == undisturbed
    assert not ray.is_initialized(), "the instance ends with the run"
    assert corpus.run(table, tmp_path / "out", **OPTIONS).shards_now == 0, "the local engine can go on with it"


@pytest.fixture
def cluster(quiet_ray) -> Iterator:
    """A cluster whose head has no room for workers, and two nodes with room for one each."""
    from ray.cluster_utils import Cluster

    store = {"object_store_memory": 100 * 2**20}
    instance = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **store})
    try:
        instance.extra_node = lambda: instance.add_node(num_cpus=1, **store)
        yield instance
    finally:
        ray.shutdown()
        instance.shutdown()


@pytest.mark.slow
def test_a_node_leaves_and_another_joins(table, undisturbed, tmp_path, cluster):
    nodes = [cluster.extra_node(), cluster.extra_node()]
    finished = []

    def remove_a_node(entry):
        finished.append(entry.index)
        if len(finished) == 1:
            cluster.remove_node(nodes[0])
        if len(finished) == 3:
            cluster.extra_node()

    options = {"engine": "ray", "address": cluster.address, "workers": 2, **OPTIONS}
    corpus.run(table, tmp_path / "out", on_shard=remove_a_node, **options)
    assert sorted(finished) == list(range(8))
    assert content(tmp_path / "out") == undisturbed


class FakeRay:
    """As much of Ray as an engine without a cluster needs."""

    exceptions = ray.exceptions

    def __init__(self, cluster_resources):
        self.cluster_resources = lambda: cluster_resources

    def wait(self, references, num_returns, timeout):
        return [], references


def engine(**options):
    return ray_actors.RayActors(None, Path(), WorkerOptions(**options))


class TestMistakes:
    def test_a_cluster_that_is_not_there(self, table, tmp_path):
        with pytest.raises(WorkerError, match="cannot reach a Ray cluster at 'auto'"):
            corpus.run(table, tmp_path / "out", engine="ray", address="auto", **OPTIONS)

    def test_the_model_is_loaded_by_the_workers(self, table, tmp_path):
        from runs import small_model

        with pytest.raises(OptionError, match="its name or folder"):
            corpus.run(table, tmp_path / "out", engine="ray", model=small_model(), **OPTIONS)

    def test_the_number_of_a_gpu_is_up_to_ray(self, table, tmp_path):
        with pytest.raises(OptionError, match="without a number"):
            corpus.run(table, tmp_path / "out", engine="ray", device="cuda:1", **OPTIONS)

    def test_an_address_without_the_engine(self, table, tmp_path):
        with pytest.raises(OptionError, match="engine ray"):
            corpus.run(table, tmp_path / "out", address="auto", **OPTIONS)

    def test_nodes_that_differ_are_refused(self):
        actors = engine()
        actors._check({"versions": {"torch": "2.13"}})
        actors._check({"versions": {"torch": "2.13"}})
        with pytest.raises(WorkerError, match=r"versions\.torch was '2\.13' and is '2\.6'"):
            actors._check({"versions": {"torch": "2.6"}})

    def test_a_cluster_without_room_ends_the_wait(self, monkeypatch):
        monkeypatch.setattr(ray_actors, "PLACEMENT_SECONDS", -1)
        actors = engine(devices=("cuda",), gpus_per_worker=0.5)
        actors._ray = FakeRay({"CPU": 4.0})
        with pytest.raises(WorkerError, match=r"needs 1 CPUs and 0\.5 GPUs, the cluster has 4 CPUs, 0 GPUs"):
            actors._wait([])

    def test_what_a_worker_returned_and_whether_it_died(self):
        task_error = ray.exceptions.RayTaskError
        actors = engine()
        actors._ray = FakeRay({})

        def outcome(error):
            def get(_reference):
                raise error

            actors._ray.get = get
            return actors._result(None)

        assert outcome(ray.exceptions.ActorDiedError()) is None
        assert outcome(task_error("explain", "", DeviceError("the device has failed"))) is None
        with pytest.raises(OptionError, match="no label"):
            outcome(task_error("explain", "", OptionError("no label")))


@pytest.mark.slow
def test_a_record_that_ends_its_workers(tmp_path, monkeypatch):
    import json

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))  # the workers of Ray import the method too
    from poison_method import LONGEST, Poison

    lines = [{"id": number, "text": "good film " * (LONGEST if number == 5 else 2)} for number in range(12)]
    table = tmp_path / "t.jsonl"
    table.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    options = {"methods": [Poison()], "workers": 2, "shard_size": 4}
    by_engine = {}
    for name in ("ray", "local"):
        summary = corpus.run(table, tmp_path / name, engine=name, **options)
        assert (summary.explained, summary.reasons) == (11, {"worker-died": 1})
        by_engine[name] = content(tmp_path / name)
    assert by_engine["ray"] == by_engine["local"]


@pytest.mark.slow
def test_an_error_of_loading_is_told(table, tmp_path):
    with pytest.raises(RationalesError, match="no-such-model") as caught:
        corpus.run(table, tmp_path / "out", engine="ray", model=str(tmp_path / "no-such-model"), **OPTIONS)
    assert not isinstance(caught.value, WorkerError)
