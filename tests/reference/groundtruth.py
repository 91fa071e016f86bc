"""`Do Feature Attribution Methods Correctly Attribute Features?` (Zhou et al. 2022), slow and literal.

Nothing here is shared with the library: sums over finite worlds, orders of players, pixels one by one.
"""

from __future__ import annotations

import colorsys
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np

World = Sequence[tuple[Mapping[str, int], int, float]]  # features by name, label, probability


def best_accuracy(matrix: Sequence[Sequence[float]]) -> float:
    """The most that any rule from original to new label reaches, whatever the shares of the original classes.

    The accuracy is linear in the shares, so that one class alone is always a worst case.
    """
    old, new = range(len(matrix)), range(len(matrix[0]))
    return max(matrix[alone][rule[alone]] for rule in itertools.product(new, repeat=len(old)) for alone in old)


def chance_of_at_least(correct: int, n: int, p: float) -> float:
    """Section 4: sum_{k = correct}^{n} Binom(k; n, p), in exact fractions."""
    share = Fraction(p)
    return float(sum(math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(correct, n + 1)))


def accuracy_given(world: World, names: Sequence[str], says: Callable[[Mapping[str, int]], int]) -> float:
    """Eq. 9: E_f E_(x, y | F = f) E_(x', y' | F = f) [g(x) = y']."""
    total = 0.0
    world = [(x, y, p) for x, y, p in world if p > 0]
    for values in {tuple(x[name] for name in names) for x, _, _ in world}:
        same = [(x, y, p) for x, y, p in world if tuple(x[name] for name in names) == values]
        mass = sum(p for _, _, p in same)
        for x, _, p in same:
            for _, other_label, q in same:
                total += mass * (p / mass) * (q / mass) * (says(x) == other_label)
    return total


def shapley(players: Sequence[str], worth: Callable[[Sequence[str]], float]) -> dict[str, float]:
    """The mean over all orders of what a player adds to those before it."""
    value = dict.fromkeys(players, 0.0)
    orders = list(itertools.permutations(players))
    for order in orders:
        for index, player in enumerate(order):
            added = worth(order[: index + 1]) - worth(order[:index])
            value[player] += added / len(orders)
    return value


def planted_world(r: float) -> World:
    """Two classes: the label stays with probability r, the plant says the new label, the original feature the old."""
    return [
        ({"planted": new, "original": old}, new, 0.5 * (r if old == new else 1 - r)) for old in (0, 1) for new in (0, 1)
    ]


def attribution_share(scores: Sequence[float], region: Sequence[bool]) -> float:
    """Section 3: (sum_{i in F} |s_i|) / (sum_i |s_i|)."""
    inside = total = 0.0
    for score, within in zip(scores, region, strict=True):
        total += abs(score)
        inside += abs(score) if within else 0.0
    return inside / total


def best_selection(right_counts: Sequence[int], sizes: Sequence[int], count: int) -> tuple[float, float]:
    """Precision and recall when `count` units are selected over all inputs, as well as can be: tried one by one."""
    best = 0
    for counts in itertools.product(*(range(size + 1) for size in sizes)):
        if sum(counts) == count:
            best = max(best, sum(min(chosen, right) for chosen, right in zip(counts, right_counts, strict=True)))
    return best / count, best / sum(right_counts)


def blurred(pixels: np.ndarray, std: float) -> np.ndarray:
    """A Gaussian blur, cut off at four standard deviations, of a picture that is mirrored at its edges."""
    height, width = pixels.shape[:2]
    reach = max(1, math.ceil(4 * std))
    weight = {offset: math.exp(-0.5 * (offset / std) ** 2) for offset in range(-reach, reach + 1)}
    total = sum(weight.values())
    mirrored = np.pad(pixels.astype(float), ((reach, reach), (reach, reach), (0, 0)), mode="symmetric")
    result = np.zeros(pixels.shape)
    for down, across in itertools.product(weight, repeat=2):
        window = mirrored[reach + down : reach + down + height, reach + across : reach + across + width]
        result += weight[down] * weight[across] / total**2 * window
    return result


def dimmed(pixels: np.ndarray, radius: float, shift: float) -> np.ndarray:
    """Hue, saturation and value pixel by pixel: value - shift cos²(pi d / 2 radius) inside of the circle."""
    height, width = pixels.shape[:2]
    result = pixels.astype(float)
    for row, column in itertools.product(range(height), range(width)):
        away = math.dist((row + 0.5, column + 0.5), (height / 2, width / 2))
        if away < radius:
            hue, saturation, value = colorsys.rgb_to_hsv(*(pixels[row, column] / 255))
            value = max(0.0, value - shift * math.cos(math.pi * away / (2 * radius)) ** 2)
            result[row, column] = 255 * np.array(colorsys.hsv_to_rgb(hue, saturation, value))
    return result


