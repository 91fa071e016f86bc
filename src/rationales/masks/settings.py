"""Every choice of the mask optimisation, by name; presets are sets of such choices."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from rationales.errors import OptionError
from rationales.options import check_option, option


@dataclass(frozen=True)
class MaskSettings:
    """Settings of MaRC; the defaults are the `default` preset."""

    steps: int = option(80, "optimisation steps at most")
    stop: str = option("plateau", "when an input is done before that", "steps", "plateau", "paper", "paper-images")
    rate: float = option(0.1, "learning rate of Adam")
    schedule: str = option("cosine", "how the rate goes over the steps: stays, or falls to 0", "constant", "cosine")
    decay: float = option(0.01, "weight decay of Adam (decoupled)")
    start_w: float = option(1.2, "initial w of every unit")
    start_sigma: float = option(2.0, "initial sigma of every unit, in units of distance")
    smallest_sigma: float = option(0.1, "sigma never falls below this")
    reach: float = option(0.125, "sigma never exceeds this share of a segment's units, but may be 1; 0: no limit")
    field: str = option("gaussian", "how w becomes keep: over neighbours, or unit by unit", "gaussian", "free")
    every: int = option(1, "on a grid, pixels along one side of the cell that shares a w and a sigma")
    kernel: str = option("sigma-squared", "what divides the squared distance (Eq. 5)", "sigma", "sigma-squared")
    indicative: float = option(
        0.0, "0: evidence for the target and against other classes; 1: any evidence for the target; between: a mix"
    )
    sufficiency: float = option(1.0, "weight of the rationale's own score (Eq. 2); 0 leaves it out")
    complement: float = option(1.0, "weight of the complement's score (Eq. 4); 0 leaves it out")
    complement_form: str = option(
        "bounded", "bounded: -log(1 - p); log-likelihood: log p as printed", "bounded", "log-likelihood"
    )
    floor: float = option(
        1.0,
        "in short inputs the complement need not fall below this share of what the baseline alone gives; 0: it must",
    )
    sparsity: float = option(1.0, "alpha_lambda, weight of the squared mean keep (Eq. 2); 0 leaves it out")
    width: float = option(1.2, "alpha_sigma, weight of the mean log sigma (Eq. 7); 0 leaves it out")
    neighbours: float = option(0.0, "alpha_NB, weight of the squared difference between neighbouring keeps (Eq. 9)")
    noise: float = option(0.06, "noise on the input, relative to its embedding's size; 0 leaves it out")
    flip: float = option(0.05, "share of keeps set to 0, and again to 1, in every step; 0 leaves it out")

    def __post_init__(self) -> None:
        for one in fields(self):
            check_option(one.name, getattr(self, one.name), str(one.type), one.metadata.get("choices") or ())
        for name in ("steps", "rate", "start_sigma", "smallest_sigma", "every"):
            if getattr(self, name) <= 0:
                raise OptionError(f"{name} must be greater than 0, not {getattr(self, name)}")
        for name in ("sufficiency", "complement", "sparsity", "width", "noise", "decay", "reach", "neighbours"):
            if getattr(self, name) < 0:
                raise OptionError(f"{name} must not be negative, but is {getattr(self, name)}")
        for name, most in (("indicative", 1.0), ("flip", 0.5), ("floor", 1.0)):
            if not 0 <= getattr(self, name) <= most:
                raise OptionError(f"{name} must lie between 0 and {most:g}, not {getattr(self, name)}")


# Appendix A.1, with what the published results used where the appendix is silent.
PAPER = MaskSettings(steps=900, stop="paper", rate=0.03, schedule="constant", reach=0.0, floor=0.0)
DEFAULT = MaskSettings()
# Appendix A.2; the baselines that go with it are black, white and mean, for `vit` blur-20.
RESNET = MaskSettings(
    steps=7500,
    stop="paper-images",
    rate=0.03,
    schedule="constant",
    decay=0.0,
    start_w=0.5,
    start_sigma=1.2,
    smallest_sigma=0.6,
    reach=0.0,
    kernel="sigma",
    indicative=0.1,
    floor=0.0,
    sparsity=0.6,
    neighbours=10.0,
    noise=0.0,
    flip=0.0,
)
VIT = replace(RESNET, indicative=0.0, sparsity=0.25)
# Few steps need few parameters: one w and sigma for 16 x 16 pixels, wide enough to overlap. Not tuned on data yet.
IMAGE = replace(
    RESNET, steps=150, stop="plateau", rate=0.2, schedule="cosine", every=16, start_w=0.0, start_sigma=160.0
)
PRESETS = {
    "text": {"default": DEFAULT, "paper": PAPER},
    "image": {"default": IMAGE, "resnet": RESNET, "vit": VIT},
}  # by the kind of input
