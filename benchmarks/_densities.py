"""Densities that benchmarks share, and the 34 small posteriors of `ablation.py`.

All are written for autograd, and take (n, dim) where nothing else is said.
The *seen* half are those that the search was tuned on, or their like: defaults, starts
and stopping were chosen while looking at them. The *unseen* half were invented for the
ablation. Data are generated here or bundled with scikit-learn; few normalisers are
known, and none is needed.
"""

from dataclasses import dataclass, field
from functools import partial

import autograd.numpy as anp
import numpy as np
from autograd.scipy.special import erf, gammaln, logsumexp
from autograd.scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import scale
from targets_1d import TARGETS, normal_mixture

from skboost import BoostedBayesianLogisticRegression, boost_posterior


@dataclass(frozen=True)
class Task:
    """A posterior and how it is fitted.

    Parameters
    ----------
    log_density : callable
        (n, dim) to (n,), unnormalised, on the user's scale.
    dim : int
    options : dict
        Of `boost_posterior`: start, constraints.
    data : tuple, default=None
        X and y where the logistic regression estimator is fitted in its place.
    """

    log_density: object
    dim: int
    options: dict = field(default_factory=dict)
    data: tuple | None = None

    def fit(self, **options):
        """The fitted posterior and the number of iterations."""
        if self.data is not None:
            # The prior of the density: by default its scale is learned.
            prior = {"prior": "normal", "prior_scale": 1.0, "fit_intercept": False}
            model = BoostedBayesianLogisticRegression(**prior, **options)
            model.fit(*self.data)
            return model.posterior_, model.n_iter_
        result = boost_posterior(self.log_density, self.dim, **self.options, **options)
        return result.posterior, result.n_iter


def _logistic(theta, X, y, log_prior):
    """Log joint of a logistic regression; y is -1 or 1."""
    margins = theta @ (X * y[:, None]).T
    return -anp.logaddexp(0.0, -margins).sum(axis=1) + log_prior(theta)


def log_normal(x, sd=1.0):
    """Log density of a normal, elementwise."""
    return -0.5 * (x / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)


def normals(theta, sd=1.0):
    """Independent normals, normalised."""
    return log_normal(theta, sd).sum(axis=1)


def student_t(theta, df):
    """Independent Student-t of unit scale, normalised."""
    constant = gammaln(0.5 * (df + 1)) - gammaln(0.5 * df) - 0.5 * np.log(df * np.pi)
    return (constant - 0.5 * (df + 1) * anp.log1p(theta**2 / df)).sum(axis=1)


def neals_funnel(theta):
    """v ~ N(0, 9), and all others N(0, e^v); normalised."""
    v = theta[:, :1]
    scaled = normals(theta[:, 1:] * anp.exp(-0.5 * v))
    return normals(v, 3.0) + scaled - 0.5 * (theta.shape[1] - 1) * v[:, 0]


def gaussians(weights, means, stds):
    """Log density of a mixture of isotropic normals, normalised."""
    weights, means, stds = (np.array(v, dtype=float) for v in (weights, means, stds))
    dim = means.shape[1]
    shift = np.log(weights) - dim * (np.log(stds) + 0.5 * np.log(2 * np.pi))

    def log_density(theta):
        square = anp.sum((theta[:, None, :] - means) ** 2, axis=-1)
        return logsumexp(shift - 0.5 * square / stds**2, axis=1)

    return log_density


four_gaussians = gaussians(
    [0.4, 0.3, 0.2, 0.1], [[0, 0], [4, 0], [0, 5], [-5, -4]], [0.5, 1.0, 1.5, 0.8]
)
far_bumps = gaussians(
    [0.5, 0.3, 0.2], [[0, 0, 0, 0], [10, 0, 0, 0], [0, -6, 6, 0]], [1.0, 0.5, 0.7]
)


