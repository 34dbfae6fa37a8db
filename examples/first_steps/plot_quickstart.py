"""
What boosting adds to one Gaussian
==================================

Ordinary variational inference describes a posterior by one Gaussian. Boosting goes on
from there: it adds a component where the mixture still falls short, until a new one
would gain next to nothing.

The first part fits a curved density of which everything is known exactly. The second
part fits the breast cancer data that come with scikit-learn.
"""

# sphinx_gallery_thumbnail_number = 2

# %%
# A banana
# --------
# In these coordinates :math:`x \sim N(0, 2^2)` and :math:`y` is a parabola of
# :math:`x` plus normal noise of standard deviation one half. The standard deviations
# are 2 and 1.5, and the density integrates to one, so the Kullback-Leibler divergence
# from it can be estimated with any number of draws.

import time

import autograd.numpy as np
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost import BoostedBayesianLogisticRegression, boost_posterior

plt.style.use("skboost.inspection.figures")


def log_density(theta):
    """Log density at points of shape (n, 2); returns shape (n,)."""
    x, y = theta[:, 0], theta[:, 1]
    return -(x**2) / 8 - 2 * (y - x**2 / 4) ** 2 - np.log(2 * np.pi)


def divergence(posterior):
    """KL divergence of a fitted posterior from the banana, in nats."""
    theta = posterior.sample(100_000, random_state=1)
    return np.mean(posterior.log_density(theta) - log_density(theta))


print(f"{'banana':16s}{'KL (nats)':>10s}{'sd of x':>9s}{'sd of y':>9s}{'seconds':>9s}")
fits = {}
gaussian = {"max_iter": 1, "skew": None}
for name, settings in {"one Gaussian": gaussian, "skboost": {}}.items():
    began = time.process_time()
    fits[name] = boost_posterior(log_density, dim=2, random_state=0, **settings)
    seconds = time.process_time() - began
    posterior = fits[name].posterior
    sd = posterior.std()
    print(
        f"{name:16s}{divergence(posterior):10.3f}{sd[0]:9.2f}{sd[1]:9.2f}{seconds:9.1f}"
    )
print(f"{'exact':16s}{0.0:10.3f}{2.0:9.2f}{1.5:9.2f}")

# %%
# The filled contours are the exact density, the lines the fitted one. The mixture
# follows the bend; one Gaussian covers the middle and is sure of it.

x, y = np.linspace(-6.5, 6.5, 261), np.linspace(-2.5, 10.0, 251)
points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
exact = np.exp(log_density(points)).reshape(len(y), len(x))
# Each line encloses the points whose density is above this share of the highest.
shares = np.array([0.01, 0.1, 0.3, 0.6])

figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
for ax, (name, fit) in zip(axes, fits.items(), strict=True):
    fitted = np.exp(fit.posterior.log_density(points)).reshape(exact.shape)
    ax.contourf(x, y, exact, [*(shares * exact.max()), exact.max()], cmap="Blues")
    ax.contour(x, y, fitted, shares * fitted.max(), colors="C1", linewidths=1.2)
    ax.set(title=f"{name} (lines), exact (filled)", xlabel="x")
axes[0].set_ylabel("y")
figure.savefig("quickstart.png")

# %%
# A classifier
# ------------
# The same engine inside of a scikit-learn estimator. For some tumours the data do not
# decide: the interval of the predicted probability says so, where a point estimate
# gives one number.

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = make_pipeline(
    StandardScaler(), BoostedBayesianLogisticRegression(random_state=0)
)
model.fit(X_train, y_train)
classifier, rows = model[-1], model[:-1].transform(X_test)

probability = model.predict_proba(X_test)
low, high = classifier.predict_proba_interval(rows, 0.9).T
print("\nbreast cancer, 143 test tumours")
print(f"log-loss {log_loss(y_test, probability):.3f}")
print(f"90 % intervals wider than one half: {np.sum(high - low > 0.5)}")
widest = np.argmax(high - low)
print(
    f"the widest, tumour {widest}: probability of benign {probability[widest, 1]:.2f}, "
    f"interval {low[widest]:.2f} to {high[widest]:.2f}"
)
print("\nsaved quickstart.png")

# %%
# Every bar is one tumour's 90 % interval. Most are too short to be seen; where the data
# do not decide, they are long.

order = np.argsort(probability[:, 1])
figure, ax = plt.subplots(figsize=(6, 3.6))
ax.vlines(np.arange(len(order)), low[order], high[order], color="C0", alpha=0.5)
ax.plot(probability[order, 1], ".", color="C0")
ax.set(xlabel="test tumours, in order", ylabel="probability of benign")
plt.show()
