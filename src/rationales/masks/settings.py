"""Every choice of the mask optimisation, by name; presets are sets of such choices."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from rationales.errors import OptionError
from rationales.options import check_option, option

CELLS = 14  # along the longer side of a grid
LEFT_OUT = (  # what 0 switches off, or leaves to us
    *("sufficiency", "complement", "sparsity", "width", "noise", "decay", "reach", "neighbours", "own", "levels"),
    *("warm", "every", "start_sigma", "anchor", "halo", "shrink", "closing"),
)
OVERLAP = 2.5  # sigma in cells: what a source gives the next cell is exp(-1 / OVERLAP), two thirds


@dataclass(frozen=True)
class MaskSettings:
    """Settings of MaRC; the defaults are the `default` preset."""

    steps: int = option(50, "optimisation steps at most")
    stop: str = option("steps", "when an input is done before that", "steps", "plateau", "paper", "paper-images")
    rate: float = option(0.08, "learning rate of Adam")
    schedule: str = option("cosine", "how the rate goes over the steps: stays, or falls to 0", "constant", "cosine")
    decay: float = option(0.01, "weight decay of Adam (decoupled)")
    start_w: float = option(0.0, "initial w of every unit")
    start_sigma: float = option(1.5, "initial sigma, in units of distance; 0, on a grid: one that suits its cells")
    smallest_sigma: float = option(0.1, "sigma never falls below this")
    reach: float = option(0.125, "sigma never exceeds this share of a segment's units, but may be 1; 0: no limit")
    field: str = option("gaussian", "how w becomes keep: over neighbours, or unit by unit", "gaussian", "free")
    every: int = option(
        1, "on a grid, pixels along one side of the cell that shares a w and a sigma; 0: so that there are 14 in a row"
    )
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
    views: str = option("all", "the baselines that a step looks at: all, or one after the other in turn", "all", "turn")
    own: float = option(0.0, "weight of the loss of the mask itself, whose size sparsity decides; 0 leaves it out")
    levels: float = option(1.0, "weight of the loss at a size of the mask that every step draws anew; 0 leaves it out")
    level_form: str = option(
        "log-odds", "what counts at a level: -log p, -p itself, or minus the log-odds", "log", "linear", "log-odds"
    )
    small: float = option(1.0, "above 1, small sizes are drawn more often: a random number to this power")
    softness: float = option(0.6, "at a level, how soft the mask's edge is, in standard deviations of the field")
    warm: int = option(20, "steps that only collect the gradient that w then starts from")
    warm_size: float = option(1.0, "standard deviation of w after that")
    anchor: float = option(
        2.0, "weight of what these steps collected, smoothed, beside the optimised field; 0 leaves it out"
    )
    anchor_sigma: float = option(4.0, "how wide that is smoothed, in units of distance")
    halo: float = option(
        4.0, "in long inputs, weight of the mean positive field around a unit, beside its own; 0: none"
    )
    halo_sigma: float = option(10.0, "how far around that is, in units of distance")
    shrink: float = option(
        0.75, "in long inputs, a unit's own value counts only beyond so many standard deviations from the mean; 0: all"
    )
    closing: int = option(
        5, "in long texts, gaps of fewer words than this between high values are filled up to the lower side; 0: none"
    )
    precision: str = option(
        "auto",
        "of the network in a step: bfloat16 where that is faster, or the model's own",
        "auto",
        "full",
        "bfloat16",
    )
    flip: float = option(0.05, "share of keeps set to 0, and again to 1, in every step; 0 leaves it out")

    def __post_init__(self) -> None:
        for one in fields(self):
            check_option(one.name, getattr(self, one.name), str(one.type), one.metadata.get("choices") or ())
        for name in ("steps", "rate", "smallest_sigma", "softness", "small", "warm_size", "anchor_sigma", "halo_sigma"):
            if getattr(self, name) <= 0:
                raise OptionError(f"{name} must be greater than 0, not {getattr(self, name)}")
        for name in LEFT_OUT:
            if getattr(self, name) < 0:
                raise OptionError(f"{name} must not be negative, but is {getattr(self, name)}")
        if self.own == 0 and self.levels == 0:
            raise OptionError("own and levels must not both be 0: there would be nothing to optimise")
        for name, most in (("indicative", 1.0), ("flip", 0.5), ("floor", 1.0)):
            if not 0 <= getattr(self, name) <= most:
                raise OptionError(f"{name} must lie between 0 and {most:g}, not {getattr(self, name)}")

    def on(self, grid: tuple[int, int] | None) -> MaskSettings:
        """What these settings mean for units on this grid, or on a line: cells, their sigma and the first steps."""
        every = self.every or (1 if grid is None else max(1, round(max(grid) / CELLS)))
        power = 1 if self.kernel == "sigma" else 2
        wide = 2.0 if grid is None else (OVERLAP * every**2) ** (1 / power)
        sigma = max(self.start_sigma or wide, self.smallest_sigma)
        warm = min(self.warm, self.steps // 3)
        anchor = self.anchor if warm else 0.0
        return replace(self, every=every, start_sigma=sigma, warm=warm, anchor=anchor)


DEFAULT = MaskSettings()
# Every word by itself at any length: what decides, not what people would mark around it (docs/marc.md).
WORDS = replace(DEFAULT, field="free", anchor=0.0, halo=0.0, shrink=0.0, closing=0)
# One mask, whose size the sparsity term decides, from a flat start: what the paper has.
ONE_MASK = replace(
    DEFAULT,
    steps=80,
    stop="plateau",
    rate=0.1,
    own=1.0,
    levels=0.0,
    level_form="log",
    softness=0.3,
    start_w=1.2,
    start_sigma=2.0,
    warm=0,
    anchor=0.0,
    halo=0.0,
    shrink=0.0,
    closing=0,
)
# Appendix A.1, with what the published results used where the appendix is silent.
PAPER = replace(
    ONE_MASK,
    steps=900,
    stop="paper",
    rate=0.03,
    schedule="constant",
    reach=0.0,
    floor=0.0,
    precision="full",
)
# Appendix A.2; the baselines that go with it are black, white and mean, for `vit` blur-20.
RESNET = replace(
    PAPER,
    steps=7500,
    stop="paper-images",
    decay=0.0,
    start_w=0.5,
    start_sigma=1.2,
    smallest_sigma=0.6,
    kernel="sigma",
    indicative=0.1,
    sparsity=0.6,
    neighbours=10.0,
    noise=0.0,
    flip=0.0,
)
VIT = replace(RESNET, indicative=0.0, sparsity=0.25)
# Few steps need few parameters: one w and sigma for a cell of 16 x 16 pixels in 224, started from the gradients
# of the first steps; beside the mask's own size any other, on one baseline after the other (docs/images.md).
IMAGE = replace(
    RESNET,
    steps=120,
    stop="steps",
    rate=0.2,
    schedule="cosine",
    every=0,
    start_w=0.0,
    start_sigma=0.0,
    sparsity=1.0,
    neighbours=0.0,
    views="turn",
    own=0.3,
    levels=1.0,
    softness=0.1,
    warm=24,
    precision="auto",
)
# A frame is a unit of a line, as a word is; a spectrogram is a grid of time and frequency. Both are held to a known
# cause in tests/models/test_audio.py, and not tuned further.
AUDIO = replace(ONE_MASK, floor=0.0, start_sigma=3.0, noise=0.0)
SPECTROGRAM = replace(AUDIO, every=4, start_w=0.5, start_sigma=6.0, reach=0.0)
PRESETS = {
    "text": {"default": DEFAULT, "words": WORDS, "paper": PAPER},
    "image": {"default": IMAGE, "resnet": RESNET, "vit": VIT},
    "audio": {"default": AUDIO},
    "spectrogram": {"default": SPECTROGRAM},
}  # by the kind of input
