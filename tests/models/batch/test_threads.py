"""How many threads torch has while something is explained, and afterwards."""

import os
import subprocess
import sys

import pytest
import torch

import rationales
from rationales.cli.streams import wait_quietly
from rationales.errors import OptionError
from rationales.models.batch.execution import VARIABLE, WORK_PER_THREAD, limited_threads, worthwhile_threads
from rationales.models.text.tokens import TextInput


@pytest.fixture
def three_threads(monkeypatch):
    """Torch has three threads, and nobody has asked for another number."""
    monkeypatch.delenv(VARIABLE, raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


class TestNumber:
    def test_grows_with_the_work_up_to_what_there_is(self):
        assert [worthwhile_threads(parts * WORK_PER_THREAD, 3) for parts in (0, 1, 2, 9)] == [1, 2, 3, 3]
        assert worthwhile_threads(WORK_PER_THREAD - 1, 3) == 1

    def test_is_restored(self, three_threads):
        with limited_threads(0):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3

    def test_is_restored_after_an_exception(self, three_threads):
        with pytest.raises(ZeroDivisionError), limited_threads(0):
            1 / 0  # noqa: B018  # any exception
        assert torch.get_num_threads() == 3

    def test_an_inner_block_can_have_more(self, three_threads):
        with limited_threads(0):
            with limited_threads(WORK_PER_THREAD):
                assert torch.get_num_threads() == 2
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3

    def test_the_variable_decides(self, three_threads, monkeypatch):
        monkeypatch.setenv(VARIABLE, "2")
        with limited_threads(0):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 3

    @pytest.mark.parametrize("value", ["0", "two", "-1", "1.5"])
    def test_the_variable_must_be_a_number(self, three_threads, monkeypatch, value):
        monkeypatch.setenv(VARIABLE, value)
        with pytest.raises(OptionError, match=VARIABLE), limited_threads(0):
            pass
        assert torch.get_num_threads() == 3


@pytest.fixture(scope="module")
def model():
    return rationales.load()


class TestExplaining:
    def test_work_is_weights_times_tokens(self, model):
        module, embedding = model.networks[0].module, model.networks[0].embedding
        batch = model.batch(model.encode([TextInput("Two words"), TextInput("Three words here")]))
        weights = sum(weight.numel() for weight in module.parameters()) - embedding.weight.numel()
        assert batch.work() == weights * sum(batch.lengths)

    def test_a_sentence_takes_one_thread_and_gives_back_the_others(self, model, three_threads):
        counts = []
        options = {"steps": 2}
        rationales.explain(
            model, "A dull film.", options=options, progress=lambda _: counts.append(torch.get_num_threads())
        )
        assert set(counts) == {1}
        assert torch.get_num_threads() == 3

    def test_a_failure_gives_them_back_too(self, model, three_threads):
        def stop(_):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            rationales.explain(model, "A dull film.", options={"steps": 2}, progress=stop)
        assert torch.get_num_threads() == 3

    def test_scores_are_those_of_any_number_of_threads(self, model, monkeypatch):
        text = "The acting is fine, but the plot is a mess and nobody seems to care about any of it. " * 8
        scores = []
        for threads in ("1", "3"):
            monkeypatch.setenv(VARIABLE, threads)
            scores.append(torch.from_numpy(rationales.explain(model, text, method="occlusion").scores))
        torch.testing.assert_close(*scores, atol=1e-5, rtol=1e-4)


class TestCommand:
    def test_idle_threads_sleep(self, monkeypatch):
        for name in [name for name in os.environ if name.startswith(("OMP_", "GOMP_", "KMP_"))]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("OMP_WAIT_POLICY", "")  # so that it is taken away again afterwards
        monkeypatch.delenv("OMP_WAIT_POLICY")
        wait_quietly()
        assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"

    @pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"])
    def test_what_the_user_has_set_stays(self, monkeypatch, name):
        for other_name in [other_name for other_name in os.environ if other_name.startswith(("OMP_", "GOMP_", "KMP_"))]:
            monkeypatch.delenv(other_name)
        monkeypatch.setenv(name, "1")
        wait_quietly()
        assert "OMP_WAIT_POLICY" not in os.environ

    def test_importing_the_library_sets_nothing(self):
        code = (
            "import os, torch; torch.set_num_threads(3); before = dict(os.environ)\n"
            "import rationales; rationales.load, rationales.explain\n"
            "print(dict(os.environ) == before, torch.get_num_threads())"
        )
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert run.stdout.split() == ["True", "3"]
