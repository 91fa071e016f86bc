"""The rows of the table: the paper's methods with its settings, further ones, MaRC's default, and controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rationales.errors import OptionError
from rationales.experiments.marc_table2.centred_gaussian import CentredGaussian
from rationales.methods import METHODS, Method, build

METRICS = ("sufficiency", "comprehensiveness", "inside-top", "pointing")
PAPER_METRICS = ("sufficiency", "comprehensiveness")
MARC, DEFAULT, RANDOM, GAUSSIAN = "marc", "marc-default", "random", "centred-gaussian"
BLUR = ("blur-10",)
# Less connected regions than the default's, and more faithful ones (docs/images.md, section on presets).
FINE_CELLS = {"cell": 8, "initial_sigma": 80.0, "mask_weight": 0.0, "steps": 200}
TRANSFORMER, CONVOLUTIONAL = "transformer", "convolutional"  # families of networks


@dataclass(frozen=True)
class PictureRow:
    """One row: a method with its settings."""

    key: str
    title: str
    group: str  # one of GROUPS
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    baselines: tuple[str, ...] = ()  # what replaces pixels; empty: those that the model says least about
    passes: float = 1.0  # about how many, for the order of the rows; of an optimisation, per step and baseline
    backward: bool = True  # whether a pass has a backward pass
    published: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # family -> PAPER_METRICS
    preset: str = ""  # of the method, where it has one of this name for images
    needs_relu: bool = False  # without ReLUs the row would be the plain gradient, another row

    def build(self) -> Method:
        """The method of this row."""
        if self.method == GAUSSIAN:
            return CentredGaussian()
        options = dict(self.options)
        if self.preset and self.preset in METHODS[self.method].presets.get("image", {}):
            options["preset"] = self.preset
        return build(self.method, options, "image")

    @property
    def registered(self) -> bool:
        """Whether the method is there at all."""
        return self.method == GAUSSIAN or self.method in METHODS


_LOGIT: dict[str, Any] = {"output": "logit"}  # as the published figures


def _figures(convolutional: tuple[float, float] | None, transformer: tuple[float, float] | None) -> dict[str, Any]:
    pairs = {CONVOLUTIONAL: convolutional, TRANSFORMER: transformer}
    return {family: figures for family, figures in pairs.items() if figures is not None}


_PAPER = (
    PictureRow(MARC, "MaRC, the paper's settings", "paper", "marc", {}, (), 6, True,
            _figures((0.196, 0.612), (0.139, 0.596))),
    PictureRow("m-perturb", "Meaningful perturbation", "paper", "meaningful-perturbation", {}, BLUR, 1, True,
            _figures((0.260, 0.605), (0.174, 0.572))),
    PictureRow("grad-cam", "Grad-CAM", "paper", "grad-cam", _LOGIT, (), 1, True,
            _figures((0.197, 0.600), (0.161, 0.640))),
    PictureRow("exc-bp", "Excitation backprop", "paper", "excitation-backprop", {}, (), 1, True,
            _figures((0.302, 0.600), None)),
    PictureRow("saliency", "Saliency", "paper", "saliency", _LOGIT, (), 1, True,
            _figures((0.442, 0.599), (0.355, 0.528))),
    PictureRow("input-x-gradient", "Input x gradient", "paper", "input-x-gradient", _LOGIT, (), 1, True,
            _figures((0.430, 0.586), (0.366, 0.506))),
    PictureRow("guided-bp", "Guided backpropagation", "paper", "guided-backpropagation", _LOGIT, (), 1, True,
            _figures((0.343, 0.630), None), needs_relu=True),
    PictureRow("integrated-gradients", "Integrated gradients", "paper", "integrated-gradients",
            {**_LOGIT, "steps": 100}, BLUR, 100, True, _figures((0.344, 0.641), (0.261, 0.641)), "paper"),
    PictureRow("occlusion", "Occlusion", "paper", "occlusion", {}, BLUR, 2401, False,
            _figures((0.324, 0.606), (0.194, 0.486)), "paper"),
    PictureRow("attention", "Attention", "paper", "raw-attention", {}, (), 1, False, _figures(None, (0.241, 0.562))),
    PictureRow("attribution", "Chefer's attribution", "paper", "chefer", {}, (), 1, True,
            _figures(None, (0.176, 0.608))),
    PictureRow("rollout", "Attention rollout", "paper", "attention-rollout", {}, (), 1, False,
            _figures(None, (0.205, 0.580))),
    PictureRow("tam", "Transition attention maps", "paper", "transition-attention", {}, (), 20, True,
            _figures(None, (0.146, 0.658)), "paper"),
)  # fmt: skip
_FURTHER = (
    PictureRow(DEFAULT, "MaRC, default settings", "further", "marc", {}, (), 4),
    PictureRow("marc-fine", "MaRC, cells of 8 pixels", "further", "marc", FINE_CELLS, (), 4),
    PictureRow("extremal", "Extremal perturbation", "further", "extremal-perturbation", {}, BLUR, 1),
    PictureRow("grad-cam-plus-plus", "Grad-CAM++", "further", "grad-cam-plus-plus"),
    PictureRow("score-cam", "Score-CAM", "further", "score-cam", {}, (), 1000, False),
    PictureRow("guided-grad-cam", "Guided Grad-CAM", "further", "guided-grad-cam", {}, (), 2),
    PictureRow("rise", "RISE", "further", "rise", {}, (), 4000, False, {}, "paper"),
    PictureRow("smooth-grad", "SmoothGrad", "further", "smooth-grad", _LOGIT, (), 50, True, {}, "paper"),
    PictureRow("gradient-shap", "GradientSHAP", "further", "gradient-shap", _LOGIT, BLUR, 25),
    PictureRow("lime", "LIME", "further", "lime", {}, BLUR, 1000, False, {}, "paper"),
    PictureRow("kernel-shap", "KernelSHAP", "further", "kernel-shap", {}, BLUR, 1024, False, {}, "paper"),
)
_CONTROLS = (
    PictureRow(GAUSSIAN, "Centred Gaussian", "controls", GAUSSIAN, {}, (), 0, False),
    PictureRow(RANDOM, "Random", "controls", "random", {}, (), 0, False),
)
ROWS: dict[str, PictureRow] = {spec.key: spec for spec in (*_PAPER, *_FURTHER, *_CONTROLS)}
PAPER_ROWS = tuple(spec.key for spec in _PAPER)
GROUPS = ("paper", "further", "controls")
# MaRC's settings and baselines, by family (appendix A.2)
MARC_PRESETS = {CONVOLUTIONAL: ("resnet", ("black", "white", "mean")), TRANSFORMER: ("vit", ("blur-20",))}


def names() -> list[str]:
    """The names that `--rows` accepts: groups, then rows whose method is there."""
    return [*GROUPS, *(key for key, spec in ROWS.items() if spec.registered)]


def select_rows(requested: Sequence[str] | None) -> list[PictureRow]:
    """The rows with these names or groups (None: all) whose method is registered, and always both controls.

    In the order of the table; `run` computes them from cheap to expensive.
    """
    selected = {RANDOM, GAUSSIAN} if requested is not None else set(ROWS)
    for name in requested or ():
        keys = [key for key, spec in ROWS.items() if name in (key, spec.group)]
        if not keys:
            raise OptionError(f"there is no row {name!r}; there are: {', '.join(names())}")
        if not ROWS[keys[0]].registered and name in ROWS:
            raise OptionError(f"the method of the row {name!r} ({ROWS[name].method}) is not there")
        selected.update(keys)
    return [spec for key, spec in ROWS.items() if key in selected and spec.registered]


def key_of(title: str) -> str | None:
    """The key of the row with this title."""
    return next((key for key, spec in ROWS.items() if spec.title == title), None)
