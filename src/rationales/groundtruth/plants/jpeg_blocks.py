"""Block artefacts of strong JPEG compression inside a box; pixels outside it are unchanged to the bit.

The box alone is compressed, so that no block reaches beyond it: the recipe of JPEG (ITU-T T.81) without subsampling of
the colours and without the entropy coding, which loses nothing. It is computed here and not by a JPEG library, so that
the same seed gives the same pixels with every version of every library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from rationales.errors import OptionError
from rationales.groundtruth.plants.box_plants import BoxPlant
from rationales.groundtruth.plants.image_plants import REFERENCE_SIDE

if TYPE_CHECKING:
    from typing_extensions import Self

Floats = NDArray[np.float64]
BLOCK = 8  # pixels a side
MIN_BOX, MAX_BOX = 40, 200  # sides of a sampled box
# Tables K.1 and K.2 of T.81: the quantisation steps at quality 50, of the brightness and of the two colour differences.
LUMINANCE_STEPS = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
CHROMINANCE_STEPS = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *((99,) * BLOCK,) * 4,
)
# JFIF: Y, Cb - 128 and Cr - 128 of red, green and blue.
TO_YCC = np.array(
    [[0.299, 0.587, 0.114], [-0.168735892, -0.331264108, 0.5], [0.5, -0.418687589, -0.081312411]], dtype=np.float64
)
TO_RGB = np.array([[1, 0, 1.402], [1, -0.344136286, -0.714136286], [1, 1.772, 0]], dtype=np.float64)


@dataclass(frozen=True)
class JpegBlocks(BoxPlant):
    """A box is compressed in blocks of 8 x 8 pixels of the image, whatever its size, counted from the box's corner."""

    name: ClassVar[str] = "jpeg-blocks"
    summary: ClassVar[str] = "a box shows the 8 x 8 blocks of strong JPEG compression"
    visibility_field: ClassVar[str] = "quality"
    levels: ClassVar[tuple[float, ...]] = (14, 11, 8, 5, 2)

    quality: float = 8.0  # of JPEG, 1 (coarsest) to 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.quality <= 100:
            raise OptionError(f"jpeg-blocks: the quality lies between 1 and 100, not {self.quality}")

    @classmethod
    def sample(cls, rng: np.random.Generator) -> Self:
        height, width = (float(rng.uniform(MIN_BOX, MAX_BOX)) for _ in range(2))
        top, left = (float(rng.uniform(0, REFERENCE_SIDE - side)) for side in (height, width))
        return cls(top, left, height, width, quality=float(rng.uniform(min(cls.levels), max(cls.levels))))

    def change(self, pixels: NDArray[np.uint8], rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
        top, bottom, left, right = self.box(*pixels.shape[1:3])
        changed = pixels.copy()
        changed[:, top:bottom, left:right] = compress(pixels[:, top:bottom, left:right], self.quality)
        return changed


def compress(pixels: NDArray[np.uint8], quality: float) -> NDArray[np.uint8]:
    """(N, h, w, 3) -> (N, h, w, 3): images after JPEG compression; incomplete blocks continue with their last pixel."""
    count, height, width = pixels.shape[:3]
    padding = ((0, 0), (0, -height % BLOCK), (0, -width % BLOCK), (0, 0))
    padded = np.pad(pixels, padding, mode="edge").astype(np.float64)
    rows, columns = padded.shape[1] // BLOCK, padded.shape[2] // BLOCK
    colours = np.rint(_mix_channels(TO_YCC, padded)) - np.array([128.0, 0, 0])
    blocks = colours.reshape(count, rows, BLOCK, columns, BLOCK, 3).transpose(0, 1, 3, 5, 2, 4)  # (..., 3, 8, 8)
    # One matrix product for each block: the same bits alone and in any batch.
    steps, cosines = quantisation_steps(quality), cosine_matrix()
    coefficients = np.rint(cosines @ np.ascontiguousarray(blocks) @ cosines.T / steps) * steps
    restored = (cosines.T @ coefficients @ cosines).transpose(0, 1, 4, 2, 5, 3).reshape(padded.shape)
    restored = np.clip(np.rint(restored), -128, 127) + np.array([128.0, 0, 0])
    result = np.clip(np.rint(_mix_channels(TO_RGB, restored)), 0, 255)
    return result[:, :height, :width].astype(np.uint8)


def quantisation_steps(quality: float) -> Floats:
    """(3, 8, 8): the steps of Y, Cb and Cr, scaled by the quality as the Independent JPEG Group does, 1 to 255."""
    percent = 5000 / quality if quality < 50 else 200 - 2 * quality
    tables = np.array([LUMINANCE_STEPS, CHROMINANCE_STEPS, CHROMINANCE_STEPS], dtype=np.float64)
    scaled: Floats = np.clip(np.floor((tables * percent + 50) / 100), 1, 255)
    return scaled


def cosine_matrix() -> Floats:
    """(8, 8): the orthonormal discrete cosine transform, frequencies by positions (T.81, A.3.3)."""
    frequency, position = np.indices((BLOCK, BLOCK))
    matrix: Floats = np.cos((2 * position + 1) * frequency * np.pi / (2 * BLOCK)) * np.sqrt(2 / BLOCK)
    matrix[0] /= np.sqrt(2)
    return matrix


def _mix_channels(matrix: Floats, colours: Floats) -> Floats:
    """(..., 3) times a (3, 3) matrix, channel by channel."""
    red, green, blue = (colours[..., channel] for channel in range(3))
    return np.stack([row[0] * red + row[1] * green + row[2] * blue for row in matrix], -1)
