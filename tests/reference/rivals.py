"""Slow, literal versions of the rivals' formulas: one input, loops, numpy, float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, permutations
from math import comb, factorial

import numpy as np

Game = Callable[[frozenset[int]], float]  # what a set of players is worth


def shapley(game: Game, players: int) -> np.ndarray:
    """Shapley 1953: the weighted mean of what a player adds to every set of the others."""
    values = np.zeros(players)
    for player in range(players):
        other_players = [candidate for candidate in range(players) if candidate != player]
        for size in range(players):
            weight = factorial(size) * factorial(players - size - 1) / factorial(players)
            for chosen in combinations(other_players, size):
                values[player] += weight * (game(frozenset([*chosen, player])) - game(frozenset(chosen)))
    return values


def shapley_from_orders(game: Game, orders: Sequence[Sequence[int]], players_per_step: int = 1) -> np.ndarray:
    """Castro, Gomez and Tejada 2009, algorithm 1, with the orders given; players of one step share what it adds."""
    values = np.zeros(len(orders[0]))
    for order in orders:
        present: set[int] = set()
        for start in range(0, len(order), players_per_step):
            entering = order[start : start + players_per_step]
            before = game(frozenset(present))
            present.update(entering)
            for player in entering:
                values[player] += (game(frozenset(present)) - before) / len(entering)
    return values / len(orders)


def kernel_shap(game: Game, sets: Sequence[frozenset[int]], players: int, weights: Sequence[float]) -> np.ndarray:
    """Lundberg and Lee 2017, Eq. 5 with theorem 2's loss, the last player put in by the constraint (Eq. 3)."""
    empty, full = game(frozenset()), game(frozenset(range(players)))
    rows, targets = [], []
    for chosen in sets:
        member = np.array([float(player in chosen) for player in range(players)])
        rows.append(member[:-1] - member[-1])
        targets.append(game(chosen) - empty - member[-1] * (full - empty))
    root = np.sqrt(np.asarray(weights))[:, None]
    head, *_ = np.linalg.lstsq(root * np.array(rows), root[:, 0] * np.array(targets), rcond=None)
    return np.append(head, full - empty - head.sum())


def shapley_kernel(players: int, size: int) -> float:
    """Lundberg and Lee 2017, theorem 2."""
    return (players - 1) / (comb(players, size) * size * (players - size))


def lime(game: Game, sets: Sequence[frozenset[int]], players: int, kernel: float, ridge: float) -> np.ndarray:
    """Ribeiro, Singh and Guestrin 2016, Eq. 2, with an intercept that is not penalised."""
    rows = np.array([[1.0, *(float(player in chosen) for player in range(players))] for chosen in sets])
    weights = []
    for row in rows[:, 1:]:
        cosine = row.sum() / (np.sqrt(row.sum()) * np.sqrt(players)) if row.any() else 0.0
        weights.append(np.sqrt(np.exp(-((1 - cosine) ** 2) / kernel**2)) if kernel else 1.0)
    weight = np.diag(weights)
    penalty = ridge * np.eye(players + 1)
    penalty[0, 0] = 0
    values = np.array([game(chosen) for chosen in sets])
    return np.linalg.solve(rows.T @ weight @ rows + penalty, rows.T @ weight @ values)[1:]


def solvex(score: Callable[[set[int]], float], units: int) -> tuple[tuple[int, ...], float]:
    """The best of all orders by the sum of p(S alone) - p(all but S) over its prefixes S, and that sum."""
    every = set(range(units))

    def objective(order: tuple[int, ...]) -> float:
        prefixes = [set(order[:size]) for size in range(1, units + 1)]
        return sum(score(prefix) - score(every - prefix) for prefix in prefixes)

    best = max(permutations(range(units)), key=objective)
    return best, objective(best)
