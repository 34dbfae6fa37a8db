"""One factor and any likelihood: normal coefficients integrated out, too.

Given scales the log likelihood of coefficients is that of `QuadratureMarginal`, which
averages over effects. All groups share coefficients, so that they are nearly Gaussian,
and Laplace's method does for them. With f(u) the log joint density of standard normal
u, coefficients in units of their prior's scales,

    ln p(y | sigma) ~ f(u) + g'H^-1 g / 2 - ln|H| / 2,   g = f'(u),

near the mode, where H has the curvatures of rows at the modes of effects. Slopes on
both sides of a mode then say where means are and how wide it is, and weights of draws
what is still missed.
"""

import numpy as np
from scipy.sparse import csr_array

from skboost._parallel import row_blocks
from skboost._random import EFFECTS, generator, quasi_normal
from skboost.approximation import effective_sample_size
from skboost.hierarchy._integrated_normal import roots_of_inverses
from skboost.hierarchy._joint import SmoothCoefficients
from skboost.hierarchy._nested_quadrature import NestedQuadratureMarginal
from skboost.hierarchy._quadrature import NODES, QuadratureMarginal

# Newton steps at most, and the gain, nats, that is worth another one.
_MAX_STEPS, _LEAST_GAIN = 30, 2e-3
# Steps of differences in the logarithms of scales.
_STEP = 0.02
# Draws at which numbers of nodes are compared.
_N_COMPARED = 8
# Steps along axes, in standard deviations, and pairs of draws over which curvatures are
# averaged.
_AWAY, _N_AVERAGED = 0.5, 16
# Share of the draws of coefficients that weigh as much as all do below which these are
# better not integrated out.
_FEW_EFFECTIVE = 0.5


