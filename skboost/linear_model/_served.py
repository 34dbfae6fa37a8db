"""Fitted linear models as models that need neither estimator nor package."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost.linear_model._latent import N_DRAWS, SEED, posterior_draws
from skboost.linear_model._softmax_predictive import by_quadrature, contrasts_part
from skboost.serving import (
    BinaryClassifier,
    ContrastsClassifier,
    CountRegressor,
    DrawsPart,
    GaussianPart,
    LinearRegressor,
    SoftmaxClassifier,
    onnx_model,
    part_of,
    write_module,
)


class Served:
    """Estimators that give ``_served()``, a model of `skboost.serving`."""

    def export(self, path):
        """Write the fitted model as one Python file that needs NumPy only.

        The file predicts where skboost, scikit-learn and SciPy are not installed. It
        has `predict`, and `predict_proba` for classifiers, as functions of dense rows;
        regressors take `return_std`. Its arrays are inside, so its size is that of the
        posterior: a classifier with more than four classes holds 1024 draws of it.

        Parameters
        ----------
        path : str or os.PathLike
            Usually ends with ``.py``. An earlier file is replaced when the new one is
            complete.

        Raises
        ------
        ValueError
            For labels that are no strings, numbers or booleans.
        OSError
            If the file can not be written; an earlier one stays.

        Notes
        -----
        Probabilities are those of `predict_proba` up to rounding, 1e-12; of three and
        four classes 1e-6, since `predict_proba` takes single precision there. The file
        runs as any Python module does: import only those that you wrote.
        """
        check_is_fitted(self)
        write_module(path, self._served(), type(self).__name__)

    def to_onnx(self, dtype="float64"):
        """The fitted model as an ONNX graph (extra ``onnx``).

        Parameters
        ----------
        dtype : {"float32", "float64"}, default="float64"
            Of the input ``X`` of shape (n_samples, n_features). Arithmetic is in double
            precision in either case.

        Returns
        -------
        onnx.ModelProto
            Of a binary classifier with outputs ``label`` and ``probabilities``, of a
            linear regression with ``mean`` and ``std`` (noise included). Write it with
            ``onnx.save``.

        Raises
        ------
        NotImplementedError
            For other models: more classes, several responses, counts, and components
            that are not Gaussian. `export` writes those.
        ImportError
            Without onnx.
        """
        check_is_fitted(self)
        return onnx_model(self._served(), dtype)


def served_classifier(model):
    """A classifier with a mixture over coefficients and intercepts."""
    mixture = model.posterior_.mixture.drop_zero_weights()
    base = (model.n_features_in_, bool(model._has_intercept), model.classes_)
    if len(model.classes_) == 2:
        return BinaryClassifier(*base, *_mixture_parts(mixture, mixture.dim))
    n_classes = len(model.classes_)
    if by_quadrature(mixture, n_classes):
        parts = [contrasts_part(*one, n_classes) for one in mixture.components]
        return ContrastsClassifier(*base, mixture.weights, tuple(parts))
    draws = posterior_draws(mixture)
    return SoftmaxClassifier(*base, draws.reshape(len(draws) * len(model.classes_), -1))


def served_regressor(model, noise_variance):
    """A linear regression with a mixture over coefficients and intercept."""
    mixture = model.posterior_.mixture.drop_zero_weights()
    n_linear = mixture.dim - model._n_further
    return LinearRegressor(
        model.n_features_in_,
        bool(model._has_intercept),
        *_mixture_parts(mixture, n_linear),
        float(noise_variance),
    )


def served_counts(model):
    """A Poisson regression: Gaussian components, or draws of the whole mixture."""
    mixture = model.posterior_.mixture.drop_zero_weights()
    weights, parts = _mixture_parts(mixture, mixture.dim)
    if not all(isinstance(part, GaussianPart) for part in parts):
        weights, parts = np.ones(1), (DrawsPart(posterior_draws(mixture)),)
    return CountRegressor(
        model.n_features_in_, bool(model._has_intercept), weights, parts
    )


def _mixture_parts(mixture, n_linear):
    parts = [part_of(*one, n_linear, _fixed_draws) for one in mixture.components]
    return mixture.weights, tuple(parts)


def _fixed_draws(family, params):
    """The draws behind probabilities under families without a quadrature."""
    rng = np.random.default_rng(SEED)
    dim = family.dim_of(params)
    return family.transport(params, family.base_draws(N_DRAWS, dim, rng))
