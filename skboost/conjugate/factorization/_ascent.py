"""Coordinate ascent for factorisations: rounds, their gauge, heat, and turns.

Only ``U V'`` is seen in the data, so ``(U A, V A^-T)`` explains them as well for every
invertible A, and plain rounds creep along these directions for thousands of rounds. The
best A is known in closed form; with it after every round the bound converges in tens.
"""

import numpy as np

from skboost._budget import Budget
from skboost.conjugate._natural import Optimum, fading_noise
from skboost.conjugate.factorization._target import SIDES

# Rounds in which the noise of an annealed run fades out. Weights below one for all
# entries alike would anneal as well, but at a few hundredths the factors vanish, and do
# not come back.
_N_NOISY = 15


def factor_ascent(target, natural, n_iter, tol, budget=None):
    """Rounds of coordinate ascent, each followed by the best gauge: an `Optimum`."""
    budget = Budget() if budget is None else budget
    bound = -np.inf
    for _ in range(n_iter):
        natural = factor_round(target, natural)
        before, bound = bound, target.bound(natural)
        if bound - before < tol or budget.cuts():
            break
    return Optimum(natural, bound)


def factor_round(target, natural, weight=None):
    """Every factor at its optimum in turn for weighted entries, then the best gauge."""
    model = target.model
    statistics = model.expect(natural, target.observed, weight).statistics[0]
    natural = balanced(model, model.updated(natural, statistics))
    # Prior scales and gauge depend on one another, and cost little beside the entries.
    inferred = [f for name in SIDES for f in model.scales[name].factors]
    for scales in inferred:
        natural[scales.name] = scales.target(natural, statistics)
    if inferred:
        natural = balanced(model, natural)
    return natural


def annealed_factors(target, natural, rng, budget=None):
    """Rounds under noise that fades out, which leave the optimum next to them."""
    for noise in fading_noise(_N_NOISY, len(target.entries), rng, budget):
        natural = factor_round(target, natural, noise)
    return natural


def shaken_factors(target, natural, rng):
    """The same distribution about means that are off by as much as they are large."""
    shaken = {name: dict(own) for name, own in natural.items()}
    for side in (target.model.rows, target.model.columns):
        own = shaken[side.name]
        mean = side.stack(own).mean
        noise = rng.standard_normal(mean.shape) * mean.std(axis=0)
        own["first"] = np.einsum("npq,nq->np", own["precision"], mean + noise)
    return shaken


# --- gauge


def balanced(model, natural):
    """The same products of factors, at the scale and shear with the largest bound.

    With ``U A`` and ``V A^-T`` the bound changes by ``-(tr(L A' G A) + tr(M A^-1 H
    A^-T)) / 2 + (n - m) ln |det A|``; G, H are sums of second moments, L, M diagonal
    prior precisions. At its maximum both sums are diagonal, and each scale is the
    positive root of a quadratic equation (Luttinen and Ilin 2010 search for A
    numerically).
    """
    if model.biases:
        natural = _centred(model, natural)
    r = model.n_components
    sums = [_second_moments(side, natural) for side in (model.rows, model.columns)]
    grams = [gram[:r, :r] for gram in sums]
    own, other = (model.scales[name].expected(natural)[0] for name in SIDES)
    own, other = own[:r], other[:r]
    root, inverse = _power(grams[0], 0.5), _power(grams[0], -0.5)
    strength, turn = np.linalg.eigh(root @ grams[1] @ root)
    # The strongest direction to the coordinate that pays least.
    order = np.argsort(own * other, kind="stable")
    place = np.empty(r, dtype=int)
    place[order] = np.arange(r)[::-1]
    strength, turn = np.maximum(strength[place], 0.0), turn[:, place]
    excess = model.shape[0] - model.shape[1]
    scale = (excess + np.sqrt(excess**2 + 4.0 * own * other * strength)) / (2.0 * own)
    tiny = np.finfo(float).tiny
    if not (np.isfinite(scale).all() and scale.min() > tiny * r):
        return natural
    return transformed(model, natural, inverse @ turn * np.sqrt(scale))


def _second_moments(side, natural):
    """``sum_i E[x_i x_i']``, in double precision."""
    moments = side.moments(natural[side.name])
    mean = np.asarray(moments.mean, dtype=float)
    return mean.T @ mean + moments.covariance.sum(axis=0, dtype=float)


def _power(matrix, power):
    """Power of a symmetric positive matrix."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    values = np.maximum(values, 1e-12 * max(values[-1], np.finfo(float).tiny))
    return (vectors * values**power) @ vectors.T


def _centred(model, natural):
    """The same predictions, with what factors and biases share where it costs least."""
    r, new = model.n_components, dict(natural)
    prior = {name: model.scales[name].expected(natural)[0] for name in SIDES}
    for one, other in ((model.rows, model.columns), (model.columns, model.rows)):
        mean, there = one.moments(new[one.name]).mean, _second_moments(other, new)
        pays, last = prior[one.name][:r], prior[other.name][r]
        gram = last * there[:r, :r] + len(mean) * np.diag(pays)
        moved = last * there[:r, r] - pays * mean[:, :r].sum(axis=0, dtype=float)
        s = np.linalg.solve(gram, moved)
        new[one.name] = _shifted(new[one.name], np.append(s, 0.0))
        # (v, c) -> (v, c - s . v), which has the determinant one.
        back = np.eye(r + 1)
        back[r, :r] = s
        new[other.name] = _mapped(new[other.name], back)
    total, count = 0.0, 0.0
    for side, sign in ((model.rows, -1.0), (model.columns, 1.0)):
        mean, pays = side.moments(new[side.name]).mean[:, r], prior[side.name][r]
        total += sign * pays * mean.sum(dtype=float)
        count += pays * len(mean)
    constant = np.append(np.zeros(r), total / count)
    new["rows"] = _shifted(new["rows"], constant)
    new["columns"] = _shifted(new["columns"], -constant)
    return new


def _shifted(own, shift):
    """Gaussians with other means."""
    moved = own["precision"] @ shift.astype(own["first"].dtype)
    return {"precision": own["precision"], "first": own["first"] + moved}


def _mapped(own, inverse):
    """Distribution of ``T x``, given the inverse of T."""
    inverse = inverse.astype(own["first"].dtype)
    precision = inverse.T @ own["precision"] @ inverse
    return {
        "precision": 0.5 * (precision + np.swapaxes(precision, 1, 2)),
        "first": own["first"] @ inverse,
    }


def transformed(model, natural, a):
    """Natural parameters of ``(U A, V A^-T)``, A (rank, rank); biases stay."""
    turned = dict(natural)
    # A row's factors become A' u, and a column's A^-1 v.
    for name, inverse in (("rows", np.linalg.inv(a).T), ("columns", a)):
        wide = np.eye(natural[name]["first"].shape[1])
        wide[: len(a), : len(a)] = inverse
        turned[name] = _mapped(natural[name], wide)
    return turned


def turned_towards(model, natural, base):
    """The rotation, or change of signs, that brings means nearest to another's."""
    r, overlap = model.n_components, np.zeros((model.n_components,) * 2)
    for side in (model.rows, model.columns):
        mine = side.stack(natural[side.name]).mean[:, :r]
        overlap += mine.T @ side.stack(base[side.name]).mean[:, :r]
    if any(np.ptp(model.scales[n].expected(natural)[0][:r]) > 0 for n in SIDES):
        overlap = np.diag(np.diag(overlap))
    left, _, right = np.linalg.svd(overlap)
    return transformed(model, natural, left @ right)
