"""The explain function of Quantus: arrays in, arrays out; and the faithfulness metrics of Quantus run on our scores."""

from __future__ import annotations

import numpy as np
import pytest
from quadrants import Quadrants, bright_images

from rationales.integrations.quantus import explain

METRICS = {  # name in Quantus -> its arguments, and whether higher is better
    "FaithfulnessCorrelation": ({"nr_runs": 30, "subset_size": 48}, True),
    "FaithfulnessEstimate": ({"features_in_step": 32}, True),
    "MonotonicityCorrelation": ({"features_in_step": 32, "nr_samples": 3}, True),
    "PixelFlipping": ({"features_in_step": 32}, False),
    "Selectivity": ({"patch_size": 4}, None),
    "SensitivityN": ({"features_in_step": 64, "n_max_percentage": 0.8}, None),
}


@pytest.mark.parametrize(
    "method", ["marc", "saliency", "integrated-gradients", "occlusion", "lime", "kernel-shap", "random"]
)
def test_the_explain_function_of_quantus_takes_arrays_and_gives_an_array_of_their_shape(method):
    images = bright_images().numpy()
    options = {"marc": {"steps": 30}, "occlusion": {"window": 4, "stride": 4}}.get(method, {})
    scores = explain(
        Quadrants(), images, np.array([0, 1, 2]), method=method, options=options, device="cpu", softmax=True
    )
    assert scores.shape == images.shape
    assert np.isfinite(scores).all()
    if method != "random":
        means = np.abs(scores).sum(1).reshape(3, 2, 8, 2, 8).sum((2, 4)).reshape(3, 4)
        assert means.argmax(1).tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", METRICS)
def test_a_faithfulness_metric_of_quantus_prefers_us_to_chance(name):
    quantus = pytest.importorskip("quantus", reason="Quantus is not installed")
    arguments, higher_is_better = METRICS[name]
    metric = getattr(quantus, name)(perturb_baseline="black", disable_warnings=True, **arguments)
    means = {}
    for method in ("marc", "random"):
        values = metric(
            model=Quadrants().eval(),
            x_batch=bright_images().numpy(),
            y_batch=np.array([0, 1, 2]),
            a_batch=None,
            explain_func=explain,
            explain_func_kwargs={"method": method, "options": {"steps": 30} if method == "marc" else {}},
            device="cpu",
        )
        means[method] = np.mean([np.mean(value) for value in (values.values() if isinstance(values, dict) else values)])
    assert np.isfinite(list(means.values())).all()
    if higher_is_better is not None:
        assert (means["marc"] > means["random"]) == higher_is_better
