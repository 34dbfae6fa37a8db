"""scikit-learn's own checks of every estimator."""

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

from skboost import (
    BoostedGaussianMixture,
    BoostedMatrixFactorization,
    EvidenceSearch,
    SVIGaussianMixture,
    SVILatentDirichletAllocation,
    SVIMatrixFactorization,
)
from skboost.strategies import GreedySearch

from .kinds import FLAT, GROUPED, OnlineLinear, OnlineLogistic

Linear, Logistic, Ordinal, Poisson = FLAT
GroupedLinear, GroupedLogistic, GroupedOrdinal, GroupedPoisson = GROUPED

# Fits of a boosted model that take seconds even with two iterations; the defaults, in
# the slow suite, go through them.
SECONDS = {
    "check_class_weight_classifiers",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}

# Every way through the estimators in few iterations, and in the slow suite the defaults
# of those and several other settings at once.
FEW = {"max_iter": 1, "search": GreedySearch(32, refine=False), "prior_scale": 1.0}
# Steps of a given size cost little.
FEW |= {"orbit": None, "step_size": 0.3, "corrective": "none"}
# Answers of a mixture may depend on what those of one component do not.
OF_MIXTURES = {
    "check_dict_unchanged",
    "check_estimators_pickle",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
}
QUICK = [
    Logistic(**FEW),
    Poisson(**FEW),
    SVIGaussianMixture(),
    OnlineLinear(),
    OnlineLogistic(),
    SVIMatrixFactorization(max_iter=5),
    SVILatentDirichletAllocation(max_iter=5),
    EvidenceSearch(
        SVIGaussianMixture(max_iter=1, init_params="random"),
        {"n_components": [1, 2]},
        error_score="raise",
    ),
]
# One of each way to read rows goes through all of them at once, the others slowly.
WHOLE = 0, 2, 3
SLOW = [
    Logistic(),
    Linear(),
    Ordinal(max_iter=2, prior_scale=1.0),
    Poisson(),
    GroupedLinear(),
    GroupedLogistic(),
    GroupedOrdinal(max_iter=2),
    GroupedPoisson(),
    BoostedGaussianMixture(),
    BoostedMatrixFactorization(),
]
# Of a class that stands above: rows and parameters are read the same way, so that
# these, and the second of the quick ones, are asked what depends on the fit.
VARIANTS = [
    Poisson(
        likelihood="negative_binomial", max_iter=2, prior_scale=1.0
    ),
    BoostedMatrixFactorization(
        2, proposal="residual", biases=True, max_iter=2, n_restarts=1
    ),
    SVIMatrixFactorization(
        2, biases=True, batch_size=20, effective_batch_size=10, max_iter=5
    ),
    SVIMatrixFactorization(2, dtype="float32", noise_scale=0.5),
    SVILatentDirichletAllocation(
        3, batch_size=7, effective_batch_size=3, n_init=2, init_params="random",
        temperature=0.5, max_iter=3,
    ),
    SVIGaussianMixture(2, covariance_type="tied", batch_size=7, effective_batch_size=3),
    SVIGaussianMixture(
        2, mean_prior_type="independent", reg_covar=1e-3,
        weight_concentration_prior_type="dirichlet_process",
    ),
    EvidenceSearch(
        Logistic(max_iter=1, search=GreedySearch(64)),
        {"prior_scale": [0.5, 2.0]},
        error_score="raise",
    ),
]  # fmt: skip
OF_FITS = OF_MIXTURES | {
    "check_classifiers_train",
    "check_estimator_sparse_array",
    "check_estimators_dtypes",
    "check_estimators_overwrite_params",
    "check_fit1d",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_readonly_memmap_input",
    "check_regressors_train",
    "check_sample_weight_equivalence_on_dense_data",
    "check_transformer_general",
    "check_transformer_n_iter",
}


# Checks that an estimator is meant to fail, and why.
EXCUSED = {
    "OnlineBayesianLogisticRegression": dict.fromkeys(
        [
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
        ],
        "a row of weight two is one update that is twice as strong, not two updates",
    )
}


# This check sets max_iter to 1,000, so that one set of hyperparameters has seen it all;
# by the default tol it took a minute and a half.
SETS_MAX_ITER = "check_class_weight_classifiers"

# Their tolerance, 1e-7, is below the rounding of single precision: whether the last
# bit of a sum changes with the order of rows depends on where arrays lie in memory.
NOT_IN_SINGLE_PRECISION = {
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
}


def _checks():
    for position, estimator in enumerate(QUICK + SLOW + VARIANTS):
        kind, quick = type(estimator).__name__, position < len(QUICK)
        excused, seen = EXCUSED.get(kind, {}), set()
        checks = estimator_checks_generator(estimator)
        for number, (instance, check) in enumerate(checks):
            name = getattr(check, "func", check).__name__
            single = getattr(estimator, "dtype", None) == "float32"
            if single and name in NOT_IN_SINGLE_PRECISION:
                continue
            if (position >= len(QUICK + SLOW) or position == 1) and name not in OF_FITS:
                continue
            boosted = quick and kind.startswith("Boosted")
            if boosted and name in SECONDS:
                continue
            if boosted and name in OF_MIXTURES:
                instance = clone(instance).set_params(max_iter=2)
            if name == SETS_MAX_ITER and "tol" in instance.get_params():
                # All checks of an estimator are given the same instance.
                instance = clone(instance).set_params(tol=0.1)
            whole = position in WHOLE or (quick and name in OF_FITS)
            # Checks that scikit-learn has in several forms run quickly in the first.
            marks = [pytest.mark.slow] * (not whole or name in seen)
            seen.add(name)
            if name in excused:
                marks.append(pytest.mark.xfail(reason=excused[name], strict=True))
            yield pytest.param(
                instance, check, marks=marks, id=f"{position}-{kind}-{number}-{name}"
            )


@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
def test_check_estimator(estimator, check):
    check(estimator)
