"""Fitted models as ONNX graphs, in double precision.

The predictive probability of two classes under a Gaussian is a sum over fixed nodes:
in the Gaussian variable up to the standard deviation `_WIDEST`, in the frequency domain
beyond it. The nodes are those of `scalar_rules`.
"""

import numpy as np

from skboost._parameters import imported
from skboost._version import __version__
from skboost.serving._plain import (
    BinaryClassifier,
    ContrastsClassifier,
    ContrastsPart,
    GaussianPart,
    LinearRegressor,
    OneVsRestClassifier,
    SoftmaxClassifier,
)
from skboost.targets import class_contrasts, scalar_rules

# Both domains: the last direct rule and the first rule of frequencies.
_WIDEST = 3.0
# Numbers of ONNX's element types.
_FLOAT, _DOUBLE, _INT64, _STRING, _BOOL = 1, 11, 7, 8, 9
_INPUTS = {"float32": _FLOAT, "float64": _DOUBLE}


class _Graph:
    """Nodes of a graph as they are made; values are known by their names."""

    def __init__(self, onnx):
        self._onnx = onnx
        self.nodes, self.constants = [], []

    def constant(self, value, dtype=np.float64):
        """The name of an array that the graph holds."""
        name = f"constant_{len(self.constants)}"
        array = np.asarray(value, dtype=dtype)
        self.constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, kind, *inputs, output=None, **attributes):
        """The name of what an operator gives; inputs that are no names are arrays."""
        names = [i if isinstance(i, str) else self.constant(i) for i in inputs]
        output = output or f"{kind.lower()}_{len(self.nodes)}"
        node = self._onnx.helper.make_node(kind, names, [output], **attributes)
        self.nodes.append(node)
        return output

    def axes(self, *axes):
        """The name of a list of axes."""
        return self.constant(axes, np.int64)


def onnx_model(model, dtype="float64", before=None, estimator="model"):
    """A plain model as an ONNX model, after an affine map (matrix, shift) of rows.

    `estimator` is what a user calls it.
    """
    onnx = _import_onnx()
    if dtype not in _INPUTS:
        raise ValueError(f"dtype must be 'float32' or 'float64'; got {dtype!r}.")
    build = _BUILDERS.get(type(model))
    kinds = {type(part) for part in vars(model).get("parts", ())}
    if build is None or kinds - {GaussianPart, ContrastsPart}:
        of_others = "" if build is None else " with other components"
        raise NotImplementedError(
            "to_onnx writes classifiers and linear regressions, both without groups "
            f"and with Gaussian components; got a {estimator}{of_others}. Use "
            "export(path), which writes a Python file that needs NumPy only."
        )
    graph = _Graph(onnx)
    X, n_features = graph.add("Cast", "X", to=_DOUBLE), model.n_features
    if before is not None:
        X = graph.add("Add", graph.add("MatMul", X, before[0]), before[1])
        n_features = len(before[0])
    if model.fit_intercept:
        X = graph.add("Pad", X, graph.axes(0, 0, 0, 1), np.float64(1.0))
    outputs = build(graph, model, X)
    return _assembled(onnx, graph, n_features, dtype, outputs)


def _import_onnx():
    for part in ("checker", "helper", "numpy_helper"):
        imported(f"onnx.{part}", "to_onnx")
    return imported("onnx", "to_onnx")


def _assembled(onnx, graph, n_features, dtype, outputs):
    make = onnx.helper.make_tensor_value_info
    made = onnx.helper.make_graph(
        graph.nodes,
        "skboost",
        [make("X", _INPUTS[dtype], ["n", n_features])],
        [make(*output) for output in outputs],
        graph.constants,
    )
    built = onnx.helper.make_model(
        made,
        producer_name="skboost",
        producer_version=__version__,
        # Operators of this set are in every onnxruntime of the last years (1.14 on).
        opset_imports=[onnx.helper.make_opsetid("", 18)],
        # What came with that set of operators: readers refuse later formats.
        ir_version=8,
    )
    onnx.checker.check_model(built)
    return built


# --- linear predictors


def _moments(graph, part, X):
    """Mean and variance of the linear predictor of every row, (n, 1) each."""
    mean = graph.add("MatMul", X, part.mean[:, None])
    terms = []
    if part.variance is not None:
        square = graph.add("Mul", X, X)
        terms.append(graph.add("MatMul", square, part.variance[:, None]))
    if part.factor is not None:
        projected = graph.add("MatMul", X, part.factor)
        square = graph.add("Mul", projected, projected)
        terms.append(graph.add("ReduceSum", square, graph.axes(1)))
    return mean, graph.add("Sum", *terms)


