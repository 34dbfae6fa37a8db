"""Coordinate ascent for a Gaussian mixture against scikit-learn's, from one start.

    python benchmarks/gmm_coordinate_ascent.py [--replicates 15] [--rows 50000]

50,000 x 10, 10 clusters with full covariances, Normal-Wishart prior. Both begin with
the same random responsibilities and take turns, one iteration each: E step, M step,
bound.
"""

from _harness import Report, parser, timed  # isort: skip

import numpy as np
from scipy.special import gammaln
from sklearn.mixture import BayesianGaussianMixture

from skboost.conjugate import GaussianMixtureModel


def data(n, dim, n_clusters, seed):
    rng = np.random.default_rng(seed)
    means = 3.0 * rng.normal(size=(n_clusters, dim))
    roots = 0.4 * rng.normal(size=(n_clusters, dim, dim)) + np.eye(dim)
    labels = rng.integers(n_clusters, size=n)
    noise = rng.normal(size=(n, dim))
    return means[labels] + np.einsum("nij,nj->ni", roots[labels], noise)


def rivals(X, resp):
    """scikit-learn's estimator and our model, from the same responsibilities."""
    n_components, dim = resp.shape[1], X.shape[1]
    theirs = BayesianGaussianMixture(
        n_components=n_components,
        weight_concentration_prior_type="dirichlet_distribution",
        reg_covar=0.0,
    )
    theirs._check_parameters(X)
    theirs._initialize(X, resp)
    ours = GaussianMixtureModel.make(
        "normal-wishart",
        "full",
        np.full(n_components, 1.0 / n_components),
        X.mean(axis=0),
        mean_precision=1.0,
        dof=dim,
        rate=np.cov(X.T),
    )
    rows = ours.rows(X)
    return theirs, ours, rows, ours.start(rows, resp)


def their_iteration(theirs, X):
    log_norm, log_resp = theirs._e_step(X)
    theirs._m_step(X, log_resp)
    return log_resp, theirs._compute_lower_bound(log_resp, log_norm)


def our_iteration(ours, rows, natural):
    found = ours.expect(natural, rows, None)
    bound = ours.elbo(natural, found.evidence)
    return ours.updated(natural, found.statistics[0]), bound


def dropped_constants(ours, n):
    """What scikit-learn's bound leaves out, named."""
    k, dim = ours.n_components, ours.dim
    prior = ours.clusters._wishart(ours.prior["clusters"])
    alpha = ours.weights.prior["alpha"]
    return {
        "rows: n D/2 ln 2 pi": n * dim / 2 * np.log(2 * np.pi),
        "prior Wisharts' normalisers, less K D(D-1)/4 ln pi": float(
            prior.log_normaliser.sum() - k * dim * (dim - 1) / 4 * np.log(np.pi)
        ),
        "prior means' scale: -K D/2 ln(mean_precision_prior)": 0.0,
        "prior weights' normaliser": float(gammaln(alpha).sum() - gammaln(alpha.sum())),
    }


def main():
    options = parser(__doc__, replicates=15)
    options.add_argument("--rows", type=int, default=50_000)
    options = options.parse_args()
    report = Report(
        "gmm_coordinate_ascent",
        options.out,
        rows=options.rows,
        columns=10,
        clusters=10,
        iterations=options.replicates,
    )
    X = data(options.rows, 10, 10, seed=0)
    resp = np.random.default_rng(1).dirichlet(np.ones(10), len(X))
    theirs, ours, rows, natural = rivals(X, resp)
    seconds, apart, gaps = [], [], []
    for _ in range(options.replicates):
        before = natural
        (log_resp, bound), theirs_cpu, _ = timed(their_iteration, theirs, X)
        (natural, _), ours_cpu, _ = timed(our_iteration, ours, rows, natural)
        seconds.append((theirs_cpu, ours_cpu))
        found = ours.responsibilities(before, rows)
        apart.append(np.abs(found - np.exp(log_resp)).max())
        # Their bound is of the old assignments and the new parameters.
        log_found = np.log(np.maximum(found, 1e-300))
        exact = (found * (ours.joint(natural, rows) - log_found)).sum()
        gaps.append(bound - (exact - ours.kl(natural)))
    theirs_s, ours_s = np.median(seconds, axis=0)
    report.row("CPU seconds per iteration", who="BayesianGaussianMixture", s=theirs_s)
    report.row("CPU seconds per iteration", who="skboost", s=ours_s)
    constants = dropped_constants(ours, len(X))
    for name, value in constants.items():
        report.row("constants in their bound, nats", constant=name, value=value)
    error = np.abs(np.array(gaps) - sum(constants.values())).max()
    report.bar("seconds per iteration, ratio", ours_s / theirs_s, "<=", 1.2)
    report.bar("largest difference of a responsibility", max(apart), "<=", 1e-6)
    report.bar("bounds, relative, constants added", error / abs(bound), "<=", 1e-9)


if __name__ == "__main__":
    main()
