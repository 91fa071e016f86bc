"""Methods, which turn rows and a target into one score per unit; `METHODS` lists them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rationales.errors import OptionError
from rationales.methods.gradient.deep_lift import DeepLift
from rationales.methods.gradient.grad_cam import GradCam
from rationales.methods.gradient.gradient_shap import GradientShap
from rationales.methods.gradient.guided_backpropagation import GuidedBackpropagation
from rationales.methods.gradient.input_x_gradient import InputXGradient
from rationales.methods.gradient.integrated_gradients import IntegratedGradients
from rationales.methods.gradient.saliency import Saliency
from rationales.methods.gradient.smooth_grad import SmoothGrad
from rationales.methods.marc import Marc
from rationales.methods.marc_instant import MarcInstant
from rationales.methods.method import Attribution, Method, MethodInfo, OptionInfo, describe, make
from rationales.methods.perturbation.input_marginalization import InputMarginalization
from rationales.methods.perturbation.kernel_shap import KernelShap
from rationales.methods.perturbation.lime import Lime
from rationales.methods.perturbation.lime_bert import LimeBert
from rationales.methods.perturbation.lime_text import LimeText
from rationales.methods.perturbation.loo_empty import LooEmpty
from rationales.methods.perturbation.loo_pad import LooPad
from rationales.methods.perturbation.loo_unk import LooUnk
from rationales.methods.perturbation.occlusion import Occlusion
from rationales.methods.perturbation.shapley_sampling import ShapleySampling
from rationales.methods.random import Random
from rationales.options import suggestion

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        *(Marc, MarcInstant),
        *(Saliency, InputXGradient, IntegratedGradients, GradientShap, SmoothGrad, DeepLift, GuidedBackpropagation),
        *(GradCam, Occlusion, Lime, KernelShap, ShapleySampling),
        *(LooEmpty, LooPad, LooUnk, InputMarginalization, LimeText, LimeBert),
        Random,
    )
}


def list_methods() -> list[MethodInfo]:
    """Descriptions of all methods."""
    return [describe(method) for method in METHODS.values()]


def build(name: str, options: dict[str, object] | None = None, kind: str = "text") -> Method:
    """Method of this name with these options, for this kind of input."""
    if name not in METHODS:
        raise OptionError(f"there is no method {name!r}{suggestion(name, METHODS)}; there are: {', '.join(METHODS)}")
    return make(METHODS[name], options or {}, kind)


def resolve_method(method: str | Method, options: Mapping[str, Any] | None, kind: str) -> Method:
    """The method with this name and these options for inputs of this kind; a method object is taken as it is."""
    if isinstance(method, str):
        return build(method, dict(options or {}), kind)
    if not isinstance(method, Method):
        raise OptionError(f"a method is a name from 'rationales methods' or a rationales.Method, not {method!r}")
    if options:
        raise OptionError(f"{method.name} is an object with options of its own; set {', '.join(options)} on it instead")
    return method


__all__ = ["METHODS", "Attribution", "Method", "MethodInfo", "OptionInfo", "build", "list_methods", "resolve_method"]