# --- classifiers


def _classifier(graph, model, X):
    """Probabilities of both classes and the label, as outputs of the graph."""
    positive = _average(graph, model, X, _positive)
    negative = graph.add("Sub", 1.0, positive)
    both = graph.add("Concat", negative, positive, axis=1)
    return _classified(graph, model, both)


def _average(graph, model, X, of_part, *further):
    """Weighted sum over the parts of a model of what one gives, with its own values."""
    each = [of_part(graph, X, *own) for own in zip(model.parts, *further, strict=True)]
    pairs = zip(each, model.weights, strict=True)
    return graph.add("Sum", *(graph.add("Mul", p, float(w)) for p, w in pairs))


def _one_against_rest(graph, model, X):
    """Probabilities of classes that each have a model against all others."""
    columns = [_positive(graph, X, part) for part in model.parts]
    positive = graph.add("Concat", *columns, axis=1)
    positive = graph.add("Max", positive, np.finfo(float).tiny)
    return _classified(graph, model, positive)


def _drawn(graph, model, X):
    """Probabilities of classes by the draws that the model has."""
    shape = graph.constant([0, -1, len(model.classes)], np.int64)
    eta = graph.add("Reshape", graph.add("MatMul", X, model.draws.T), shape)
    each = graph.add("Softmax", eta, axis=2)
    shares = len(model.weights) * model.weights[:, None]
    each = graph.add("Mul", each, graph.constant(shares))
    mean = graph.add("ReduceMean", each, graph.axes(1), keepdims=0)
    return _classified(graph, model, mean)


def _contrasts(graph, model, X):
    """Probabilities of classes by the nodes that the model has for contrasts."""
    total = _average(graph, model, X, _softmax, model.nodes)
    return _classified(graph, model, total)


def _softmax(graph, X, part, nodes):
    """E softmax of classes whose contrasts are Gaussian, (n, K)."""
    n_axes = part.mean.shape[1]
    to_classes = class_contrasts(n_axes + 1)
    roots = graph.add(
        "MatMul", to_classes, _roots(graph, _spread(graph, part, X), n_axes)
    )
    mean = graph.add("MatMul", X, part.mean @ to_classes.T)
    mean = graph.add("Unsqueeze", mean, graph.axes(2))
    eta = graph.add("Add", graph.add("MatMul", roots, nodes), mean)
    each = graph.add("Softmax", eta, axis=1)
    return graph.add("ReduceMean", each, graph.axes(2), keepdims=0)