def with_hue_wave(pixels: np.ndarray, first: int, last: int, shift: float) -> np.ndarray:
    """Hue, saturation and value pixel by pixel: hue + shift sin(2 pi row / rows) in the rows first..last-1."""
    result = pixels.astype(float)
    for row, column in itertools.product(range(first, last), range(pixels.shape[1])):
        hue, saturation, value = colorsys.rgb_to_hsv(*(pixels[row, column] / 255))
        hue += shift * math.sin(2 * math.pi * (row - first + 0.5) / (last - first))
        result[row, column] = 255 * np.array(colorsys.hsv_to_rgb(hue % 1, saturation, value))
    return result


def hard_kuma(a: float, b: float, low: float = -0.1, high: float = 1.1, cuts: int = 200_000) -> tuple[float, ...]:
    """P(z = 0), P(z = 1) and the mean of the variable before it is stretched, by adding up its density.

    Bastings, Aziz and Titov 2019: Kumaraswamy's density a b x^(a-1) (1 - x^a)^(b-1), stretched to (low, high), cut.
    """
    x = (np.arange(cuts) + 0.5) / cuts
    density = a * b * x ** (a - 1) * (1 - x**a) ** (b - 1) / cuts
    stretched = low + (high - low) * x
    return float(density[stretched <= 0].sum()), float(density[stretched >= 1].sum()), float((density * x).sum())


def jpeg(pixels: np.ndarray, quality: float, luminance: Sequence[Sequence[int]], chrominance: Sequence[Sequence[int]]):
    """ITU-T T.81 without subsampling, block by block and frequency by frequency; sides must be multiples of 8.

    A.3.3: S_vu = 1/4 C_u C_v sum_x sum_y s_yx cos((2x + 1) u pi / 16) cos((2y + 1) v pi / 16), C_0 = 1 / sqrt(2).
    """
    percent = 5000 / quality if quality < 50 else 200 - 2 * quality
    height, width = pixels.shape[:2]
    planes = np.zeros((3, height, width))
    for row, column in np.ndindex(height, width):
        red, green, blue = (float(value) for value in pixels[row, column])
        planes[0, row, column] = round(0.299 * red + 0.587 * green + 0.114 * blue) - 128
        planes[1, row, column] = round(-0.168735892 * red - 0.331264108 * green + 0.5 * blue)
        planes[2, row, column] = round(0.5 * red - 0.418687589 * green - 0.081312411 * blue)

    def wave(position: int, frequency: int) -> float:
        return math.cos((2 * position + 1) * frequency * math.pi / 16) * (math.sqrt(0.5) if frequency == 0 else 1)

    for plane, table in zip(planes, (luminance, chrominance, chrominance), strict=True):
        for top, left in itertools.product(range(0, height, 8), range(0, width, 8)):
            block = plane[top : top + 8, left : left + 8]
            levels = np.zeros((8, 8))
            for v, u in np.ndindex(8, 8):
                step = min(max(math.floor((table[v][u] * percent + 50) / 100), 1), 255)
                total = sum(block[y, x] * wave(x, u) * wave(y, v) for y, x in np.ndindex(8, 8)) / 4
                levels[v, u] = round(total / step) * step
            restored = np.zeros((8, 8))
            for y, x in np.ndindex(8, 8):
                restored[y, x] = sum(levels[v, u] * wave(x, u) * wave(y, v) for v, u in np.ndindex(8, 8)) / 4
            block[:] = restored.round().clip(-128, 127)
    y, cb, cr = planes[0] + 128, planes[1], planes[2]
    colours = [y + 1.402 * cr, y - 0.344136286 * cb - 0.714136286 * cr, y + 1.772 * cb]
    return np.stack(colours, -1).clip(0, 255)


def tinted(pixels: np.ndarray, corner: str, radius: float, hue: float, strength: float) -> np.ndarray:
    """Every pixel whose middle is nearer than the radius to the corner becomes a mixture with the pure colour."""
    tint = [255 * channel for channel in colorsys.hsv_to_rgb(hue, 1, 1)]
    height, width = pixels.shape[:2]
    y = 0 if corner.startswith("top") else height
    x = 0 if corner.endswith("left") else width
    result = pixels.astype(np.float64)
    for row, column in np.ndindex(height, width):
        if math.hypot(row + 0.5 - y, column + 0.5 - x) < radius:
            for channel in range(3):
                result[row, column, channel] += strength * (tint[channel] - result[row, column, channel])
    return result
