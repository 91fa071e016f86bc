"""captum's methods on the words of a text, wired as its tutorials do: through `inputs_embeds`, from the PAD token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from captum import attr
from captum._utils.models.linear_model import SkLearnLinearRegression
from torch import Tensor

from rationales.models.text.model import TextModel
from rationales.models.text.tokens import TextInput

AT_ONCE = 32  # perturbations per forward pass


def attributions(model: TextModel, text: str, samples: int, permutations: int) -> dict[str, Callable[[], Tensor]]:
    """Method -> function that computes its attribution; all explain the probability of the predicted class."""
    batch = model.batch(model.encode([TextInput(text)]))
    if len(batch.ids) > 1:
        raise ValueError("captum is given texts of one segment")
    module: Any = model.networks[0].module
    target = int(batch.predict().argmax())
    words, empty = batch.input_embeddings(), batch.all_replaced()
    owner = batch.owner[0].clamp(max=batch.size[1])  # special tokens are one more feature
    feature = owner[None, :, None]

    def probabilities(embedded: Tensor) -> Tensor:
        masks = {"attention_mask": batch.attention.expand(len(embedded), -1)}
        if batch.types is not None:
            masks["token_type_ids"] = batch.types.expand(len(embedded), -1)
        outputs: Tensor = module(inputs_embeds=embedded, **masks).logits.softmax(-1)
        return outputs

    def frozen(work: Callable[[], Tensor]) -> Callable[[], Tensor]:
        def run() -> Tensor:
            with model.frozen():
                return work()

        return run

    gradients = attr.IntegratedGradients(probabilities)
    occlusion = attr.Occlusion(probabilities)
    lime = attr.Lime(probabilities, interpretable_model=SkLearnLinearRegression())
    shapley = attr.ShapleyValueSampling(probabilities)

    @torch.no_grad()
    def perturbed(method: Any, **options: Any) -> Tensor:
        common = {"baselines": empty, "target": target, "perturbations_per_eval": AT_ONCE}
        scores: Tensor = method.attribute(words, **common, **options)
        return scores

    width = words.shape[-1]
    return {
        "integrated gradients, 50 steps": frozen(lambda: gradients.attribute(words, empty, target, n_steps=50)),
        "occlusion, 5 tokens": frozen(
            lambda: perturbed(occlusion, sliding_window_shapes=(min(5, words.shape[1]), width), strides=(1, width))
        ),
        f"lime, {samples} samples": frozen(
            lambda: perturbed(lime, feature_mask=feature, n_samples=samples, show_progress=False)
        ),
        f"shapley sampling, {permutations}": frozen(
            lambda: perturbed(shapley, feature_mask=feature, n_samples=permutations)
        ),
    }
