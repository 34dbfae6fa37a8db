import io
import json
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad, trapezoid

from skboost.approximation import Mixture
from skboost.families import DiagonalGaussian, Laplace
from skboost.posterior import MixturePosterior, pack_mixtures, unpack_mixtures


@pytest.fixture
def bimodal(normal_mixture):
    return MixturePosterior(normal_mixture([-3.0, 2.0], [0.5, 1.0], [0.3, 0.7]))


# --- marginals, intervals, tables


def test_marginal_is_the_derivative_of_its_cdf_and_integrates_to_one(posterior):
    marginal = posterior.marginal("b")
    grid = np.linspace(*marginal.quantile([1e-9, 1 - 1e-9]), 20_001)
    density = marginal.pdf(grid)
    assert trapezoid(density, grid) == pytest.approx(1.0, abs=1e-6)
    between = np.linspace(grid[0], grid[-1], 21)
    h = 1e-5
    slope = (marginal.cdf(between + h) - marginal.cdf(between - h)) / (2 * h)
    np.testing.assert_allclose(slope, marginal.pdf(between), atol=1e-4)


def test_quantile_inverts_the_cdf(posterior):
    p = np.concatenate([np.linspace(1e-3, 1 - 1e-3, 201), [1e-12, 1e-6, 1 - 1e-6]])
    for i in range(posterior.dim):
        marginal = posterior.marginal(i)
        x = marginal.quantile(p)
        error = np.abs(marginal.cdf(x) - p)
        assert np.all(error < 1e-10 * marginal.pdf(x) + 1e-15)


def test_quantile_across_an_empty_gap(normal_mixture):
    # Between the modes the cdf is flat to rounding.
    mixture = normal_mixture([-1e4, 1e4], [1e-3, 10.0], [0.5, 0.5])
    marginal = MixturePosterior(mixture).marginal(0)
    x = marginal.quantile(np.array([0.25, 0.75]))
    np.testing.assert_allclose(x, [-1e4, 1e4], rtol=1e-12)
    p = np.array([0.4999, 0.5001])
    np.testing.assert_allclose(marginal.cdf(marginal.quantile(p)), p, atol=1e-9, rtol=0)
    assert -1e4 < marginal.quantile(0.5) < 1e4


def test_quantile_of_one_gaussian_is_scipys(normal_mixture):
    marginal = MixturePosterior(normal_mixture([2.0], [3.0], [1.0])).marginal(0)
    p = np.array([[1e-200, 1e-8, 0.3], [0.5, 0.9, 1 - 1e-12]])
    np.testing.assert_allclose(
        marginal.quantile(p), stats.norm(2, 3).ppf(p), rtol=1e-9, atol=1e-10
    )


def test_scalars_no_points_and_the_ends(bimodal):
    marginal = bimodal.marginal(0)
    assert marginal.component_log_pdf([]).shape == (0, bimodal.n_components)
    assert marginal.log_pdf([]).shape == marginal.cdf([]).shape == (0,)
    np.testing.assert_array_equal(marginal.quantile([0.0, 1.0]), [-np.inf, np.inf])
    for value in (marginal.quantile(0.3), marginal.pdf(1.0), marginal.cdf(1.0)):
        assert np.ndim(value) == 0
    with pytest.raises(ValueError, match=r"p must lie in \[0, 1\]"):
        marginal.quantile(1.2)


def test_interval_covers_its_share_of_draws(posterior):
    n, level = 20_000, 0.5
    draws = posterior.sample(n, random_state=1)
    interval = posterior.interval(level)
    assert interval.shape == (3, 2)
    inside = np.mean((draws > interval[:, 0]) & (draws < interval[:, 1]), axis=0)
    assert np.all(np.abs(inside - level) < 4 * np.sqrt(level * (1 - level) / n))
    np.testing.assert_allclose(interval[1], posterior.marginal(1).interval(level))


def test_impossible_levels_are_refused(bimodal):
    for level in (0.0, 1.0, 90, "0.9", [0.5, 0.9]):
        with pytest.raises(ValueError, match="level must lie strictly"):
            bimodal.interval(level)


