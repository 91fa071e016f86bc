"""Audio classifiers of Hugging Face: waveforms and spectrograms, either way around, as they are run by their users."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rationales
from rationales.errors import ModelError
from rationales.pipeline.explain import explain
from rationales.rationale import Frames, Spectrogram

transformers = pytest.importorskip("transformers")

NAMED = {"id2label": {0: "dog", 1: "cat"}, "label2id": {"dog": 0, "cat": 1}}
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def wav2vec2():
    config = transformers.Wav2Vec2Config(
        **SMALL,
        **NAMED,
        conv_dim=(8, 8, 8),
        conv_stride=(5, 4, 4),
        conv_kernel=(10, 8, 4),
        num_feat_extract_layers=3,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2,
        classifier_proj_size=8,
    )
    return transformers.Wav2Vec2ForSequenceClassification(config), transformers.Wav2Vec2FeatureExtractor()


def ast():
    config = transformers.ASTConfig(
        **SMALL, **NAMED, max_length=64, num_mel_bins=16, patch_size=8, frequency_stride=4, time_stride=4
    )
    return transformers.ASTForAudioClassification(config), transformers.ASTFeatureExtractor(
        num_mel_bins=16, max_length=64
    )


def whisper():
    half = {f"{module_name}_{name}": size for module_name in ("encoder", "decoder") for name, size in
            (("layers", 1), ("attention_heads", 2), ("ffn_dim", 32))}  # fmt: skip
    config = transformers.WhisperConfig(
        **half, **NAMED, d_model=16, num_mel_bins=80, max_source_positions=50, classifier_proj_size=8
    )
    return transformers.WhisperForAudioClassification(config), transformers.WhisperFeatureExtractor(chunk_length=1)


FAMILIES = {"wav2vec2": wav2vec2, "ast": ast, "whisper": whisper}


def tiny(family):
    torch.manual_seed(0)
    module, extractor = FAMILIES[family]()
    return module.eval(), extractor


def sound(samples, seed=0):
    return np.random.default_rng(seed).normal(size=samples).astype(np.float32) * 0.1


@pytest.mark.parametrize("family", FAMILIES)
class TestEveryFamily:
    def test_keep_one_is_the_plain_model(self, family):
        module, extractor = tiny(family)
        model = rationales.load(module, extractor)
        sounds = [sound(9000, 1), sound(5000, 2)]
        batch = model.batch(model.encode([model.read((samples, 16000), None) for samples in sounds]))
        with torch.no_grad():
            for number, samples in enumerate(sounds):
                plain = module(**extractor(samples, sampling_rate=16000, return_tensors="pt")).logits[0]
                alone = batch.take([number])
                assert torch.equal(alone.logits(alone.ones())[0], plain)
                assert torch.allclose(batch.logits(batch.ones())[number], plain, atol=1e-5)

    def test_alone_equals_in_a_batch(self, family):
        model = rationales.load(*tiny(family))
        sounds = [(sound(9000, 1), 16000), (sound(5000, 2), 16000)]
        options = {"steps": 5}
        for raw_input, mine in zip(sounds, explain(model, sounds, options=options), strict=True):
            assert np.allclose(mine.scores, explain(model, raw_input, options=options).scores, atol=1e-5)

    def test_longer_than_the_model_reads_is_cut_not_dropped(self, family):
        model = rationales.load(*tiny(family), segment=1)
        result = explain(model, (sound(40000), 16000), options={"steps": 3})
        assert result.segments > 1
        reached = result.units.width * result.units.seconds if family != "wav2vec2" else result.units.duration
        assert reached == pytest.approx(2.5, abs=0.03)

    def test_the_units_are_its_own(self, family):
        model = rationales.load(*tiny(family))
        result = explain(model, (sound(8000), 16000), options={"steps": 3})
        expected = {
            "wav2vec2": Frames(16, 0.032, 0.5),
            "ast": Spectrogram(16, 48, 0.01),  # 1 + (8000 - 400) // 160 frames
            "whisper": Spectrogram(80, 50, 0.01),
        }
        assert result.units == expected[family]
        assert result.labels == ("dog", "cat")
        assert np.isfinite(result.scores).all()

    def test_from_a_folder(self, family, tmp_path):
        module, extractor = tiny(family)
        module.save_pretrained(tmp_path)
        extractor.save_pretrained(tmp_path)
        raw_input = (sound(6000), 16000)
        first, second = (
            explain(rationales.load(*source), raw_input, options={"steps": 3}).scores
            for source in ((module, extractor), (tmp_path,))
        )
        assert np.array_equal(first, second)

    def test_model_is_left_as_it_was(self, family):
        module, extractor = tiny(family)
        module.train()
        requires_grad = [weight.requires_grad for weight in module.parameters()]
        explain(rationales.load(module, extractor), (sound(6000), 16000), options={"steps": 3})
        assert all(submodule.training for submodule in module.modules())
        assert [weight.requires_grad for weight in module.parameters()] == requires_grad


def test_silence_in_a_normalised_recording_is_what_silence_becomes():
    """The extractor takes (x - mean) / deviation; a silent sample in that recording is -mean / deviation."""
    module, extractor = tiny("wav2vec2")
    model = rationales.load(module, extractor)
    samples = sound(4000) + 0.2
    batch = model.batch(model.encode([model.read((samples, 16000), None)]))
    assert float(batch.baseline_values[0, 0]) == pytest.approx(-samples.mean() / samples.std(), rel=1e-4)


def test_a_folder_without_trained_weights(tmp_path):
    module, extractor = tiny("ast")
    module.audio_spectrogram_transformer.save_pretrained(tmp_path)
    extractor.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="no trained classifier: its configuration names ASTModel"):
        rationales.load(tmp_path)


def test_an_extractor_that_does_not_say_its_stride():
    module, extractor = tiny("ast")
    del extractor.max_length

    class Bare:
        sampling_rate = 16000
        model_input_names = ("input_values",)

        def __call__(self, samples, **_):
            return {"input_values": torch.zeros(1, 10, 16)}

    with pytest.raises(ModelError, match="does not say its hop length"):
        rationales.load(module, Bare())
