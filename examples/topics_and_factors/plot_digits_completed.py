"""
Digits completed, with their uncertainty
========================================

A posterior over the factors of a matrix says of every missing entry how surely it is
known. Here the rows are images of digits of which half of the pixels are hidden.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skboost import SVIMatrixFactorization

plt.style.use("skboost.inspection.figures")

images = load_digits().data / 16.0
hidden = np.random.default_rng(0).random(images.shape) < 0.5
X = np.where(hidden, np.nan, images)

# %%
# The first 1,500 images are fitted. The others are new rows, whose factors follow from
# those of the pixels in closed form.

model = SVIMatrixFactorization(12, biases=True, random_state=0).fit(X[:1500])
mean, std = model.reconstruct(X[1500:], return_std=True)
new, unseen = images[1500:], hidden[1500:]
error = np.abs(new - mean)
print(f"mean squared error of hidden pixels {np.mean(error[unseen] ** 2):.4f}")
plain = np.mean((new - images[:1500].mean(axis=0))[unseen] ** 2)
print(f"with each pixel's mean instead      {plain:.4f}")
inside = np.mean((error < 1.645 * std)[unseen])
print(f"share of hidden pixels inside of their 90 % intervals: {inside:.3f}")

# %%
# The intervals hold a little less than they say: the model has normal noise of one
# size, and pixels at the margin are nearly always blank while those of the strokes vary
# more. What differs between images is how surely their factors are known: less, where
# few pixels were left that tell digits apart. Hidden pixels are orange. The last row
# shows the standard deviation that the factors contribute.

factors = np.sqrt(std**2 - model.noise_scale_**2)
shown = [1, 3, 9, 17, 34, 46, 68, 158]
rows = [
    ("image", new, {"vmin": 0, "vmax": 1, "cmap": "gray_r"}),
    ("given", np.where(unseen, np.nan, new), {"vmin": 0, "vmax": 1, "cmap": "gray_r"}),
    ("completed", mean, {"vmin": 0, "vmax": 1, "cmap": "gray_r"}),
    (
        "uncertainty",
        factors,
        {"vmin": 0, "vmax": factors[shown].max(), "cmap": "viridis"},
    ),
]
figure, axes = plt.subplots(4, len(shown), figsize=(8, 4.4))
for (name, values, look), line in zip(rows, axes, strict=True):
    for i, ax in zip(shown, line, strict=True):
        picture = ax.imshow(values[i].reshape(8, 8), **look)
        ax.set(xticks=[], yticks=[], facecolor="C4")
    line[0].set_ylabel(name)
figure.colorbar(picture, ax=axes[3], label="sd")
plt.show()