def _design(seed, n, dim, coef_sd=1.0):
    """Columns with an intercept, true coefficients, and the generator for the rest."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, dim))
    X[:, 0] = 1.0
    return X, coef_sd * rng.standard_normal(dim), rng


def _labels(rng, probability):
    return np.where(rng.random(len(probability)) < probability, 1.0, -1.0)


# --- seen


def banana(theta):
    x, y = theta[:, 0], theta[:, 1]
    return log_normal(x, 2.0) + log_normal(y - 0.25 * x**2, 0.5)


def ring(radius, std):
    """Unnormalised log density in the plane, and its log normaliser.

    The integral of r exp(-(r - radius)^2 / (2 std^2)) over r > 0, times 2 pi.
    """
    z = radius / std
    integral = std**2 * np.exp(-0.5 * z**2) + radius * std * np.sqrt(np.pi / 2) * (
        1.0 + erf(z / np.sqrt(2))
    )

    def log_density(theta):
        # The tiny number keeps the derivative at the origin finite.
        r = anp.sqrt(anp.sum(theta**2, axis=1) + 1e-300)
        return -0.5 * ((r - radius) / std) ** 2

    return log_density, float(np.log(2 * np.pi * integral))


def three_student_t(theta):
    each = anp.array([student_t(theta - mean, 3.0) for mean in (-5.0, 0.0, 6.0)])
    return logsumexp(each, axis=0) - np.log(3.0)


def correlated_normal(dim, seed):
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((dim, dim)) / np.sqrt(dim) + np.eye(dim)
    whitener, centre = np.linalg.inv(factor), rng.standard_normal(dim)
    return lambda theta: normals((theta - centre) @ whitener.T)


def t2_logistic():
    X, coef, rng = _design(1, 20, 10)
    y = _labels(rng, 1 / (1 + np.exp(-X @ coef)))
    return Task(partial(_logistic, X=X, y=y, log_prior=partial(student_t, df=2.0)), 10)


def logistic_25():
    X, coef, rng = _design(2, 50, 25)
    y = _labels(rng, 1 / (1 + np.exp(-X @ coef)))
    return Task(partial(_logistic, X=X, y=y, log_prior=normals), 25)


def _regression(X, y):
    """The logistic regression estimator on rows with labels 0 and 1."""
    log_density = partial(_logistic, X=X, y=2.0 * y - 1.0, log_prior=normals)
    return Task(log_density, X.shape[1], data=(X, y))


def breast_cancer(n_features):
    X, y = load_breast_cancer(return_X_y=True)
    return _regression(scale(X[:, :n_features]), y)


def schools():
    """Eight groups around a common mean, non-centred; mean and log scale first."""
    effects = np.array([25.0, 4.0, -6.0, 9.0, 1.0, -3.0, 15.0, 8.0])
    errors = np.array([14.0, 11.0, 15.0, 10.0, 8.0, 12.0, 9.0, 17.0])

    def log_density(theta):
        mean, log_sd, z = theta[:, :1], theta[:, 1:2], theta[:, 2:]
        group = 5.0 * mean + anp.exp(log_sd) * z
        # Half-Cauchy of scale 5 on the standard deviation, and its Jacobian.
        prior = log_sd - anp.log1p(anp.exp(2.0 * log_sd) / 25.0)
        likelihood = -0.5 * (((group - effects) / errors) ** 2).sum(axis=1)
        return likelihood + normals(z) + (prior + log_normal(mean))[:, 0]

    return Task(log_density, 10)


def arch():
    """ARCH(2): mean, log constant, and the logs of both coefficients."""
    rng = np.random.default_rng(3)
    y = np.zeros(62)
    for t in range(2, 62):
        variance = 0.4 + 0.4 * (y[t - 1] - 0.3) ** 2 + 0.2 * (y[t - 2] - 0.3) ** 2
        y[t] = 0.3 + np.sqrt(variance) * rng.standard_normal()

    def log_density(theta):
        square = (y - theta[:, :1]) ** 2
        constant, first, second = (anp.exp(theta[:, k : k + 1]) for k in (1, 2, 3))
        variance = constant + first * square[:, 1:-1] + second * square[:, :-2]
        terms = -0.5 * anp.log(variance) - 0.5 * square[:, 2:] / variance
        return terms.sum(axis=1) + normals(theta, 1.5)

    return Task(log_density, 4)


def seen():
    """Name to task of the half that tuning looked at."""
    far = normal_mixture([0.5, 0.5], [-8, 8], [1, 1])
    return {
        "two modes": Task(TARGETS["two modes"][0], 1),
        "far modes": Task(far, 1, {"x0": [-8.0]}),
        "Fig. 1b": Task(TARGETS["P4 Fig. 1b"][0], 1),
        "Cauchy": Task(TARGETS["Cauchy"][0], 1),
        "three Student-t": Task(three_student_t, 1),
        "banana": Task(banana, 2),
        "ring": Task(ring(3.0, 0.4)[0], 2, {"x0": [3.0, 0.0]}),
        "four Gaussians": Task(four_gaussians, 2),
        "normal, 5-D": Task(correlated_normal(5, 4), 5),
        "t2 logistic, 10-D": t2_logistic(),
        "logistic, 25-D": logistic_25(),
        "breast cancer, 10-D": breast_cancer(10),
        "breast cancer, 30-D": breast_cancer(30),
        "schools, 10-D": schools(),
        "ARCH, 4-D": arch(),
    }


# --- unseen


def skew_normals(theta):
    shapes = np.array([0.0, 1.0, 3.0, 8.0])
    return normals(theta) + norm.logcdf(shapes * theta).sum(axis=1)


def gumbels(theta):
    z = theta / np.array([0.5, 1.0, 2.0])
    return -(z + anp.exp(-z)).sum(axis=1)


def funnel(theta):
    log_sd = 0.7 * theta[:, :1]
    rest = -0.5 * (theta[:, 1:] * anp.exp(-log_sd)) ** 2 - log_sd
    return log_normal(theta[:, 0]) + rest.sum(axis=1)


def long_banana(theta):
    bent = theta[:, 1:] - 0.4 * (theta[:, :-1] ** 2 - 1.0)
    return log_normal(theta[:, 0]) + normals(bent, 0.6)


def two_student_t(theta):
    centres, scales = np.array([[-1.5, 0.0], [2.0, 1.5]]), np.array([0.7, 1.2])
    z = (theta[:, None, :] - centres) / scales[:, None]
    tails = -0.5 * (4.0 + 2.0) * anp.log1p((z**2).sum(axis=2) / 4.0)
    return logsumexp(tails - 2.0 * np.log(scales) + np.log([0.35, 0.65]), axis=1)


def cross(theta):
    sd = np.array([[3.0, 0.4], [0.4, 3.0]])
    return logsumexp(-0.5 * ((theta[:, None, :] / sd) ** 2).sum(axis=2), axis=1)


def laplace_product(theta):
    # Smooth at zero within a hundredth, for a gradient that exists.
    return -anp.sqrt(theta**2 + 1e-4).sum(axis=1)


def skewed_normal_20():
    normal = correlated_normal(20, 5)
    direction = np.random.default_rng(6).standard_normal(20) / np.sqrt(20)
    return Task(lambda t: normal(t) + norm.logcdf(1.5 * (t @ direction)), 20)


def horseshoe():
    """Three coefficients, non-centred, with half-Cauchy scales."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((25, 3))
    y = X @ np.array([1.5, 0.0, 0.3]) + 0.8 * rng.standard_normal(25)

    def log_density(theta):
        z, log_scale = theta[:, :3], theta[:, 3:]
        coef = z * anp.exp(log_scale)
        prior = log_scale - anp.log1p(anp.exp(2.0 * log_scale))
        residual = (y - coef @ X.T) / 0.8
        return -0.5 * (residual**2).sum(axis=1) + normals(z) + prior.sum(axis=1)

    return Task(log_density, 6)


