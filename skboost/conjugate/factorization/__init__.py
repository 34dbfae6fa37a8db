"""The matrix factorisation: Gaussian factors, coordinate ascent, draws as a family."""
