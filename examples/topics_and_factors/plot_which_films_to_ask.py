"""
Which films to ask a new user about
===================================

A new user has rated nothing. Which answers would tell most about all the others? With
a posterior over factors that can be computed before anyone is asked.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

from skboost import SVIMatrixFactorization

plt.style.use("skboost.inspection.figures")

# %%
# A generated matrix in the shape of film ratings: 600 users, 150 films, some films
# rated by many and most by few, stars from 1 to 5. The last 100 users are kept apart.

rng = np.random.default_rng(0)
n_users, n_films, rank = 600, 150, 3
taste = rng.normal(size=(n_users, rank))
films = rng.normal(size=(n_films, rank)) * rng.gamma(2.0, 0.2, (n_films, 1))
stars = 3.5 + rng.normal(0, 0.4, (n_users, 1)) + rng.normal(0, 0.5, n_films)
stars = stars + taste @ films.T + rng.normal(0, 0.6, (n_users, n_films))
stars = np.clip(np.round(stars), 1, 5)
popular = rng.beta(0.6, 3.0, n_films)
users, rated = np.nonzero(rng.random((500, n_films)) < popular)
ratings = sparse.csr_array((stars[users, rated], (users, rated)), shape=(500, n_films))
print(f"{ratings.nnz} ratings, {ratings.nnz / 500 / n_films:.0%} of all")

model = SVIMatrixFactorization(5, biases=True, random_state=0).fit(ratings)

# %%
# A user has a taste and a bias, a film the features (v, 1) for them. An answer about a
# film adds the second moment of its features, divided by the variance of the noise, to
# the precision of the user. That does not depend on what the answer is. So the
# questions are found one by one: each time the film that leaves the least variance in
# the predictions for all films.

n_features = model.n_components + 1
features = np.column_stack([model.components_.T, np.ones(n_films)])
seconds = features[:, :, None] * features[:, None, :]
seconds[:, :-1, :-1] += model.component_covariances_[:, :-1, :-1]
information = seconds / model.noise_scale_**2
everything = seconds.sum(axis=0)


def questions(n):
    """The films that tell most, one after another."""
    precision, asked = np.diag(model.row_scales_**-2.0), []
    for _ in range(n):
        after = np.linalg.inv(precision + information)
        left = np.einsum("jpq,pq->j", after, everything)
        left[asked] = np.inf
        asked.append(int(left.argmin()))
        precision = precision + information[asked[-1]]
    return asked


# %%
# The kept users answer, and films that nobody was asked about are predicted. As the
# posterior expected, fewer questions are needed for the same error than with the films
# that most people have rated, or with films at random.

n_asked = 15
orders = {
    "most informative": questions(n_asked),
    "most rated": list(np.argsort(-np.bincount(rated, minlength=n_films))[:n_asked]),
    "at random": list(rng.choice(n_films, n_asked, replace=False)),
}
new = stars[500:]
figure, ax = plt.subplots(figsize=(6, 3.8))
for name, order in orders.items():
    errors = []
    for n in range(n_asked + 1):
        known = np.full(new.shape, np.nan)
        known[:, order[:n]] = new[:, order[:n]]
        missing = np.isnan(known)
        missing[:, orders["most informative"]] = False
        missing[:, orders["most rated"] + orders["at random"]] = False
        error = (new - model.reconstruct(known))[missing]
        errors.append(np.sqrt(np.mean(error**2)))
    print(f"{name}: RMSE {errors[5]:.3f} after 5 answers, {errors[-1]:.3f} after 15")
    ax.plot(errors, "o-", label=name)
ax.set(xlabel="answers of a new user", ylabel="RMSE of other films (stars)")
figure.legend(loc="outside upper center", ncols=3)
plt.show()
