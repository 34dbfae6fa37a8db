import numpy as np
import pytest

from skboost.conjugate import COVARIANCES, GaussianMixtureModel
from skboost.conjugate.gaussian_mixture import CLUSTER_DISTRIBUTIONS, log_likelihood

EVERY = [
    (clusters, shape) for clusters in CLUSTER_DISTRIBUTIONS for shape in COVARIANCES
]


def covariance_for(X, shape):
    """Of the data, in the native shape."""
    return {
        "full": np.atleast_2d(np.cov(X.T)),
        "tied": np.atleast_2d(np.cov(X.T)),
        "diag": X.var(axis=0),
        "spherical": X.var(),
    }[shape]


def make_model(clusters, shape, X, n_components=3, temperature=1.0, **settings):
    rate = covariance_for(X, shape)
    dof = X.shape[1] + 1.5
    prior = {
        "normal-wishart": {"mean_precision": 0.7, "dof": dof, "rate": rate},
        "independent": {"mean_variance": 9.0, "dof": dof, "rate": rate},
        "known": {"mean_variance": 9.0, "known": rate},
    }[clusters]
    alpha = np.linspace(0.5, 1.0, n_components)
    center = np.nanmean(X, axis=0) + 0.3
    return GaussianMixtureModel(
        clusters, shape, alpha, center, temperature, **settings, **prior
    )


def blobs(seed=0, n=40, dim=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, dim))
    X[: n // 2] = X[: n // 2] * 0.4 + 3.0
    return X


def corpus(n_documents=40, n_words=30, n_topics=4, length=30, seed=0):
    """Counts and the topics that they were drawn from."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.1), n_topics)
    shares = rng.dirichlet(np.full(n_topics, 0.2), n_documents)
    return np.array([rng.multinomial(length, p @ topics) for p in shares]), topics


def ascended(model, rows, weight=None, n_iter=10, seed=0):
    """Natural parameters after coordinate ascent, and the path of the bound."""
    rng = np.random.default_rng(seed)
    resp = rng.dirichlet(np.ones(model.n_components), len(rows))
    if weight is not None:
        resp *= weight[:, None]
    natural, path = model.start(rows, resp), []
    for _ in range(n_iter):
        found = model.expect(natural, rows, weight)
        path.append(model.elbo(natural, found.evidence))
        natural = model.updated(natural, found.statistics[0])
    return natural, np.array(path)


def log_joint(model, draws, rows, weight=None):
    """Log joint density of draws of the parameters and the rows, nats."""
    weight = np.ones(len(rows)) if weight is None else weight
    found = log_likelihood(model, draws, rows, weight)
    return model.log_prior(draws) + model.temperature * found


def close(values, exact, n_errors=5.0):
    """Whether the mean of draws is the exact one, to so many standard errors."""
    values = values.reshape(len(values), -1)
    error = np.abs(values.mean(axis=0) - np.ravel(exact))
    se = values.std(axis=0) / np.sqrt(len(values))
    # What is known is inverted twice, and back only to rounding.
    return np.all(error <= n_errors * se + 1e-10)


@pytest.fixture(params=EVERY, ids="-".join)
def law_and_shape(request):
    return request.param
