"""Roughness of a mask, unit by unit: the mean squared difference to the mean of the neighbours, over the variance."""

from __future__ import annotations


def roughness(keep: list[list[float]], real: list[list[bool]]) -> float:
    """`keep` and `real` by rows; a line is a single row. Real units beside, above and below are neighbours."""
    height, width = len(keep), len(keep[0])
    units = [(row, column) for row in range(height) for column in range(width) if real[row][column]]
    values = [keep[row][column] for row, column in units]
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    differences = []
    for row, column in units:
        around = [(row, column - 1), (row, column + 1), (row - 1, column), (row + 1, column)]
        neighbours = [keep[r][c] for r, c in around if 0 <= r < height and 0 <= c < width and real[r][c]]
        if neighbours:
            differences.append((keep[row][column] - sum(neighbours) / len(neighbours)) ** 2)
    return sum(differences) / len(differences) / variance
