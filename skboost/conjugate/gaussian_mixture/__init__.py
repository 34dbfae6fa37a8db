"""The Gaussian mixture: weights, clusters, coordinate ascent, draws as a family."""