def _spread(graph, part, X):
    """Covariances of the contrasts of every row, (n, (K - 1)^2)."""
    n_axes, terms = part.mean.shape[1], []
    if part.factor is not None:
        shape = graph.constant([0, n_axes, part.factor.shape[1] // n_axes], np.int64)
        spread = graph.add("Reshape", graph.add("MatMul", X, part.factor), shape)
        turned = graph.add("Transpose", spread, perm=[0, 2, 1])
        square = graph.add("MatMul", spread, turned)
        terms.append(graph.add("Reshape", square, graph.axes(0, n_axes**2)))
    if part.variances is not None:
        square = graph.add("Mul", X, X)
        terms.append(graph.add("MatMul", square, part.variances))
    return graph.add("Sum", *terms)


def _roots(graph, covariance, n_axes):
    """Cholesky factors (n, n_axes, n_axes), which no rounding stops."""
    columns = []
    for j in range(n_axes):
        # What columns before this one leave of the covariance with this axis, (n, m).
        places = n_axes * np.arange(n_axes) + j
        rest = graph.add("Gather", covariance, graph.axes(*places), axis=1)
        for before in columns:
            own = graph.add("Gather", before, graph.axes(j), axis=1)
            rest = graph.add("Sub", rest, graph.add("Mul", before, own))
        pivot = graph.add("Gather", rest, graph.axes(j), axis=1)
        pivot = graph.add("Sqrt", graph.add("Max", pivot, np.finfo(float).tiny))
        below = (np.arange(n_axes) >= j).astype(float)
        columns.append(graph.add("Mul", graph.add("Div", rest, pivot), below))
    each = [graph.add("Unsqueeze", column, graph.axes(2)) for column in columns]
    return graph.add("Concat", *each, axis=2)


def _classified(graph, model, shares):
    """Outputs of the graph: the label, and probabilities in proportion to shares."""
    if model.sharpening != 1.0:
        shares = graph.add("Pow", shares, float(model.sharpening))
    total = graph.add("ReduceSum", shares, graph.axes(1))
    probabilities = graph.add("Div", shares, total, output="probabilities")
    best = graph.add("ArgMax", probabilities, axis=1, keepdims=0)
    labels, kind = _labels(graph, model.classes)
    graph.add("Gather", labels, best, output="label")
    shape = ["n", len(model.classes)]
    return [("label", kind, ["n"]), ("probabilities", _DOUBLE, shape)]


def _labels(graph, classes):
    kinds = {"i": (np.int64, _INT64), "u": (np.int64, _INT64), "b": (bool, _BOOL),
             "f": (np.float64, _DOUBLE)}  # fmt: skip
    if classes.dtype.kind in kinds:
        dtype, kind = kinds[classes.dtype.kind]
        return graph.constant(classes, dtype), kind
    if not all(isinstance(label, str) for label in classes.tolist()):
        raise ValueError(
            "to_onnx needs labels of one kind, strings or numbers or booleans; got "
            f"{classes.tolist()}. Fit with other labels."
        )
    return graph.constant(classes, object), _STRING


def _positive(graph, X, part):
    """E sigmoid(t), t ~ N(mean, variance), (n, 1)."""
    mean, variance = _moments(graph, part, X)
    std = graph.add("Sqrt", variance)
    narrow = _by_nodes(graph, mean, graph.add("Min", std, _WIDEST))
    wide = _by_frequencies(graph, mean, graph.add("Max", std, _WIDEST))
    return graph.add("Where", graph.add("Less", std, _WIDEST), narrow, wide)


def _rule(index):
    """Nodes, weights and largest |mean| / sd of one of the scalar rules."""
    _, first, nodes, weights, half_width, n_direct = scalar_rules()
    rule = n_direct + index
    part = slice(first[rule], first[rule + 1])
    return nodes[part], weights[part], half_width[rule]


def _by_nodes(graph, mean, std):
    """Sum over nodes of the Gaussian variable."""
    nodes, weights, _ = _rule(-1)
    t = graph.add("Add", graph.add("Mul", std, nodes[None]), mean)
    # onnxruntime's own Sigmoid loses digits where its argument is large.
    exponential = graph.add(
        "Exp", graph.add("Clip", graph.add("Neg", t), -700.0, 700.0)
    )
    one = graph.add("Add", exponential, 1.0)
    return graph.add("MatMul", graph.add("Reciprocal", one), weights[:, None])


def _by_frequencies(graph, mean, std):
    """1/2 + sum over frequencies v of sin(v mean / std) / sinh(pi v / std) / std."""
    nodes, weights, half_width = _rule(0)
    ratio = graph.add("Clip", graph.add("Div", mean, std), -half_width, half_width)
    waves = graph.add("Sin", graph.add("Mul", ratio, nodes[None]))
    # In halves, so that the exponential of a small argument does not cancel.
    sinh = graph.add("Div", np.pi * nodes[None], std)
    decay = graph.add("Exp", graph.add("Neg", sinh))
    rest = graph.add("Sub", 1.0, graph.add("Mul", decay, decay))
    terms = graph.add("Div", graph.add("Mul", waves, decay), rest)
    total = graph.add("MatMul", terms, 2.0 * weights[:, None])
    return graph.add("Add", graph.add("Div", total, std), 0.5)


# --- regressors


def _regressor(graph, model, X):
    """Predictive mean and standard deviation, as outputs of the graph."""
    moments = [_moments(graph, part, X) for part in model.parts]
    means = graph.add("Concat", *(mean for mean, _ in moments), axis=1)
    variances = graph.add("Concat", *(v for _, v in moments), axis=1)
    weights = model.weights[:, None]
    mean = graph.add("MatMul", means, weights)
    apart = graph.add("Sub", means, mean)
    square = graph.add("Add", variances, graph.add("Mul", apart, apart))
    total = graph.add("MatMul", square, model.spread_factor * weights)
    total = graph.add("Add", total, float(model.noise_variance))
    graph.add("Squeeze", mean, graph.axes(1), output="mean")
    std = graph.add("Sqrt", total)
    graph.add("Squeeze", std, graph.axes(1), output="std")
    return [("mean", _DOUBLE, ["n"]), ("std", _DOUBLE, ["n"])]


_BUILDERS = {
    BinaryClassifier: _classifier,
    ContrastsClassifier: _contrasts,
    OneVsRestClassifier: _one_against_rest,
    SoftmaxClassifier: _drawn,
    LinearRegressor: _regressor,
}
