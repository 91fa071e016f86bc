"""Methods, which turn rows and a target into one score per unit; `METHODS` lists them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from rationales.errors import OptionError
from rationales.methods.aml_finetuned import AmlFinetuned
from rationales.methods.aml_pretrained import AmlPretrained
from rationales.methods.attention.alti import Alti
from rationales.methods.attention.attention_rollout import AttentionRollout
from rationales.methods.attention.chefer import Chefer
from rationales.methods.attention.decompx import DecompX
from rationales.methods.attention.globenc import GlobEnc
from rationales.methods.attention.raw_attention import RawAttention
from rationales.methods.attention.transition_attention import TransitionAttention
from rationales.methods.cam.grad_cam import GradCam
from rationales.methods.cam.grad_cam_plus_plus import GradCamPlusPlus
from rationales.methods.cam.guided_grad_cam import GuidedGradCam
from rationales.methods.cam.score_cam import ScoreCam
from rationales.methods.gradient.deep_lift import DeepLift
from rationales.methods.gradient.excitation_backprop import ExcitationBackprop
from rationales.methods.gradient.gradient_shap import GradientShap
from rationales.methods.gradient.guided_backpropagation import GuidedBackpropagation
from rationales.methods.gradient.input_x_gradient import InputXGradient
from rationales.methods.gradient.integrated_gradients import IntegratedGradients
from rationales.methods.gradient.saliency import Saliency
from rationales.methods.gradient.sequential_ig import SequentialIg
from rationales.methods.gradient.smooth_grad import SmoothGrad
from rationales.methods.llm_ranking import LlmRanking
from rationales.methods.marc import Marc
from rationales.methods.marc_instant import MarcInstant
from rationales.methods.mask.extremal_perturbation import ExtremalPerturbation
from rationales.methods.mask.meaningful_perturbation import MeaningfulPerturbation
from rationales.methods.method import Attribution, Method
from rationales.methods.perturbation.input_marginalization import InputMarginalization
from rationales.methods.perturbation.kernel_shap import KernelShap
from rationales.methods.perturbation.lime import Lime
from rationales.methods.perturbation.lime_bert import LimeBert
from rationales.methods.perturbation.lime_text import LimeText
from rationales.methods.perturbation.loo_empty import LooEmpty
from rationales.methods.perturbation.loo_pad import LooPad
from rationales.methods.perturbation.loo_unk import LooUnk
from rationales.methods.perturbation.occlusion import Occlusion
from rationales.methods.perturbation.rise import Rise
from rationales.methods.perturbation.shapley_sampling import ShapleySampling
from rationales.methods.perturbation.solvex import Solvex
from rationales.methods.random import Random
from rationales.options import check_option, suggestion

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        *(Marc, MarcInstant, AmlPretrained, AmlFinetuned, MeaningfulPerturbation, ExtremalPerturbation),
        *(Saliency, InputXGradient, IntegratedGradients, GradientShap, SmoothGrad, DeepLift, GuidedBackpropagation),
        *(SequentialIg, GradCam, GradCamPlusPlus, ScoreCam, GuidedGradCam, ExcitationBackprop),
        *(Occlusion, Rise, Lime, KernelShap, ShapleySampling, Solvex),
        *(LooEmpty, LooPad, LooUnk, InputMarginalization, LimeText, LimeBert),
        *(RawAttention, AttentionRollout, Chefer, TransitionAttention, Alti, GlobEnc, DecompX),
        *(LlmRanking, Random),
    )
}


ALIASES: dict[str, str] = {"attention": RawAttention.name, "rollout": AttentionRollout.name}  # other names of methods


@dataclass(frozen=True)
class OptionInfo:
    """Description of an option."""

    name: str
    type: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class MethodInfo:
    """Description of a method."""

    name: str
    summary: str
    needs: tuple[str, ...]
    presets: Mapping[str, tuple[str, ...]]  # by the kind of input
    options: tuple[OptionInfo, ...]
    aliases: tuple[str, ...] = ()


def list_methods() -> list[MethodInfo]:
    """Descriptions of all methods."""
    return [describe(method) for method in METHODS.values()]


def describe(method: type[Method]) -> MethodInfo:
    """Description of a method, as `rationales methods` prints it."""
    options = []
    for spec in fields(method):
        line, choices = spec.metadata.get("help", ""), spec.metadata.get("choices", ())
        options.append(OptionInfo(spec.name, str(spec.type), spec.default, line, choices))
    presets = {kind: tuple(named) for kind, named in method.presets.items()}
    aliases = tuple(alias for alias, name in ALIASES.items() if name == method.name)
    return MethodInfo(method.name, method.summary, method.needs, presets, tuple(options), aliases)


def find_method(name: str) -> type[Method] | None:
    """The method of this name or alias; None if there is none."""
    return METHODS.get(ALIASES.get(name, name))


def build(name: str, options: dict[str, object] | None = None, kind: str = "text") -> Method:
    """Method of this name with these options, for this kind of input."""
    method = find_method(name)
    if method is None:
        raise OptionError(f"there is no method {name!r}{suggestion(name, METHODS)}; there are: {', '.join(METHODS)}")
    return make(method, options or {}, kind)


def make(method: type[Method], options: Mapping[str, Any], kind: str = "text") -> Method:
    """Method with these options for this kind of input; the option `preset` sets the others."""
    values = dict(options)
    presets = method.presets.get(kind, {})
    preset = values.pop("preset", "default" if presets else None)
    if preset is not None and preset not in presets:
        known, similar = ", ".join(presets) or "none", suggestion(preset, presets)
        message = f"{method.name} has no preset {preset!r} for this kind of input{similar}"
        raise OptionError(f"{message}; its presets are: {known}")
    known_fields = {spec.name: spec for spec in fields(method)}
    for name, value in values.items():
        if name not in known_fields:
            names = [*known_fields, *(["preset"] if method.presets else [])]
            known, similar = ", ".join(names) or "none", suggestion(name, names)
            raise OptionError(f"{method.name} has no option {name!r}{similar}; its options are: {known}")
        spec = known_fields[name]
        check_option(name, value, str(spec.type), spec.metadata.get("choices", ()))
    base = method(**(presets[preset] if preset is not None else {}))
    return replace(base, **values)


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
