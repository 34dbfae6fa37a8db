"""The boosted models in the company of scikit-learn's tools."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost import BoostedBayesianPoissonRegression

from .conftest import logistic_data, same_mixture

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
OFFSET = RNG.uniform(-1.0, 1.0, 60)
Y = RNG.poisson(np.exp(X @ [0.5, -0.5, 0.0] + OFFSET)).astype(float)


def test_class_weights_are_sample_weights(model):
    X, y = logistic_data(60, [1.0], intercept=-2.0)
    labels = np.array(["no", "yes"])[y]
    balanced = dict(enumerate(len(y) / (2 * np.bincount(y))))
    named = {"no": 2.0, "yes": 0.5}
    for asked, weight in (("balanced", balanced), (named, {0: 2.0, 1: 0.5})):
        by_class = model(class_weight=asked).fit(X, labels)
        by_row = model().fit(X, y, sample_weight=[weight[code] for code in y])
        assert same_mixture(by_class, by_row)


def test_weights_and_offsets_are_routed():
    weight = RNG.uniform(size=60)
    with sklearn.config_context(enable_metadata_routing=True):
        model = BoostedBayesianPoissonRegression(max_iter=1, random_state=0)
        model.set_fit_request(offset=True, sample_weight=True)
        model.set_predict_request(offset=True)
        model.set_score_request(offset=True, sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model)
        pipeline.fit(X, Y, offset=OFFSET, sample_weight=weight)
        mean = pipeline.predict(X, offset=OFFSET)
        scores = cross_validate(
            model, X, Y, cv=2, params={"offset": OFFSET, "sample_weight": weight}
        )
    alone = clone(model).fit(StandardScaler().fit_transform(X), Y, weight, OFFSET)
    assert_allclose(mean, alone.predict(StandardScaler().fit_transform(X), OFFSET))
    assert np.isfinite(scores["test_score"]).all()
