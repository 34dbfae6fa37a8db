"""A pickle, a copy and a file answer as the model that they were made of."""

import copy
import pickle

import numpy as np
from numpy.testing import assert_array_equal

from skboost import MixturePosterior, boost_posterior

from .cases import KINDS, ONLINE, SVI, each

CASES = KINDS | ONLINE | SVI
# Of flat and of grouped rows some likelihoods go the same way.
SLOW = {n for n in KINDS if n.startswith("groups")} - {"groups, normal"}
SLOW |= {"ordered classes"}


def new(name):
    """A model whose draws are reweighted over orbits, where it has any."""
    model = CASES[name].new()
    if "orbit" in model.get_params():
        model.set_params(orbit=4, max_iter=1)
    return model


def flat(value):
    """Arrays in dicts and tuples of arrays."""
    if isinstance(value, dict):
        value = tuple(value[name] for name in sorted(value))
    if not isinstance(value, tuple):
        return [value]
    return [array for part in value for array in flat(part)]


def answers(model, case):
    """All that a model and its posterior say by draws, by name: lists of arrays."""
    posterior, X = getattr(model, "posterior_", None), case.data()["X"]
    asked = {
        (about, name): (40, 0)
        for about in (model, posterior)
        for name in ("sample", "sample_posterior")
    }
    asked |= {(posterior, name): () for name in ("std", "mean", "interval")}
    asked |= {(model, name): (X,) for name in ("transform", "predict_proba_interval")}
    found = {
        (type(about).__name__, name): flat(getattr(about, name)(*args))
        for (about, name), args in asked.items()
        if hasattr(about, name)
    }
    if hasattr(model, "predict_interval"):
        found["predict_interval"] = [model.predict_interval(X, **case.offset)]
    return found


def same(one, two):
    assert one.keys() == two.keys() and one, "nothing is drawn"
    for name in one:
        for a, b in zip(one[name], two[name], strict=True):
            assert_array_equal(a, b, err_msg=str(name))


@each(CASES, slow=SLOW)
def test_pickles_and_copies_draw_what_the_model_drew(name):
    case = CASES[name]
    model = new(name).fit(**case.data())
    before = answers(model, case)
    same(answers(pickle.loads(pickle.dumps(model)), case), before)
    same(answers(copy.deepcopy(model), case), before)
    # Nor does it change what the model itself says.
    same(answers(model, case), before)


def test_saved_posteriors_draw_what_they_drew(tmp_path):
    for name in ("two classes", "ordered classes", "poisson"):
        model = new(name).fit(**CASES[name].data())
        assert model.posterior_._mixture.orbiting, name
        model.posterior_.save(tmp_path / "posterior.npz")
        read = MixturePosterior.load(tmp_path / "posterior.npz")
        for what in ("std", "interval"):
            assert_array_equal(getattr(read, what)(), getattr(model.posterior_, what)())
        draws = [one.sample(50, random_state=3) for one in (read, model.posterior_)]
        assert_array_equal(*draws)


def test_results_with_orbits_draw_the_same_from_a_file(tmp_path):
    def log_gamma(theta):
        return np.sum(2.0 * np.log(theta) - theta, axis=1)

    result = boost_posterior(
        log_gamma, 2, gradient=lambda t: 2.0 / t - 1.0, constraints="positive",
        max_iter=1, orbit=4, random_state=0,
    )  # fmt: skip
    assert result.orbiting.applied
    result.save(tmp_path / "result.npz")
    for read in (type(result).load(tmp_path / "result.npz"), copy.deepcopy(result)):
        for what in ("mean", "std", "covariance", "interval"):
            one, two = (getattr(r.posterior, what)() for r in (read, result))
            assert_array_equal(one, two)
        draws = [r.posterior.sample(50, random_state=3) for r in (read, result)]
        assert_array_equal(*draws)