def test_summary_is_a_frame_with_names(posterior):
    table = posterior.summary(level=0.8)
    assert list(table.index) == ["a", "b", "c"]
    np.testing.assert_allclose(table["mean"], posterior.mean())
    np.testing.assert_allclose(table[["lower", "upper"]], posterior.interval(0.8))
    expected = 1 - posterior.marginal(0).cdf(0.0)
    assert table.loc["a", "probability_positive"] == pytest.approx(expected)


def test_notebooks_show_the_summary(posterior, monkeypatch):
    assert "probability_positive" in posterior._repr_html_()
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert posterior._repr_html_() == f"<pre>{posterior!r}</pre>"


def test_summary_without_pandas(bimodal, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = bimodal.summary()
    assert table["name"].tolist() == ["theta[0]"]
    np.testing.assert_allclose(table["std"], bimodal.std())


def test_marginal_by_index_and_name(posterior, bimodal):
    assert posterior.marginal(-1).index == posterior.marginal("c").index == 2
    for wrong in (3, 1.5, None, (0, 1)):
        with pytest.raises(ValueError, match="below dim=3 or a name; got"):
            posterior.marginal(wrong)
    for one, name in ((posterior, "d"), (bimodal, "a")):
        with pytest.raises(ValueError, match="one of the posterior's names"):
            one.marginal(name)
    for names, message in ((["a", "b"], "one name"), (["a"] * 3, "distinct")):
        with pytest.raises(ValueError, match=message):
            posterior.renamed(names)


# --- modes


def test_modes_of_separate_components(bimodal):
    first, second = bimodal.modes()
    assert first.location == pytest.approx(2.0, abs=1e-3)
    assert second.location == pytest.approx(-3.0, abs=1e-3)
    assert first.log_density >= second.log_density
    assert (first.weight, second.weight) == (pytest.approx(0.7), pytest.approx(0.3))
    assert (first.components, second.components) == ((1,), (0,))


def test_overlapping_components_share_a_mode(normal_mixture):
    mixture = normal_mixture([-0.5, 0.5, 30.0], [1, 1, 1], [0.4, 0.4, 0.2])
    modes = MixturePosterior(mixture).modes()
    assert [mode.components for mode in modes] == [(0, 1), (2,)]
    assert modes[0].location == pytest.approx(0.0, abs=1e-4)
    # By symmetry the gradient vanishes at the wide component's mean: no mode.
    mixture = normal_mixture([-3, 0, 3], [0.5, 3, 0.5], [0.45, 0.1, 0.45])
    modes = MixturePosterior(mixture).modes()
    assert sorted(round(float(mode.location[0])) for mode in modes) == [-3, 3]


def test_modes_are_stationary_and_weights_add_up(posterior):
    modes = posterior.modes()
    assert sum(mode.weight for mode in modes) == pytest.approx(1.0)
    heights = [mode.log_density for mode in modes]
    assert heights == sorted(heights, reverse=True)
    rng = np.random.default_rng(0)
    for mode in modes:
        step = 1e-3 * posterior.std() * rng.standard_normal((200, 3))
        around = posterior.log_density(mode.location + step)
        assert np.all(around <= mode.log_density + 1e-6)


# --- distances, importance sampling


@pytest.mark.parametrize("shift", [0.05, 20.0])
def test_hellinger_agrees_with_quadrature(bimodal, normal_mixture, shift):
    other = normal_mixture([-3.0 + shift, 2.0], [0.5, 1.0], [0.3, 0.7])

    def root(x):
        point = np.array([[x]])
        return np.exp(0.5 * (bimodal.log_density(point) + other.log_density(point)))[0]

    breaks = [-3.0, -3.0 + shift, 2.0]
    squared = 1 - quad(root, -15, 35, points=breaks, limit=500, epsabs=1e-12)[0]
    estimate = bimodal.hellinger(MixturePosterior(other), random_state=0)
    assert abs(estimate.squared - squared) <= 4 * estimate.squared_se + 1e-12
    distance = np.sqrt(max(squared, 0.0))
    assert abs(estimate.distance - distance) <= 4 * estimate.se + 1e-6


def test_hellinger_is_symmetric_and_bounded(bimodal, normal_mixture):
    far = MixturePosterior(normal_mixture([1e3], [1.0], [1.0]))
    assert bimodal.hellinger(bimodal, random_state=0) == (0.0, 0.0, 0.0, 0.0)
    assert bimodal.hellinger(far, random_state=0).distance == pytest.approx(1.0)
    assert far.hellinger(bimodal, random_state=0).distance == pytest.approx(1.0)
    with pytest.raises(ValueError, match="other must have dimension 1"):
        bimodal.hellinger(Mixture.single((DiagonalGaussian(), np.zeros(4))))
    with pytest.raises(ValueError, match="other must be a posterior.*; got int"):
        bimodal.hellinger(3)


def test_resample_moves_a_wrong_mixture_to_the_target(normal_mixture):
    wrong = MixturePosterior(normal_mixture([0.0, 1.0], [2.0, 3.0], [0.5, 0.5]))
    target = stats.norm(2.0, 1.0)
    result = wrong.resample(
        lambda theta: target.logpdf(theta[:, 0]), n=2000, random_state=0
    )
    draws = result.draws[:, 0]
    assert draws.shape == (2000,)
    se = 1.0 / np.sqrt(min(result.effective_sample_size, 2000))
    assert abs(draws.mean() - 2.0) < 4 * se
    assert abs(draws.std() - 1.0) < 4 * se
    assert result.khat < 0.7
    np.testing.assert_allclose(result.weights, 1 / 2000)


def test_a_function_of_one_point_is_told_how_to_be_one_of_rows(bimodal):
    def density(theta):
        return -0.5 * np.sum(theta**2)

    with pytest.raises(ValueError, match=r"one point can be mapped: lambda theta"):
        bimodal.resample(density, 10)
    with pytest.raises(ValueError, match="one log density per row"):
        bimodal.importance_weights(lambda theta: theta)
    mapped = SimpleNamespace(log_density=lambda theta: [density(row) for row in theta])
    first, second = (
        bimodal.resample(target, 10, random_state=3).draws
        for target in (mapped, mapped.log_density)
    )
    assert first.shape == (10, 1)
    np.testing.assert_array_equal(first, second)


# --- copies


def test_truncate_keeps_the_heaviest(posterior):
    smaller = posterior.truncate(2)
    heaviest = np.sort(posterior.weights)[-2:]
    np.testing.assert_allclose(np.sort(smaller.weights), heaviest / heaviest.sum())
    assert smaller.names == posterior.names
    assert posterior.truncate(100).n_components == posterior.n_components
    with pytest.raises(ValueError, match="k must be a positive integer"):
        posterior.truncate(0)


def test_save_and_load_are_bit_equal(posterior, tmp_path):
    path = tmp_path / "posterior.skb"
    posterior.save(path)
    again = MixturePosterior.load(path)
    assert again.names == posterior.names
    np.testing.assert_array_equal(again.weights, posterior.weights)
    pairs = zip(again.mixture.components, posterior.mixture.components, strict=True)
    for loaded, saved in pairs:
        assert type(loaded.family) is type(saved.family)
        assert loaded.family.get_params() == saved.family.get_params()
        np.testing.assert_array_equal(loaded.params, saved.params)


def test_load_refuses_foreign_files(tmp_path, bimodal):
    def npz(save=np.savez, **arrays):
        buffer = io.BytesIO()
        save(buffer, **arrays)
        return buffer.getvalue()

    path = tmp_path / "foreign"
    for content in (
        npz(np.save, arr=np.ones(3)),
        b"weights: 1",
        b"",
        npz(weights=np.ones(1)),
        npz(header=np.array(json.dumps({"format": "other"}))),
        npz(header=np.array({"format": "skboost-posterior"}, dtype=object)),
        pickle.dumps(bimodal),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"written by MixturePosterior\.save"):
            MixturePosterior.load(path)
    with pytest.raises(FileNotFoundError):
        MixturePosterior.load(tmp_path / "missing")


def test_load_refuses_what_it_can_not_read(tmp_path, bimodal):
    """Later formats, unknown families, and parameters that are not finite."""
    path = tmp_path / "posterior.npz"
    bimodal.save(path)
    with np.load(path) as archive:
        arrays = dict(archive)

    def changed(**header):
        header = json.loads(str(arrays["header"])) | header
        return {"header": np.array(json.dumps(header))}

    unknown = [{"class": "as_family", "params": {}}] * 2
    for change, message in [
        (changed(format_version=99), "Update skboost"),
        (changed(families=unknown), "does not have"),
        ({"params_1": np.full_like(arrays["params_1"], np.nan)}, "not finite"),
        ({"params_1": np.full_like(arrays["params_1"], np.inf)}, "not finite"),
    ]:
        np.savez(path, **arrays | change)
        with pytest.raises(ValueError, match=message):
            MixturePosterior.load(path)


def test_own_families_cannot_be_saved(tmp_path):
    class Own(Laplace):
        pass

    posterior = MixturePosterior(Mixture.single((Own(), np.zeros(2))))
    with pytest.raises(ValueError, match=r"skboost\.families"):
        posterior.save(tmp_path / "own")
    assert not (tmp_path / "own").exists()


def test_immutable_pickled_and_short(posterior):
    for name in ("weights", "anything"):
        with pytest.raises(AttributeError):
            setattr(posterior, name, np.ones(3))
    again = pickle.loads(pickle.dumps(posterior))
    assert again.names == posterior.names
    assert len(repr(posterior)) < 79
    assert "dim=3" in repr(again)


def test_random_state_is_scikit_learns(posterior):
    by_int = posterior.sample(5, random_state=4)
    by_state = posterior.sample(5, random_state=np.random.RandomState(4))
    np.testing.assert_array_equal(by_int, by_state)
    assert not np.array_equal(posterior.sample(5), posterior.sample(5))
    with pytest.raises(ValueError, match="n must be a positive integer"):
        posterior.sample(0)


def test_from_components():
    family = DiagonalGaussian()
    parts = [(family, np.zeros(4)), (family, np.ones(4)), (family, np.ones(4))]
    posterior = MixturePosterior.from_components(parts, [0.25, 0.75, 0.0], ["x", "y"])
    np.testing.assert_allclose(posterior.mean(), [0.75, 0.75])
    # Components of weight zero are dropped.
    assert posterior.n_components == 2


def test_packed_components_of_equal_parameters_keep_their_families():
    params = np.array([0.5, -0.2])
    families = (DiagonalGaussian(), Laplace())
    mixture = Mixture(tuple((f, params) for f in families), np.array([0.4, 0.6]))
    (again,) = unpack_mixtures(*pack_mixtures([mixture]))
    found = [type(component.family) for component in again.components]
    assert found == [DiagonalGaussian, Laplace]
    theta = np.linspace(-3, 3, 7)[:, None]
    np.testing.assert_array_equal(again.log_density(theta), mixture.log_density(theta))


# --- ArviZ


@pytest.mark.parametrize("version", ["0.23.4", "1.0.0"])
def test_to_arviz_speaks_both_interfaces(posterior, monkeypatch, version):
    def from_dict(data=None, *, posterior=None):
        return data["posterior"] if posterior is None else posterior

    fake = SimpleNamespace(__version__=version, from_dict=from_dict)
    monkeypatch.setitem(sys.modules, "arviz", fake)
    group = posterior.to_arviz(n=90, random_state=0)
    assert list(group) == ["a", "b", "c"]
    assert group["a"].shape == (4, 23)
    unnamed = MixturePosterior(posterior.mixture).to_arviz(n=8, n_chains=2)
    assert unnamed["theta"].shape == (2, 4, 3)


def test_to_arviz_names_the_package(bimodal, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match="pip install arviz"):
        bimodal.to_arviz()
