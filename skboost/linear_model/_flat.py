"""What the regressions without groups share: a fit, an update, a log joint density."""

from inspect import signature

from sklearn.utils.validation import check_is_fitted

from skboost._parameters import refuse_unknown
from skboost.linear_model._formula_estimator import FormulaEstimator
from skboost.linear_model._methods import prior_scale, prior_scale_interval
from skboost.linear_model._model import fit_model
from skboost.linear_model._sources import read_batch, read_rows, rows_in_place


class FlatRegression(FormulaEstimator):
    """A boosted posterior over coefficients of rows without groups.

    Subclasses say how responses are read, ``_reader(before, named)``, what is read of
    the arguments of `fit`, ``_arranged(reader, before, X, y, ...)``, and which model
    that is, ``_model(rows, reader)``. `before` is the model of rows before these, or
    None, and `named` are the classes that a user named.
    """

    prior_scale_, prior_scale_interval = property(prior_scale), prior_scale_interval

    _source = rows_in_place

    def make_log_joint(self, X, y, sample_weight=None, **keywords):
        """The fitted model's log joint density on some rows, as a function.

        What `fit` approximated, for the methods of `posterior_` that ask for a
        ``log_joint``: prior with the scales that "auto" found, class weights and
        temperature are those of the fit. A fit does not keep its rows for good, so they
        are passed again. After `partial_fit` the prior is that of the first call: pass
        all rows so far. ``class_weight="balanced"`` balances the rows that are passed
        here.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        **keywords
            What else `fit` takes for each row, such as ``offset``.

        Returns
        -------
        LogJoint
            Takes (n, dim) draws of the coordinates of `posterior_` and gives (n,)
            nats; ``.gradient`` takes the same and gives (n, dim).
        """
        check_is_fitted(self)
        refuse_unknown("make_log_joint", type(self).fit, {}, keywords)
        of_rows = dict.fromkeys([*signature(type(self).fit).parameters][3:])
        of_rows |= {"sample_weight": sample_weight} | keywords
        model, reader = self._model_, self._reader_again()
        rows = self._arranged(reader, model, *self._read(X, y, True, **of_rows))
        return model.log_joint(reader.held(self, *rows, reset=False))

    def _reader_again(self):
        """What reads rows of the fit once more, whatever parameters are by now."""
        return self._reader(self._model_)

    def _learn(self, rows, data, again, named=None):
        before = vars(self).get("_model_") if again else None
        reader = self._reader(before, named)
        read = read_batch if again else read_rows
        rows = read(self, reader, *self._arranged(reader, before, *rows))
        return self._learn_model(self._model(rows, reader), rows, data, again)

    def _learn_model(self, model, rows, data, again):
        """The fit of a model to its rows."""
        return fit_model(self, model, rows, data, again)