class _Integrated:
    """Log likelihood of scales alone, over a `QuadratureMarginal`.

    Weights of `weighted_effects` are those of all that is drawn: over the density of
    scales that these were drawn from they make draws exact.
    """

    integrates_coefficients, weighs_scales, exact = True, True, False
    lattice_dim = 3
    # What is known of coefficients given scales, and what Laplace's method misses,
    # after a look at some.
    smooth, missed = None, 0.0

    def __init__(self, rows, likelihood, scale):
        super().__init__(rows, likelihood, NODES[0])
        self.scale, self.u = scale, np.zeros(len(scale))
        self.sized = X = self.rows.X * scale
        n, p = X.shape
        pairs = self.row_times * (X[:, :, None] * X[:, None]).reshape(n, p * p)
        self.pairs = pairs.T
        places = self.codes[:, None] * p + np.arange(p)
        entries = X.ravel(), (places.ravel(), np.repeat(np.arange(n), p))
        self.by_kind = csr_array(entries, shape=(self.n_kinds * p, n))

    def value(self, beta, levels, *further):
        value = self._found(levels, further)[0]
        return value + self._shared(*further)[0] + self.constant + self.missed

    def value_and_score(self, beta, levels, *further):
        """Log likelihood of each draw of log scales of effects and what all rows share,
        and its gradient, by differences.
        """
        table = np.column_stack([levels, *further])
        (n, d), q = table.shape, levels.shape[1]
        steps = _STEP * np.vstack([np.zeros(d), np.eye(d), -np.eye(d)])
        points = (steps[:, None] + table).reshape(-1, d)
        value = self.value(beta, points[:, :q], *points[:, q:].T).reshape(-1, n)
        ahead, behind = value[1:].reshape(2, d, n)
        return value[0], (ahead - behind).T / (2.0 * _STEP)

    def _found(self, levels, further):
        """Log likelihoods but for what rows share, and means (n, p) and factors of
        covariances (n, p, p) of standard normal coefficients.
        """
        n, p = len(levels), len(self.scale)
        value, root, u = np.empty(n), np.empty((n, p, p)), np.tile(self.u, (n, 1))
        if self.smooth is not None:
            table = np.column_stack([levels, *further])
            u = self.smooth.coefficients(table)[0] / self.scale
        left = np.arange(n)
        for _ in range(_MAX_STEPS):
            going = []
            for some in row_blocks(len(left), self._width):
                at = left[some]
                given = [level[at] for level in further]
                top, slope, hessian = self._near(u[at], levels[at], given)
                root[at], log_root, lost = roots_of_inverses(hessian)
                step = np.einsum("spr,sqr,sq->sp", root[at], root[at], slope)
                gain = 0.5 * (step * slope).sum(axis=1)
                value[at] = np.where(lost, -np.inf, top + gain - log_root)
                reach = np.abs(self.sized @ step.T).max(axis=0)
                longest = self.likelihood.longest_step
                share = np.minimum(1.0, longest / np.maximum(reach, 1e-300))
                u[at] += share[:, None] * step
                going.append(at[np.isfinite(value[at]) & (gain > _LEAST_GAIN)])
            left = np.concatenate(going)
            if not len(left):
                break
        if self.smooth is None and np.isfinite(u[0]).all():
            # The next search begins here.
            self.u = u[0]
        return np.where(np.isfinite(value), value, -np.inf), u, root

    def _near(self, u, levels, further):
        """f, its slope and H, at one u (n, p) for each draw of levels."""
        roots = self.covariances.roots(levels)
        around = self._around(u * self.scale, roots, self.likelihood.given(*further))
        likelihood, eta, tilts, mode, curves = around
        integral = self._integral(*around)
        moved, y = self._moved(eta, tilts, mode), self.rows.y[:, None]
        bend = likelihood.climb_bend(moved, y) * self.rows.weight[:, None]
        n, p = u.shape
        hessian = (self.pairs @ bend).T.reshape(n, p, p) + np.eye(p)
        hessian -= self.explained(tilts, curves, bend)
        value = self.total(integral) - 0.5 * (u**2).sum(axis=1)
        slope = (integral.slope * self.row_times).T @ self.sized - u
        return value, slope, hessian

    # --- coefficients given scales

    def learn_missed(self, levels, *further):
        """From now on know coefficients near some levels, how many nodes do, and what
        Laplace's method misses on the average.

        Returns
        -------
        bool
            Whether at least half of the draws of coefficients count.
        """
        self.choose_nodes(levels[:_N_COMPARED], *(f[:_N_COMPARED] for f in further))
        value, u, root = self._found(levels, further)
        if not np.isfinite(value).all():
            return False
        self._bent(u[0], _lower(root[0]), levels[:1], *(f[:1] for f in further))
        self.smooth = self._smooth(levels, further)
        rng, n = generator(0, EFFECTS), len(levels)
        sizes = [(q, n, n_groups) for q, n_groups in self.sizes]
        sizes.append((len(self.scale), n, 1))
        normals = quasi_normal(sizes, rng)
        missed = self.weighted_effects(normals, None, levels, *further)[1][0]
        missed -= value + self._shared(*further)[0] + self.constant
        self.missed = np.logaddexp.reduce(missed) - np.log(n)
        return effective_sample_size(missed) > _FEW_EFFECTIVE * n

    def _answer(self, levels, *further):
        _, u, root = self._found(levels, further)

        def answer():
            value, slope, _ = self._near(u, levels, further)
            return value, np.einsum("spq,sp->sq", root, slope)

        return answer

    def _bent(self, u, root, levels, *further):
        """See how far the mean is from a mode, and a factor of the covariance, in units
        of a root: by slopes at both ends of its axes, and by H on the average.
        """
        p = len(u)
        ((half,),) = quasi_normal([(1, _N_AVERAGED, p)], generator(0, EFFECTS))
        steps = _AWAY * np.vstack([np.eye(p), -np.eye(p)])
        steps = np.vstack([np.zeros(p), steps, half, -half])
        n = len(steps)
        given = np.tile(levels, (n, 1)), [np.tile(level, n) for level in further]
        _, slope, hessian = self._near(u + steps @ root.T, *given)
        slope, hessian = slope @ root, root.T @ hessian @ root
        ahead, behind = slope[1 : 1 + 2 * p].reshape(2, p, p)
        precision = (behind - ahead) / (2.0 * _AWAY)
        precision += hessian[1 + 2 * p :].mean(axis=0) - hessian[0]
        precision = 0.5 * (precision + precision.T)
        pull = (ahead + behind - 2.0 * slope[0]).sum(axis=0) / (2.0 * _AWAY**2)
        covariance = np.linalg.inv(precision)
        width = np.linalg.cholesky(covariance)
        self.bent = covariance @ (slope[0] + pull), width

    def coefficients(self, levels, *further):
        """Means (n, p) and triangular factors (n, p, p) of coefficients, by draw."""
        _, u, root = self._found(levels, further)
        (shift, width), root = self.bent, _lower(root)
        mean, root = u + root @ shift, root @ width
        return self.scale * mean, self.scale[:, None] * root

    def _smooth(self, levels, further):
        """The same as smooth functions, by what some draws say."""
        table = np.column_stack([levels, *further])
        n = SmoothCoefficients.n_points(table.shape[1])
        some = [level[:n] for level in (levels, *further)]
        return SmoothCoefficients(table[:n], *self.coefficients(*some))

    def weighted_effects(self, normals, beta, levels, *further):
        """Draws of the effects, as of `QuadratureMarginal`, and then of coefficients;
        logarithms (1, n_draws) of their joint density over that of these draws, which
        both halves of the draws have.
        """
        table = np.column_stack([levels, *further])
        mean, root = self._smooth(levels, further).coefficients(table)
        white = normals[-1][..., 0].T
        beta = mean + np.einsum("spq,sq->sp", root, white)
        effects, value = self.effects_and_value(normals, beta, levels, *further)
        value += self._shared(*further)[0] + self.constant
        diagonal = np.einsum("skk->sk", root) / self.scale
        value += np.log(np.abs(diagonal)).sum(axis=1)
        value += 0.5 * (white**2 - (beta / self.scale) ** 2).sum(axis=1)
        coef = np.tile(beta.T[:, :, None], (2, 1, 1, 1))
        return (*effects, coef), value[None]


class IntegratedQuadratureMarginal(_Integrated, QuadratureMarginal):
    """Of one factor."""


class IntegratedNestedMarginal(_Integrated, NestedQuadratureMarginal):
    """Of a factor that is nested in another one."""


def _lower(root):
    """Lower triangular factors of the same matrices as those of any factors."""
    return np.linalg.cholesky(root @ root.swapaxes(-1, -2))
