"""Independent coordinates m + scale * epsilon: diagonal Gaussian and Laplace."""

import numpy as np

from skboost.families._moments import checked_moments, checked_size


class LocationScale:
    """Reparameterisation and moves of params = (m, log scale).

    Attributes
    ----------
    unit_variance, unit_entropy : float
        Variance and entropy (nats) of one base variable.
    log_scale_step : float
        Inverse root of the Fisher information of the log scale.
    """

    unit_variance: float
    unit_entropy: float
    log_scale_step: float

    def n_params(self, dim):
        return 2 * dim

    def dim_of(self, params):
        dim = params.shape[0] // 2
        return checked_size(params, dim, 2 * dim)

    def base_dim(self, dim):
        return dim

    def scale_mask(self, dim):
        return np.repeat([False, True], dim)

    def split(self, params):
        """Location, log scale and scale."""
        location, log_scale = params.reshape(2, self.dim_of(params))
        return location, log_scale, np.exp(log_scale)

    def transport(self, params, eps):
        location, _, scale = self.split(params)
        return location + scale * eps

    def pull_transport(self, params, eps, cotangent):
        _, _, scale = self.split(params)
        slope = np.einsum("ij,ij->j", cotangent, eps)
        return np.concatenate([cotangent.sum(axis=0), scale * slope])

    def entropy(self, params):
        _, log_scale, _ = self.split(params)
        return float(log_scale.sum() + log_scale.size * self.unit_entropy)

    def entropy_gradient(self, params):
        return self.scale_mask(self.dim_of(params)).astype(float)

    def std(self, params):
        return np.sqrt(self.unit_variance) * self.split(params)[2]

    def from_moments(self, mean, covariance):
        mean, _, variance = checked_moments(mean, covariance)
        return np.concatenate([mean, 0.5 * np.log(variance / self.unit_variance)])

    def marginal(self, params, indices):
        return params.reshape(2, -1)[:, indices].ravel()

    def widen(self, params, width):
        dim = self.dim_of(params)
        return params + np.append(np.zeros(dim), np.broadcast_to(np.log(width), dim))

    def move(self, params, x):
        location, log_scale, scale = self.split(params)
        x_location, x_scale, _ = self.split(x)
        step = self.log_scale_step
        return np.concatenate(
            [location + scale * x_location, log_scale + step * x_scale]
        )

    def pull_move(self, params, x, gradient):
        _, _, scale = self.split(params)
        g_location, g_log_scale, _ = self.split(gradient)
        return np.concatenate([scale * g_location, self.log_scale_step * g_log_scale])
