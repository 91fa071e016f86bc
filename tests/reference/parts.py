"""Literal means over words and pixels, in which every part counts the same; for one mask at a time, and slow."""

from __future__ import annotations

import math


def mean_of_parts(values, real, sizes):
    """The mean of the parts' means over real units; a part without any does not count."""
    means, first = [], 0
    for size in sizes:
        existing = [
            value
            for value, exists in zip(values[first : first + size], real[first : first + size], strict=True)
            if exists
        ]
        if existing:
            means.append(sum(existing) / len(existing))
        first += size
    return sum(means) / len(means)


def grid_and_words_field(w, sigma, grid, cell, words, gain, power):
    """Eq. 5 for the pixels of a grid whose cells are sources, and gain times w for the words after them."""
    height, width = grid
    down, across = -(-height // cell), -(-width // cell)
    field = []
    for y in range(height):
        for x in range(width):
            total = 0.0
            for row in range(down):
                for column in range(across):
                    number = row * across + column
                    centre_y, centre_x = (index * cell + (cell - 1) / 2 for index in (row, column))
                    distance = (y - centre_y) ** 2 + (x - centre_x) ** 2
                    total += w[number] * math.exp(-distance / sigma[number] ** power)
            field.append(total)
    return field + [gain * value for value in w[down * across : down * across + words]]


def neighbour_terms(keep, real, grid):
    """Eq. 9 for a grid of pixels followed by words: the mean of both parts' squared differences per real unit."""
    height, width = grid
    total, count = 0.0, 0
    for y in range(height):
        for x in range(width):
            count += bool(real[y * width + x])
            for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1)):
                if 0 <= y + dy < height and 0 <= x + dx < width:
                    first, second = y * width + x, (y + dy) * width + x + dx
                    if real[first] and real[second]:
                        total += (keep[first] - keep[second]) ** 2
    words, exists = keep[height * width :], real[height * width :]
    differences = [(words[i + 1] - words[i]) ** 2 for i in range(len(words) - 1) if exists[i] and exists[i + 1]]
    return (total / max(count, 1) + sum(differences) / max(sum(exists), 1)) / 2
