"""The posterior over all factors of a matrix, as users meet it."""

import numpy as np

from skboost.approximation import Mixture
from skboost.conjugate import FactorFamily, MatrixFactorizationModel
from skboost.families import DiagonalGaussian
from skboost.posterior import ModelPosterior, reading_archive, write_archive

FORMAT, FORMAT_VERSION = "skboost-matrix-factorization-posterior", 1
_SIDES = {"row_factors": "rows", "column_factors": "columns"}
# Standard deviations of what is inferred, by the names of their precisions.
_SCALES = {
    "row_scales": "row_scales",
    "column_scales": "column_scales",
    "noise_scale": "noise",
}


class MatrixFactorizationPosterior(ModelPosterior):
    """A mixture of distributions of all factors of a matrix.

    A component is a product of Gaussians, one for each row and column, or for each
    single factor, and of distributions of the scales that are inferred. Factors are
    those of one rotation: the exact posterior has all others as well, with the same
    predictions.

    A draw has ``row_factors`` (n_rows, p) and ``column_factors`` (n_columns, p), with
    the bias as the last of p numbers where there are biases, and where they are
    inferred ``noise_scale``, ``row_scales`` and ``column_scales`` (p,). Of scales
    `log_density` is the density of the logarithms of their precisions,
    ``-2 ln(scale)``.

    Parameters
    ----------
    mixture : Mixture
        Components of weight zero are dropped.
    settings : dict
        Arguments of `MatrixFactorizationModel` that made the model.

    Attributes
    ----------
    mixture : Mixture
        The numerical core.
    settings : dict

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skboost import BoostedMatrixFactorization
    >>> model = BoostedMatrixFactorization(2, max_iter=1, random_state=0)
    >>> sorted(model.fit(load_iris().data).posterior_.sample(10, random_state=0))
    ['column_factors', 'column_scales', 'noise_scale', 'row_factors', 'row_scales']
    """

    __slots__ = ("_family",)

    def __init__(self, mixture, settings):
        super().__init__(mixture, settings)
        self._family = FactorFamily(MatrixFactorizationModel(**settings))

    def __repr__(self):
        n_rows, n_columns = self.model.shape
        return (
            f"MatrixFactorizationPosterior(n_rows={n_rows}, n_columns={n_columns}, "
            f"rank={self.model.n_components}, n_components={self.n_components})"
        )

    @property
    def model(self):
        """The conjugate model."""
        return self._family.model

    @property
    def components(self):
        """Natural parameters of the components, a list of dicts; diagonal ones have
        Gammas."""
        return [*map(self._natural, self._mixture.components)]

    def _natural(self, component):
        if isinstance(component.family, FactorFamily):
            return component.family.natural(component.params)
        layout = self._family.draws_layout
        mean, variance, _ = component.structure()
        mean, variance = layout.tree(mean[None]), layout.tree(variance[None])
        natural = {}
        for name in _SIDES.values():
            precision = 1.0 / variance[name][0]
            natural[name] = {
                "precision": precision[:, :, None] * np.eye(precision.shape[1]),
                "first": precision * mean[name][0],
            }
        for name in self._family.gammas:
            # Mean and relative variance of a log-normal distribution.
            shape = 1.0 / np.expm1(variance[name][0])
            expected = np.exp(mean[name][0] + 0.5 * variance[name][0])
            natural[name] = {"shape": shape, "rate": shape / expected}
        return natural

    # --- draws and densities

    def _dict(self, theta):
        tree = self._family.draws_layout.tree(theta)
        draws = {key: tree[name] for key, name in _SIDES.items()}
        for key, name in _SCALES.items():
            if name in tree:
                draws[key] = np.exp(-0.5 * tree[name])
        return draws

    @property
    def _shapes(self):
        own = self._family.draws_layout.shapes
        return {k: own[v] for k, v in (_SIDES | _SCALES).items() if v in own}

    def _rows(self, draws):
        layout = self._family.draws_layout
        tree = {
            (_SIDES | _SCALES)[key]: array if key in _SIDES else -2.0 * np.log(array)
            for key, array in draws.items()
        }
        return layout.flat({name: tree[name] for name in layout.shapes})

    # --- disk

    def save(self, path):
        """Write to `path` (str or path-like): an npz archive without pickled
        objects."""
        arrays = {"weights": self.weights}
        kinds = []
        for k, component in enumerate(self._mixture.components):
            factors = isinstance(component.family, FactorFamily)
            kinds.append("factors" if factors else "diag")
            arrays[f"params_{k}"] = component.params
        header = {"model": self._settings, "kinds": kinds}
        write_archive(path, FORMAT, FORMAT_VERSION, header, arrays)

    @classmethod
    def load(cls, path):
        """Posterior that `save` wrote at `path`; a ValueError refuses other files."""
        writer = "MatrixFactorizationPosterior.save"
        archive = reading_archive(path, FORMAT, FORMAT_VERSION, writer)
        with archive as (header, arrays):
            settings = header["model"] | {"shape": tuple(header["model"]["shape"])}
            own = FactorFamily(MatrixFactorizationModel(**settings))
            families = {"diag": DiagonalGaussian(), "factors": own}
            components = tuple(
                (families[kind], arrays[f"params_{k}"])
                for k, kind in enumerate(header["kinds"])
            )
            return cls(Mixture(components, arrays["weights"]), settings)
