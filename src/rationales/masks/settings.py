"""Settings of the mask optimisation and their presets."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rationales.errors import OptionError
from rationales.options import check_settings, option

CELLS = 14  # along the longer side of a grid, where `cell` is 0
BOUNDED_CELLS = 28  # the same for bounded fields, as Fong and Vedaldi (2017) have
BOUNDED_FIELDS = ("upsampled", "max-convolution")  # w is itself in [0, 1]: keeps of cells, not weights of a sum
NON_NEGATIVE = (  # options that may be 0: the term is left out, or the value is chosen automatically
    *("sufficiency", "complement", "sparsity", "sigma_weight", "noise", "weight_decay", "max_sigma_share"),
    *("neighbour_weight", "mask_weight", "level_weight", "warmup_steps", "cell", "initial_sigma"),
    *("anchor", "halo", "shrink", "closing", "blur", "jitter", "l1_weight", "tv_weight", "area"),
)
POSITIVE = (
    *("steps", "draws", "learning_rate", "min_sigma", "softness", "level_power", "warmup_scale"),
    *("anchor_sigma", "halo_sigma", "span_sigma", "tv_power", "area_weight"),
)
OVERLAP = 2.5  # initial sigma in cells: the kernel's value at the next cell is exp(-1 / OVERLAP), two thirds


@dataclass(frozen=True)
class MaskSettings:
    """Settings of MaRC; the defaults are the `default` preset."""

    steps: int = option(18, "largest number of optimisation steps")
    stop: str = option("steps", "rule that ends an input's optimisation", "steps", "plateau", "paper", "paper-images")
    learning_rate: float = option(0.12, "learning rate of Adam")
    schedule: str = option("cosine", "learning rate over the steps: constant, or falling to 0", "constant", "cosine")
    weight_decay: float = option(0.01, "weight decay of Adam (decoupled)")
    initial_w: float = option(0.0, "initial w of every unit")
    initial_sigma: float = option(1.5, "initial sigma, in units of distance; 0, on a grid: derived from the cell size")
    min_sigma: float = option(0.1, "lower bound of sigma")
    max_sigma_share: float = option(0.125, "upper bound of sigma: share of a segment's units, at least 1; 0: no bound")
    field: str = option(
        "free",
        "how w becomes keep: Gaussian field, each unit by itself, or keeps of cells up-sampled and blurred, or their "
        "smooth maximum around a unit",
        "gaussian",
        "free",
        *BOUNDED_FIELDS,
    )
    word_field: str = option(
        "free", "for words beside pixels: how w becomes keep, as a Gaussian field or by itself", "gaussian", "free"
    )
    cell: int = option(
        1,
        "on a grid: side in pixels of the cell that shares one w and one sigma; 0: 14 cells along the longer side, 28 "
        "of bounded fields",
    )
    blur: float = option(0.625, "of a bounded field: standard deviation of its kernel, in cells; 0: none")
    jitter: float = option(0.0, "largest shift of the mask against the input in a step, in cells; 0: none")
    kernel: str = option("sigma-squared", "divisor of the squared distance (Eq. 5)", "sigma", "sigma-squared")
    indicative: float = option(
        0.0, "0: evidence for the target and against other classes; 1: any evidence for the target; between: a mix"
    )
    sufficiency: float = option(1.0, "weight of the rationale's score (Eq. 2); 0 leaves it out")
    complement: float = option(1.0, "weight of the complement's score (Eq. 4); 0 leaves it out")
    complement_form: str = option(
        "bounded", "bounded: -log(1 - p); log-likelihood: log p as printed", "bounded", "log-likelihood"
    )
    complement_floor: float = option(
        1.0, "in short inputs: lower bound of the complement's score, as a share of the baseline's score; 0: no bound"
    )
    sparsity: float = option(1.0, "alpha_lambda, weight of the squared mean keep (Eq. 2); 0 leaves it out")
    sigma_weight: float = option(1.2, "alpha_sigma, weight of the mean log sigma (Eq. 7); 0 leaves it out")
    neighbour_weight: float = option(0.0, "alpha_NB, weight of squared differences of neighbouring keeps (Eq. 9)")
    l1_weight: float = option(0.0, "of a bounded field: weight of the sum of all cells; 0 leaves it out")
    tv_weight: float = option(
        0.0, "of a bounded field: weight of the differences of neighbouring cells to the power tv_power; 0: none"
    )
    tv_power: float = option(3.0, "beta, exponent of the differences of neighbouring cells")
    area: float = option(0.0, "share of the units that the mask must keep, by a penalty on its sorted values; 0: none")
    area_weight: float = option(1000.0, "with area: weight of its penalty, reached after half of the steps")
    noise: float = option(0.06, "noise on the input, relative to the size of its embedding; 0 leaves it out")
    views: str = option("all", "baselines used in a step: all, or one after the other in turn", "all", "turn")
    mask_weight: float = option(0.0, "weight of the loss of the mask itself, whose size sparsity decides; 0: none")
    level_weight: float = option(1.0, "weight of the loss at a mask size drawn anew in every step; 0: none")
    level_form: str = option(
        "log-odds", "loss at a drawn size: -log p, -p, or minus the log-odds", "log", "linear", "log-odds"
    )
    mask_form: str = option(
        "log", "loss of the mask itself: -log p, -p, or minus the log-odds", "log", "linear", "log-odds"
    )
    draws: int = option(2, "mask sizes that are drawn in every step; their mean loss counts")
    level_power: float = option(1.0, "exponent of the uniform number that a size is drawn from; above 1: small sizes")
    softness: float = option(0.6, "at a drawn size: softness of the mask's edge, in standard deviations of the field")
    warmup_steps: int = option(
        6, "first steps, which only collect the gradient that w then starts from; at most a third of all steps"
    )
    warmup_scale: float = option(1.0, "standard deviation of w after the warm-up")
    shaping: str = option(
        "spans",
        "what halo, shrink and closing shape: the spans of the rationale, beside scores word by word, or the scores",
        "spans",
        "scores",
    )
    span_sigma: float = option(1.5, "with shaping=spans: sigma that the field is smoothed with before spans are shaped")
    anchor: float = option(
        2.0,
        "weight of the smoothed warm-up gradient beside the field: in spans, or in a Gaussian field itself; 0: none",
    )
    anchor_sigma: float = option(4.0, "sigma of that smoothing, in units of distance")
    halo: float = option(
        4.0, "in long inputs: weight of the mean positive field around a unit, added to its value; 0: none"
    )
    halo_sigma: float = option(10.0, "sigma of the halo, in units of distance")
    shrink: float = option(
        0.75, "in long inputs: soft threshold of a unit's value, in standard deviations from the mean; 0: none"
    )
    closing: int = option(
        5, "in long texts: gaps of fewer words than this between high values are filled up to the lower side; 0: none"
    )
    precision: str = option(
        "auto",
        "of the network in a step: bfloat16 where that is faster, or the model's own",
        "auto",
        "full",
        "bfloat16",
    )
    flip_share: float = option(0.05, "share of keeps set to 0, and again to 1, in every step; 0 leaves it out")

    def __post_init__(self) -> None:
        check_settings(self, POSITIVE, NON_NEGATIVE)
        if self.mask_weight == 0 and self.level_weight == 0:
            raise OptionError("mask_weight and level_weight must not both be 0: there would be nothing to optimise")
        if (self.l1_weight or self.tv_weight) and self.field not in BOUNDED_FIELDS:
            raise OptionError(f"l1_weight and tv_weight need field={' or '.join(BOUNDED_FIELDS)}, not {self.field}")
        for name, limit in (("indicative", 1.0), ("flip_share", 0.5), ("complement_floor", 1.0), ("area", 1.0)):
            if not 0 <= getattr(self, name) <= limit:
                raise OptionError(f"{name} must lie between 0 and {limit:g}, not {getattr(self, name)}")

    def on(self, grid: tuple[int, int] | None) -> MaskSettings:
        """Settings with cell, initial sigma and warm-up resolved for units on this grid, or on a line (None)."""
        cells = BOUNDED_CELLS if self.field in BOUNDED_FIELDS else CELLS
        cell = self.cell or (1 if grid is None else max(1, round(max(grid) / cells)))
        power = 1 if self.kernel == "sigma" else 2
        default_sigma = 2.0 if grid is None else (OVERLAP * cell**2) ** (1 / power)
        sigma = max(self.initial_sigma or default_sigma, self.min_sigma)
        warmup_steps = min(self.warmup_steps, self.steps // 3)
        anchor = self.anchor if warmup_steps else 0.0
        return replace(self, cell=cell, initial_sigma=sigma, warmup_steps=warmup_steps, anchor=anchor)


DEFAULT = MaskSettings()
_UNSHAPED = replace(DEFAULT, anchor=0.0, halo=0.0, shrink=0.0, closing=0)
# The words that decide, at any length, and no spans around them (docs/marc.md).
WORDS = _UNSHAPED
# One Gaussian field for the scores and the rationale, shaped as people mark clauses. Its widths need many small steps.
_SMALL_STEPS = replace(DEFAULT, steps=50, draws=1, learning_rate=0.08, warmup_steps=20)
CLAUSES = replace(_SMALL_STEPS, field="gaussian", shaping="scores")
# One mask, whose size the sparsity term decides, from a uniform start, as in the paper.
_MASK_LOSS = replace(
    _UNSHAPED,
    field="gaussian",
    shaping="scores",
    mask_weight=1.0,
    level_weight=0.0,
    level_form="log",
    softness=0.3,
    draws=1,
    warmup_steps=0,
)
ONE_MASK = replace(_MASK_LOSS, steps=80, stop="plateau", learning_rate=0.1, initial_w=1.2, initial_sigma=2.0)
# Appendix A.1; where the appendix is silent, as in the published results.
_PUBLISHED = replace(ONE_MASK, max_sigma_share=0.0, complement_floor=0.0, precision="full")
PAPER = replace(_PUBLISHED, steps=900, stop="paper", learning_rate=0.03, schedule="constant")
# Appendix A.2; the baselines that go with it are black, white and mean, for `vit` blur-20.
_A2 = replace(PAPER, steps=7500, stop="paper-images", weight_decay=0.0, noise=0.0, flip_share=0.0, kernel="sigma")
_A2_FIELD = replace(_A2, initial_w=0.5, initial_sigma=1.2, min_sigma=0.6)
RESNET = replace(_A2_FIELD, indicative=0.1, sparsity=0.6, neighbour_weight=10.0)
VIT = replace(RESNET, indicative=0.0, sparsity=0.25)
# Few steps need few parameters: one w and sigma for a cell of 16 x 16 pixels in 224, started from the gradients
# of the first steps; the loss at drawn sizes beside that of the mask itself; one baseline per step (docs/images.md).
_CELLS = replace(RESNET, cell=0, initial_w=0.0, initial_sigma=0.0, warmup_steps=24, views="turn", precision="auto")
_FEW_STEPS = replace(_CELLS, steps=120, stop="steps", learning_rate=0.2, schedule="cosine")
IMAGE = replace(_FEW_STEPS, sparsity=1.0, neighbour_weight=0.0, mask_weight=0.3, level_weight=1.0, softness=0.1)
# A frame is a unit of a line, as a word is; a spectrogram is a grid of time and frequency. Both are tested on a known
# cause (tests/models/audio) and not tuned further.
AUDIO = replace(ONE_MASK, complement_floor=0.0, initial_sigma=3.0, noise=0.0)
SPECTROGRAM = replace(AUDIO, cell=4, initial_w=0.5, initial_sigma=6.0, max_sigma_share=0.0)
# Words and pixels together: the settings of images, one mask over both, each part counts alike (docs/image-text.md).
IMAGE_TEXT = IMAGE
PRESETS = {
    "text": {"default": DEFAULT, "words": WORDS, "clauses": CLAUSES, "paper": PAPER},
    "image": {"default": IMAGE, "paper": RESNET, "resnet": RESNET, "vit": VIT},
    "image-text": {"default": IMAGE_TEXT},
    "audio": {"default": AUDIO},
    "spectrogram": {"default": SPECTROGRAM},
}  # kind of input -> name of the preset -> settings
