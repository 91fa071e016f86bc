"""Models of sounds: the plain model at keep = 1, any company, and a cause that is known, on a line and on a grid."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from models.audio.sounds import LENGTH, RATE, Detector, SpectrumDetector, clip, grid, line, spectrum
from torch import nn

import rationales
from rationales.errors import InputError, ModelError, OptionError
from rationales.methods import METHODS
from rationales.models.audio.baselines import blur
from rationales.models.audio.model import AudioModel
from rationales.models.classes import Head
from rationales.pipeline.explain import explain
from rationales.rationale import Frames, Rationale, Spectrogram

KINDS = {"line": (line, Detector), "grid": (grid, SpectrumDetector)}
EVERY = [name for name in ("marc", "occlusion", "saliency", "integrated-gradients", "random") if name in METHODS]
QUICK = {"marc": {"steps": 8}, "occlusion": {"window": 8, "stride": 8}, "integrated-gradients": {"steps": 4}}
SOUNDS = [(clip(0.3, 0.6, 1), RATE), (clip(0.1, 0.45, 2), RATE), (clip(0.2, 0.6, 3), RATE)]


def quick(model, raw_input, method="marc", **arguments):
    return explain(model, raw_input, method=method, options=QUICK.get(method, {}), **arguments)


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


class TestKnownCause:
    @pytest.mark.parametrize("start", [0.6, 1.1, 1.75])
    def test_the_rationale_is_the_burst(self, start):
        result = explain(line(), (clip(start), RATE), target="burst")
        (span,) = result.times()
        assert span.start == pytest.approx(start, abs=0.07)
        assert span.end == pytest.approx(start + LENGTH, abs=0.1)
        of_burst = {name: values["burst"] for name, values in result.probabilities.items()}
        assert of_burst["rationale"] >= 0.9 * of_burst["full"] > 0.5
        assert of_burst["complement"] < 0.1

    def test_two_bursts_are_two_spans(self):
        samples = np.concatenate([clip(0.6), clip(1.2)])
        result = explain(line(), (samples, RATE), target="burst")
        assert [round(span.start + LENGTH / 2, 1) for span in result.times()] == pytest.approx([0.8, 3.4], abs=0.11)

    def test_on_a_spectrogram_it_is_the_burst_at_its_frequency(self):
        result = explain(grid(), (clip(0.8, 1.3), RATE), target="burst")
        assert isinstance(result.units, Spectrogram)
        region = result.regions()[0]
        assert (region.left + region.right) / 2 * result.units.seconds == pytest.approx(0.8 + LENGTH / 2, abs=0.1)
        assert result.units.height - 1 - (region.top + region.bottom - 1) / 2 == pytest.approx(32, abs=3)  # 1 kHz
        (span,) = result.times()
        assert span.start == pytest.approx(0.8, abs=0.13)
        assert span.end == pytest.approx(0.8 + LENGTH, abs=0.13)

    @pytest.mark.parametrize("method", [name for name in EVERY if name not in ("random", "saliency")])
    def test_every_method_finds_it(self, method):
        """But for saliency: the gradient of a magnitude is as steep where it is quiet as where it is loud."""
        result = explain(line(), (clip(1.1), RATE), method=method, target="burst")
        best = int(result.scores.argmax()) * result.units.seconds
        assert 1.1 - 0.04 <= best <= 1.1 + LENGTH

    def test_at_another_rate_the_times_are_the_same(self):
        from rationales.models.audio.reading import resample

        pytest.importorskip("soxr")

        result = explain(line(), (resample(clip(1.1), RATE, 11025), 11025), target="burst")
        assert result.units.duration == pytest.approx(2.0, abs=0.001)
        assert result.times()[0].start == pytest.approx(1.1, abs=0.07)


class TestInvariants:
    @pytest.mark.parametrize("method", EVERY)
    def test_alone_equals_in_a_batch(self, kind, method):
        model = kind[0]()
        together = quick(model, SOUNDS, method)
        for raw_input, mine in zip(SOUNDS, together, strict=True):
            assert np.allclose(mine.scores, quick(model, raw_input, method).scores, atol=2e-5)
        reversed_ = quick(model, SOUNDS[::-1], method)
        assert all(np.allclose(a.scores, b.scores, atol=2e-5) for a, b in zip(together, reversed_[::-1], strict=True))

    def test_noise_and_several_baselines_do_not_depend_on_company(self, kind):
        model = kind[0](baseline=["silence", "noise"])
        options = {"steps": 6, "noise": 0.1, "flip_share": 0.1}
        together = explain(model, SOUNDS, options=options)
        for raw_input, mine in zip(SOUNDS, together, strict=True):
            assert np.allclose(mine.scores, explain(model, raw_input, options=options).scores, atol=2e-5)

    @pytest.mark.parametrize("method", EVERY)
    def test_same_seed_same_bits(self, kind, method):
        model = kind[0]()
        first, second = (quick(model, SOUNDS[0], method, seed=3).scores for _ in range(2))
        assert np.array_equal(first, second)

    def test_keep_one_is_the_plain_model(self, kind):
        model, module = kind[0](), kind[1]()
        with torch.no_grad():
            batch = model.batch(model.encode([model.read(raw_input, None) for raw_input in SOUNDS]))
            for number, (samples, _) in enumerate(SOUNDS):
                tensor = torch.from_numpy(samples)
                plain = module((tensor if model.kind == "audio" else spectrum(tensor))[None])[0]
                alone = batch.take([number])
                assert torch.equal(alone.logits(alone.ones())[0], plain)
                assert torch.allclose(batch.logits(batch.ones())[number], plain, atol=1e-6)

    def test_keep_zero_is_silence(self, kind):
        model, module = kind[0](), kind[1]()
        with torch.no_grad():
            batch = model.batch(model.encode([model.read(SOUNDS[0], None)]))
            silence = torch.zeros(len(SOUNDS[0][0]))
            plain = module((silence if model.kind == "audio" else spectrum(silence))[None])
            assert torch.allclose(batch.logits(batch.zeros()), plain, atol=1e-6)

    @pytest.mark.parametrize("method", EVERY)
    def test_model_is_left_as_it_was(self, kind, method):
        module = kind[1]().train()
        next(module.parameters()).requires_grad_(False)
        weights = copy.deepcopy(module.state_dict())
        quick(kind[0](module), SOUNDS[0], method)
        assert module.training
        assert not next(module.parameters()).requires_grad
        assert all(torch.equal(value, weights[name]) for name, value in module.state_dict().items())

    def test_global_randomness_is_neither_read_nor_moved(self, kind):
        model = kind[0](baseline="noise")
        before = torch.random.get_rng_state()
        first = quick(model, SOUNDS[0]).scores
        assert torch.equal(before, torch.random.get_rng_state())
        torch.manual_seed(9)
        assert np.array_equal(first, quick(model, SOUNDS[0]).scores)

    def test_a_model_that_gives_nan_is_reported_with_the_sounds_name(self):
        module = Detector()
        with torch.no_grad():
            module.tone.fill_(float("nan"))
        with pytest.raises(InputError, match=r"NaN.*the clip"):
            quick(line(module), SOUNDS[0], names="the clip")

    def test_memory_changes_nothing(self, kind):
        model = kind[0]()
        encoded = model.encode([model.read(raw_input, None) for raw_input in SOUNDS])
        large, small = model.batch(encoded), model.batch(encoded)
        small.budget = 1
        keep = torch.rand(large.size, generator=torch.Generator().manual_seed(0))
        assert torch.allclose(large.logits(keep), small.logits(keep), atol=1e-6)

    def test_gradients_reach_what_is_read(self, kind):
        """The same gradient by keep as by what the model reads, taken along the way from the baseline."""
        model = kind[0]()
        batch = model.batch(model.encode([model.read(raw_input, None) for raw_input in SOUNDS[:2]]))
        keep = torch.full(batch.size, 0.5).requires_grad_()
        (by_keep,) = torch.autograd.grad(batch.logits(keep)[:, 1].sum(), keep)
        full, empty = batch.input_embeddings(), batch.all_replaced()
        point = (0.5 * full + 0.5 * empty).requires_grad_()
        (gradient,) = torch.autograd.grad(batch.logits_from(point)[:, 1].sum(), point)
        assert torch.allclose(batch.to_units(gradient * (full - empty), "sum"), by_keep * batch.rows.real, atol=1e-5)

    def test_a_batch_on_one_baseline_each(self, kind):
        model = kind[0](baseline=["silence", "noise"])
        batch = model.batch(model.encode([model.read(raw_input, None) for raw_input in SOUNDS[:2]]))
        chosen = batch.on_baseline(torch.tensor([1, 0]))
        on_baseline = batch.logits(batch.zeros())
        assert chosen.views == 1
        assert torch.allclose(chosen.logits(chosen.zeros()), torch.stack([on_baseline[2], on_baseline[1]]), atol=1e-6)


class TestSegments:
    def test_a_long_sound_is_cut_and_put_together_again(self, kind):
        model = kind[0](segment=1)
        encoded = model.encode([model.read((clip(1.1), RATE), None)])[0]
        assert len(encoded.segments) > 2
        batch = model.batch([encoded])
        (weight,) = batch.gather(batch.ones())
        assert torch.allclose(weight, torch.ones_like(weight), atol=1e-6)
        assert len(weight) == encoded.frames * (1 if model.kind == "audio" else 64)

    def test_the_cause_is_found_across_segments(self):
        result = explain(line(segment=1), (clip(1.1), RATE), target="burst")
        assert result.segments > 2
        best = int(result.scores.argmax()) * result.units.seconds
        assert 1.1 - 0.04 <= best <= 1.1 + LENGTH

    def test_each_segment_is_what_the_model_would_be_given(self):
        model = line(segment=1)
        encoded = model.encode([model.read((clip(1.1), RATE), None)])[0]
        samples = torch.from_numpy(clip(1.1))
        for segment in encoded.segments:
            start = segment.window.first * model.frontend.frame
            assert torch.equal(segment.samples, samples[start : start + len(segment.samples)])
            assert len(segment.samples) <= RATE
        assert start + len(segment.samples) == len(samples)


class TestUnits:
    def test_the_last_frame_ends_with_the_sound(self):
        result = quick(line(), (clip(0.2, 0.5)[:3900], RATE))
        assert result.units == Frames(16, 0.032, 0.4875)  # 15.2 frames of 256 samples
        assert result.times(share=1.0)[-1].end == 0.4875

    def test_frames_of_any_length(self):
        assert len(quick(line(frame=0.1), SOUNDS[0]).units) == 6

    def test_a_single_frame(self):
        result = quick(line(), (clip(0.0, 0.032), RATE))
        assert len(result.units) == 1

    def test_a_sound_without_a_whole_frame(self, kind):
        with pytest.raises(InputError, match=r"the click is too short to explain .* at least 0\.032 s"):
            quick(kind[0](), (np.zeros(100, dtype=np.float32), RATE), names="the click")

    def test_stereo_is_noted(self):
        samples = np.stack([SOUNDS[0][0]] * 2, 1)
        result = quick(line(), (samples, RATE))
        assert [note.kind for note in result.notes if note.kind == "mixed-down"] == ["mixed-down"]
        assert np.array_equal(result.scores, quick(line(), SOUNDS[0]).scores)

    def test_saved_and_loaded(self, kind, tmp_path):
        result = quick(kind[0](), SOUNDS[0])
        result.save(tmp_path / "r.json")
        again = Rationale.load(tmp_path / "r.json")
        assert again.units == result.units
        assert np.array_equal(again.scores, result.scores)
        assert again.times() == result.times()
        assert "times" in result.to_dict()

    def test_words_regions_and_times_are_for_their_own_kind(self):
        sound, spectrogram = quick(line(), SOUNDS[0]), quick(grid(), SOUNDS[0])
        with pytest.raises(OptionError, match=r"a sound has times, not spans of words"):
            sound.spans()
        with pytest.raises(OptionError, match="a sound has times; regions are for images"):
            sound.regions()
        spectrogram.regions()
        assert "of the array" in repr(sound)
        assert "bins" in repr(spectrogram)


class TestLoading:
    def test_one_logit_is_a_yes_or_no(self):
        model = line(Detector(single=True))
        assert model.head is Head.SIGMOID
        first, second = quick(model, SOUNDS[0]), quick(line(), SOUNDS[0])
        assert first.probabilities["full"]["burst"] == pytest.approx(second.probabilities["full"]["burst"], abs=1e-5)

    def test_the_stride_of_a_spectrogram_is_read_off(self):
        frontend = grid().frontend
        assert (frontend.frame, frontend.window) == (128, 256)

    def test_what_is_missing_or_wrong_is_told(self):
        with pytest.raises(OptionError, match=r"pass labels=\[\.\.\.\]"):
            rationales.load(Detector(), sample_rate=RATE)
        with pytest.raises(OptionError, match="gives 2 logits, but 3 labels"):
            rationales.load(Detector(), sample_rate=RATE, labels=["a", "b", "c"])
        with pytest.raises(OptionError, match=r"no baseline 'beep' for sounds; there is: silence, noise, blur-N"):
            line(baseline="beep")
        with pytest.raises(OptionError, match="given by name"):
            line(baseline=torch.zeros(3))
        for name in ("frame", "segment"):
            with pytest.raises(OptionError, match=f"{name} is a number of seconds"):
                line(**{name: -1})
        with pytest.raises(OptionError, match="a segment must have at least"):
            line(segment=0.01)
        with pytest.raises(ModelError, match=r"must return a tensor \(frames, bins\)"):
            rationales.load(SpectrumDetector(), lambda samples: samples, sample_rate=RATE, labels=["a", "b"])
        with pytest.raises(ModelError, match="only 1 frames for a second"):
            rationales.load(SpectrumDetector(), lambda samples: samples[None], sample_rate=RATE, labels=["a", "b"])

    def test_a_module_that_is_no_classifier(self):
        with pytest.raises(ModelError, match="one row of logits for each sound"):
            line(nn.Unflatten(1, (2, -1)))

    def test_kinds_and_units_have_names(self):
        assert isinstance(line(), AudioModel)
        assert (line().kind, line().unit, grid().kind, grid().unit) == ("audio", "frame", "spectrogram", "bin")
        assert line(baseline=["silence", "noise"]).baseline == "silence, noise"


class TestBaselines:
    def test_a_blur_leaves_slow_and_takes_fast(self):
        """A Gaussian of s samples takes a tone of f cycles per sample to exp(-2 (pi s f)^2) of its size."""
        time = torch.arange(8000, dtype=torch.float64)
        for cycles in (0.001, 0.01):
            tone = torch.sin(2 * torch.pi * cycles * time)
            expected = tone * float(torch.exp(torch.tensor(-2 * (torch.pi * 20 * cycles) ** 2)))
            assert torch.allclose(blur(tone, 20.0)[200:-200], expected[200:-200], atol=1e-6)

    def test_noise_is_as_loud_as_the_sound_and_the_sounds_own(self):
        model = line(baseline="noise")
        encoded = model.encode([model.read(raw_input, None) for raw_input in SOUNDS[:2]])
        first, second = model.batch(encoded, seed=1).baseline_values[:2]
        loud = torch.from_numpy(SOUNDS[0][0]).square().mean().sqrt()
        assert float(first.square().mean().sqrt()) == pytest.approx(float(loud), rel=0.05)
        assert not torch.equal(first[:100], second[:100])

    @pytest.mark.parametrize("name", ["silence", "noise", "blur-20"])
    def test_every_baseline_explains(self, kind, name):
        result = quick(kind[0](baseline=name), SOUNDS[0])
        assert result.baseline == name
        assert np.isfinite(result.scores).all()
