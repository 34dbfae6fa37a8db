"""Any log density: the same engine behind one function."""