def poisson():
    X, coef, rng = _design(8, 30, 8, 0.4)
    y = rng.poisson(np.exp(X @ coef))

    def log_density(theta):
        eta = theta @ X.T
        return (y * eta - anp.exp(eta)).sum(axis=1) + normals(theta)

    return Task(log_density, 8)


def negative_binomial():
    """Four coefficients and the log of the dispersion."""
    X, coef, rng = _design(9, 25, 4, 0.5)
    y = rng.poisson(np.exp(X @ coef) * rng.gamma(1.2, 1 / 1.2, 25))

    def log_density(theta):
        eta, size = theta[:, :4] @ X.T, anp.exp(theta[:, 4:])
        log_total = anp.logaddexp(eta, theta[:, 4:])
        terms = gammaln(y + size) - gammaln(size) + size * theta[:, 4:]
        return (terms + y * eta - (y + size) * log_total).sum(axis=1) + normals(
            theta, 2.0
        )

    return Task(log_density, 5)


def binomial_groups():
    """Success rates of six small groups, centred, around a common logit."""
    rng = np.random.default_rng(10)
    n = np.array([4, 7, 10, 3, 12, 6])
    y = rng.binomial(n, 1 / (1 + np.exp(-(-0.5 + 0.7 * rng.standard_normal(6)))))

    def log_density(theta):
        mean, log_sd, eta = theta[:, :1], theta[:, 1:2], theta[:, 2:]
        group = log_normal((eta - mean) * anp.exp(-log_sd)) - log_sd
        likelihood = y * eta - n * anp.logaddexp(0.0, eta)
        prior = log_normal(mean, 1.5) + log_normal(log_sd, 0.7)
        return (group + likelihood).sum(axis=1) + prior[:, 0]

    return Task(log_density, 8)


