"""The attribution methods that are compared: the paper's five, MaRC in several variants, and further methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rationales.groundtruth.explainable import Inherent
from rationales.methods import METHODS, Method, build
from rationales.models.image.baseline_choice import BASELINE_COUNT, CANDIDATES

RANDOM, MARC, INHERENT = "random", "marc", Inherent.name
EXPENSIVE = "expensive"  # a group of methods that run only on request
INSIDE = "inside"  # methods that look inside an encoder, and maskers that are encoders; for the network bert
BEST_BASELINE = "best-baseline"  # the group of methods whose baseline is chosen on validation pictures
RULE, PICTURES = "rule", "pictures"  # baselines: three by the rule for each picture; several test pictures
OCCLUSION_DIVISIONS = 7  # occlusion replaces squares whose side is this fraction of the picture's


@dataclass(frozen=True)
class MethodSpec:
    """One row: a method, its options, and the baselines that replaced pixels get."""

    key: str
    title: str
    group: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    baselines: tuple[str, ...] = ()  # names; empty: for each picture the three that tell the model least
    background: int = 0  # use this number of test pictures as baselines instead
    cost: float = 3.0  # forward passes per input, roughly; methods run in the order of their cost
    alternatives: tuple[MethodSpec, ...] = ()  # the method with other baselines; the best on validation inputs is used

    @property
    def output(self) -> str | None:
        """The output of the model that is explained; None for methods without this option."""
        output: str | None = self.options.get("output", getattr(METHODS.get(self.method), "output", None))
        return output

    def build_method(self, kind: str, size: int = 0) -> Method:
        """The method for a kind of model; `size`: side of the pictures in pixels."""
        if self.method == Inherent.name:
            return Inherent()
        options = dict(self.options)
        if self.method == "occlusion" and kind == "image":
            window, stride = size // OCCLUSION_DIVISIONS, size // (2 * OCCLUSION_DIVISIONS)
            options = {"window": max(2, window), "stride": max(1, stride)}
        return build(self.method, options, kind)


# The paper's gradient is that of the predicted class's logit (appendix B.2).
_LOGIT: dict[str, Any] = {"output": "logit"}
_SUPER_PIXELS: dict[str, Any] = {"segments": "quickshift"}
_MEAN = ("mean",)  # a single baseline for methods that draw 1,000 samples
_STEPS = 120
_RANDOM = MethodSpec(RANDOM, "Random", "chance", "random", cost=0)
SHAP_SAMPLES = 200  # gradients that SHAP averages, over all baselines together


def with_best_baseline(spec: MethodSpec) -> MethodSpec:
    """The method with the baseline that serves it best on validation pictures, of all candidates of the rule and more.

    Every candidate alone, the three that the rule chooses for each picture, and as many pictures (for SHAP, as in the
    paper, the whole set).
    """
    count = spec.background or BASELINE_COUNT
    choices: list[tuple[str, tuple[str, ...], int]] = [(name, (name,), 0) for name in CANDIDATES]
    alternatives = []
    for key, baselines, background in (*choices, (RULE, (), 0), (PICTURES, (), count)):
        options = dict(spec.options)
        if spec.method == "gradient-shap":
            options["samples"] = SHAP_SAMPLES // (len(baselines) or background or BASELINE_COUNT)
        alternatives.append(
            replace(spec, key=key, title=key, options=options, baselines=baselines, background=background)
        )
    return replace(
        spec,
        key=f"{spec.key}-best",
        title=f"{spec.title}, best baseline",
        group=BEST_BASELINE,
        baselines=(),
        background=0,
        alternatives=tuple(alternatives),
    )


# Appendix B.2: SmoothGrad with 50 copies, LIME with its default of 1,000 samples, SHAP's GradientExplainer with its
# default of 200 samples and the test set as background: about 200 pictures, each of which is used once. LIME and
# KernelSHAP use LIME's super-pixels.
_PICTURE_METHODS: dict[str, MethodSpec] = {
    spec.key: spec
    for spec in (
        MethodSpec("gradient", "Gradient", "paper", "saliency", _LOGIT),
        MethodSpec("smooth-grad", "SmoothGrad", "paper", "smooth-grad", _LOGIT | {"samples": 50}, cost=150),
        MethodSpec("grad-cam", "GradCAM", "paper", "grad-cam", _LOGIT),
        MethodSpec("lime", "LIME", "paper", "lime", _SUPER_PIXELS | {"samples": 1000}, _MEAN, cost=1000),
        MethodSpec("shap", "SHAP", "paper", "gradient-shap", _LOGIT | {"samples": 1, "noise": 0.0},
                   background=SHAP_SAMPLES, cost=600),
        MethodSpec(MARC, "MaRC", "marc", "marc", cost=12 * _STEPS),
        MethodSpec("marc-mask-only", "MaRC, mask alone", "marc", "marc", {"mask_weight": 1.0, "level_weight": 0.0},
                   cost=6 * _STEPS),
        MethodSpec("marc-indicative", "MaRC, indicative", "marc", "marc", {"indicative": 1.0}, cost=12 * _STEPS),
        MethodSpec("input-x-gradient", "Input x gradient", "others", "input-x-gradient", _LOGIT),
        MethodSpec("integrated-gradients", "Integrated gradients", "others", "integrated-gradients", _LOGIT, cost=450),
        MethodSpec("gradient-shap", "GradientSHAP, three baselines", "others", "gradient-shap", _LOGIT, cost=225),
        MethodSpec("deep-lift", "DeepLift", "others", "deep-lift", _LOGIT, cost=18),
        MethodSpec("guided-backpropagation", "Guided backpropagation", "others", "guided-backpropagation", _LOGIT),
        MethodSpec("occlusion", "Occlusion", "others", "occlusion", cost=500),
        MethodSpec("kernel-shap", "KernelSHAP", "others", "kernel-shap", _SUPER_PIXELS | {"samples": 1024}, _MEAN,
                   cost=1024),
        MethodSpec("shapley-sampling", "Shapley sampling", EXPENSIVE, "shapley-sampling",
                   {"orders": 5}, _MEAN, cost=1000),
        MethodSpec("marc-resnet", "MaRC, the paper's settings", EXPENSIVE, "marc",
                   {"preset": "resnet", "steps": 1000}, ("black", "white", "mean"), cost=18_000),
    )
}  # fmt: skip
_WITH_BASELINES = ("lime", "shap", MARC, "integrated-gradients", "deep-lift", "occlusion", "kernel-shap")
PICTURE_METHODS: dict[str, MethodSpec] = {
    **_PICTURE_METHODS,
    **{spec.key: spec for spec in (with_best_baseline(_PICTURE_METHODS[key]) for key in _WITH_BASELINES)},
    RANDOM: _RANDOM,
}
TEXT_METHODS: dict[str, MethodSpec] = {
    spec.key: spec
    for spec in (
        MethodSpec(INHERENT, "The model's own", "paper", Inherent.name, cost=1),
        MethodSpec(MARC, "MaRC", "marc", "marc", cost=480),
        MethodSpec("marc-words", "MaRC, word by word", "marc", "marc", {"preset": "words"}, cost=480),
        MethodSpec("marc-indicative", "MaRC, indicative", "marc", "marc", {"indicative": 1.0}, cost=480),
        MethodSpec("loo", "Leave one out", "others", "occlusion", {"window": 1}, cost=100),
        MethodSpec("integrated-gradients", "Integrated gradients", "others", "integrated-gradients", _LOGIT, cost=150),
        MethodSpec("gradient", "Gradient", "others", "saliency", _LOGIT),
        MethodSpec("input-x-gradient", "Input x gradient", "others", "input-x-gradient", _LOGIT),
        MethodSpec("gradient-shap", "GradientSHAP", "others", "gradient-shap", _LOGIT, cost=75),
        MethodSpec("smooth-grad", "SmoothGrad", "others", "smooth-grad", _LOGIT, cost=75),
        MethodSpec("occlusion", "Occlusion of five words", "others", "occlusion", {"window": 5}, cost=100),
        MethodSpec("lime", "LIME", "others", "lime", cost=1000),
        MethodSpec("kernel-shap", "KernelSHAP", "others", "kernel-shap", cost=1024),
        MethodSpec("raw-attention", "Raw attention", INSIDE, "raw-attention"),
        MethodSpec("attention-rollout", "Attention rollout", INSIDE, "attention-rollout"),
        MethodSpec("chefer", "Chefer's attribution", INSIDE, "chefer", _LOGIT),
        MethodSpec("alti", "ALTI", INSIDE, "alti", cost=4),
        MethodSpec("globenc", "GlobEnc", INSIDE, "globenc", cost=4),
        MethodSpec("decompx", "DecompX", INSIDE, "decompx", _LOGIT, cost=5),
        MethodSpec("sequential-ig", "Sequential IG", INSIDE, "sequential-ig", _LOGIT | {"steps": 10}, cost=3000),
        MethodSpec("aml-pretrained", "pAML", INSIDE, "aml-pretrained", cost=4000),  # with the training of its masker
        MethodSpec("aml-finetuned", "fAML", INSIDE, "aml-finetuned", cost=4001),
        MethodSpec("shapley-sampling", "Shapley sampling", EXPENSIVE, "shapley-sampling", {"orders": 10}, cost=1000),
        MethodSpec("marc-paper", "MaRC, the paper's settings", EXPENSIVE, "marc", {"preset": "paper"}, cost=1800),
        _RANDOM,
    )
}  # fmt: skip
PAPER_METHODS = tuple(key for key, spec in PICTURE_METHODS.items() if spec.group == "paper")
MARC_METHODS = tuple(key for key, spec in PICTURE_METHODS.items() if spec.group == "marc")


def by_cost(specs: Mapping[str, MethodSpec], keys: Sequence[str]) -> list[MethodSpec]:
    """The methods of these keys, the cheapest first."""
    return sorted((specs[key] for key in keys), key=lambda spec: (spec.cost, spec.key))
