"""Methods, which turn rows and a target into one score per unit; `METHODS` lists them all."""

from __future__ import annotations

import sys
from types import ModuleType

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
from rationales.methods.perturbation.kernel_shap import KernelShap
from rationales.methods.perturbation.lime import Lime
from rationales.methods.perturbation.occlusion import Occlusion
from rationales.methods.perturbation.shapley_sampling import ShapleySampling
from rationales.methods.random import Random

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        Marc,
        MarcInstant,
        Saliency,
        InputXGradient,
        IntegratedGradients,
        GradientShap,
        SmoothGrad,
        DeepLift,
        GuidedBackpropagation,
        GradCam,
        Occlusion,
        Lime,
        KernelShap,
        ShapleySampling,
        Random,
    )
}


def methods() -> list[MethodInfo]:
    """Descriptions of all methods."""
    return [describe(method) for method in METHODS.values()]


def build(name: str, options: dict[str, object] | None = None, kind: str = "text") -> Method:
    """Method of this name with these options, for this kind of input."""
    if name not in METHODS:
        raise OptionError(f"there is no method {name!r}; there are: {', '.join(METHODS)}")
    return make(METHODS[name], options or {}, kind)


class _Listing(ModuleType):
    """Makes this package callable: once imported, it replaces the function `rationales.methods`."""

    def __call__(self) -> list[MethodInfo]:
        return methods()


sys.modules[__name__].__class__ = _Listing

__all__ = ["METHODS", "Attribution", "Method", "MethodInfo", "OptionInfo", "build", "methods"]