def autoregression():
    """AR(1) with Student-t noise: mean, coefficient, log scale, log of df - 1."""
    rng = np.random.default_rng(11)
    y = np.zeros(41)
    for t in range(40):
        y[t + 1] = 0.5 + 0.8 * y[t] + 0.6 * rng.standard_t(3)

    def log_density(theta):
        mean, coef, log_scale = theta[:, :1], theta[:, 1:2], theta[:, 2:3]
        df = 1.0 + anp.exp(theta[:, 3:])
        z = (y[1:] - mean - coef * y[:-1]) * anp.exp(-log_scale)
        constant = gammaln(0.5 * (df + 1)) - gammaln(0.5 * df) - 0.5 * anp.log(df)
        terms = constant - log_scale - 0.5 * (df + 1) * anp.log1p(z**2 / df)
        return terms.sum(axis=1) + normals(theta, 1.5)

    return Task(log_density, 4)


def probit():
    X, coef, rng = _design(12, 18, 6, 1.5)
    y = _labels(rng, norm.cdf(X @ coef))

    def log_density(theta):
        margins = theta @ (X * y[:, None]).T
        return norm.logcdf(margins).sum(axis=1) + normals(theta, 2.5)

    return Task(log_density, 6)


def shares():
    """Proportions of four known normals in forty rows, on the simplex."""
    rng = np.random.default_rng(13)
    centres = np.array([-2.0, 0.0, 1.0, 4.0])
    rows = rng.normal(centres[rng.choice(4, 40, p=[0.5, 0.05, 0.4, 0.05])])
    densities = np.exp(-0.5 * (rows[:, None] - centres) ** 2)

    def log_density(theta):
        return anp.log(theta @ densities.T).sum(axis=1)

    return Task(log_density, 4, {"constraints": "simplex"})


def gamma_model():
    """Shape and rate, both positive, of a dozen waiting times."""
    y = np.random.default_rng(14).gamma(0.7, 2.0, 12)

    def log_density(theta):
        shape, rate = theta[:, 0], theta[:, 1]
        likelihood = 12 * (shape * anp.log(rate) - gammaln(shape))
        likelihood = likelihood + shape * np.log(y).sum() - rate * y.sum()
        return likelihood - 0.5 * shape - 0.5 * rate

    return Task(log_density, 2, {"constraints": "positive"})


def many_coefficients():
    """150 rows of 60 independent features."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((150, 60))
    margin = X @ (0.7 * rng.standard_normal(60))
    return _regression(X, (rng.random(150) < 1.0 / (1.0 + np.exp(-margin))).astype(int))


def digits():
    """Threes against eights by 64 pixels."""
    X, y = load_digits(return_X_y=True)
    X, y = X[np.isin(y, (3, 8))], y[np.isin(y, (3, 8))]
    return _regression(scale(X), (y == 8).astype(int))


def unseen():
    """Name to task of the half that was invented for the ablation."""
    return {
        "cross": Task(cross, 2),
        "two Student-t, 2-D": Task(two_student_t, 2),
        "gamma model, 2-D": gamma_model(),
        "Gumbel, 3-D": Task(gumbels, 3),
        "funnel, 3-D": Task(funnel, 3),
        "skew normals, 4-D": Task(skew_normals, 4),
        "far bumps, 4-D": Task(far_bumps, 4),
        "Laplace, 4-D": Task(laplace_product, 4),
        "autoregression, 4-D": autoregression(),
        "simplex, 4 shares": shares(),
        "long banana, 5-D": Task(long_banana, 5),
        "negative binomial, 5-D": negative_binomial(),
        "horseshoe, 6-D": horseshoe(),
        "probit, 6-D": probit(),
        "Poisson, 8-D": poisson(),
        "binomial groups, 8-D": binomial_groups(),
        "skewed normal, 20-D": skewed_normal_20(),
        "logistic, 60-D": many_coefficients(),
        "digits, 64-D": digits(),
    }
