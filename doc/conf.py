"""Configuration of the documentation (``sphinx-build doc doc/_build/html``)."""

import contextlib
import inspect
import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from docutils import nodes
from numpydoc.xref import DEFAULT_LINKS

# Without it an example's import fails where examples are read and not run
# (``-D plot_gallery=0``).
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx_gallery.sorting import ExplicitOrder

from skboost import __version__

# For the modules of this folder.
sys.path.insert(0, str(Path(__file__).parent))
from quoted import add_roles
from reference import fold
from sessions import session
from siblings import add_siblings
from tables import add_tables

# ``sphinx-build -t quick`` shows code without running it, in pages and in the gallery.
quick = tags.has("quick")  # noqa: F821  (Sphinx defines it)
# Gallery scripts run without a screen.
os.environ.setdefault("MPLBACKEND", "Agg")

project = "skboost"
author = "The skboost developers"
project_copyright = "2026, The skboost developers"
release = __version__
version = ".".join(release.split(".")[:2])

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    # Formulas are drawn by a copy of MathJax that comes with the pages.
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_build"]
# Pictures of examples that were not run.
suppress_warnings = ["image.not_readable"] * quick
templates_path = ["_templates"]
# Names in backticks link to their pages where they have one.
default_role = "py:obj"
# The contents on the right name methods without their class.
toc_object_entries_show_parents = "hide"
# The prompts of examples are not copied.
copybutton_exclude = ".linenos, .gp, .go"

# Long signatures have a line for every parameter.
python_maximum_signature_line_length = 88
autosummary_generate = True
# The class template lists the methods, so numpydoc need not.
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = {"default", "optional", "of", "shape", "or", "type"}
numpydoc_xref_ignore |= {"length", "dim", "n", "in", "to", "with"}
# The pages of Python and NumPy would have to be fetched.
numpydoc_xref_aliases = {name: name for name in DEFAULT_LINKS}

# Sections of the gallery and their examples, in the order of the page.
GALLERY = {
    "decisions": [
        "threshold",
        "ab_test",
        "insurance_counts",
        "hospitals",
        "judges",
        "schools",
        "small_study",
    ],
    "answers": [
        "best_of_four",
        "odds_ratios",
        "growth",
        "departments",
        "does_it_fit",
        "which_degree",
    ],
    "first_steps": ["quickstart", "breast_cancer"],
    "own_density": ["own_posterior", "eight_schools", "warp"],
    "mixtures": [
        "boosted_mixture",
        "evidence_search",
        "streaming_mixture",
        "tempering_mixture",
    ],
    "topics_and_factors": ["topics", "digits_completed", "which_films_to_ask"],
    "regression_and_streams": [
        "predictive_intervals",
        "robust_regression",
        "online_methods",
        "stream_with_drift",
    ],
    "how_good_is_it": ["honest_numbers", "anytime", "prior_search"],
    "inside_the_method": [
        "three_posteriors",
        "mixture_grows",
        "two_modes",
        "heavy_tails",
        "which_divergence",
    ],
    "papers": [
        "step_sizes",
        "relbo_failure",
        "svi_plus",
        "annealing_against_restarts",
        "rates",
    ],
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    # An example that no section lists stops the build.
    "subsection_order": [f"../examples/{section}" for section in GALLERY],
    "within_subsection_order": ExplicitOrder(
        [f"plot_{name}.py" for names in GALLERY.values() for name in names]
    ),
    "nested_sections": False,
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_.*\.py",
    # Pages of the reference list the examples that use what they describe.
    "backreferences_dir": "gen_modules/backreferences",
    "doc_module": ("skboost",),
    "image_scrapers": ("pictures.scraper",),
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "plot_gallery": not quick,
    "show_memory": False,
    "remove_config_comments": True,
    # What ``ax.set`` returns is no output.
    "ignore_repr_types": r"matplotlib|list",
    "min_reported_time": 1,
    "download_all_examples": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "skboost"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["skboost.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
}


def documented():
    """Full names of what the reference lists, by their last parts."""
    names, module = {}, ""
    for page in Path(__file__).with_name("api").glob("*.rst"):
        for line in page.read_text("utf-8").splitlines():
            if line.startswith(".. currentmodule:: "):
                module = line.split()[-1]
            elif module and re.fullmatch(r"   \w+", line):
                names[line.strip()] = f"{module}.{line.strip()}"
        module = ""
    return names


# Where the guide is about what a module has, though it does not name it.
PAGES_OF_MODULES = {
    "adapters": "adapters",
    "dask": "large_data",
    "decomposition": "matrix_factorization",
    "exceptions": "running",
    "families": "boosting",
    "inspection": "questions",
    "linear_model": "regression",
    "mixture": "boosted_mixture",
    "orbits": "orbits",
    "posterior": "posterior",
    "priors": "prior_scale",
    "strategies": "boosting",
    "transforms": "any_density",
    "warps": "warp",
}


def guide_pages(names):
    """The pages of the guide that name an object most often, at most three for each."""
    texts = {
        page.stem: page.read_text("utf-8")
        for page in Path(__file__).with_name("user_guide").glob("*.rst")
    }
    found = {}
    for name, full in names.items():
        code = re.compile(rf"[`.( ]{name}[`(.]")
        counts = {page: len(code.findall(text)) for page, text in texts.items()}
        most = sorted(filter(counts.get, counts), key=lambda one: (-counts[one], one))
        of_module = PAGES_OF_MODULES.get(full.split(".")[1])
        found[name] = most[:3] or [of_module] * (of_module is not None)
    return found


def by_last_part(app, env, node, content):
    """A name without its module, or as users import it, links to its page."""
    target = node.get("reftarget", "").removeprefix("skboost.")
    full = documented_names.get(target.split(".")[0])
    if full is None or node.get("refdomain") != "py":
        return None
    rest = target.partition(".")[2]
    full = f"{full}.{rest}" if rest else full
    domain = env.get_domain("py")
    return domain.resolve_xref(
        env, node["refdoc"], app.builder, "obj", full, node, content
    )


documented_names = documented()
# For the templates of the reference.
autosummary_context = {"guide_pages": guide_pages(documented_names)}


def without_foreign_references(app, what, name, obj, options, lines):
    """Methods inherited from scikit-learn refer to pages that are not here."""
    text = "\n".join(lines)
    text = re.sub(r":(?:ref|term):`([^`<]+?)\s*(?:<[^`>]+>)?`", r"``\1``", text)
    lines[:] = text.split("\n")


def signature_of_init(app, what, name, obj, options, signature, returned):
    """Parameters of classes whose ``__new__`` only checks and passes them on."""
    if what == "class" and signature == "(*args, **kwargs)":
        return str(inspect.signature(obj)), returned
    return None


class Sessions(SphinxTransform):
    """Blocks of Python become sessions with what they print, one session a page."""

    default_priority = 400
    # Models of libraries that the documentation does not install.
    not_run = ("user_guide/adapters", "auto_examples/", "api/generated/")

    def apply(self):
        """Run the blocks in order; one that raises is a warning, which stops CI."""
        if quick or self.env.docname.startswith(self.not_run):
            return
        namespace = {"__name__": "__main__"}
        # Pages save what they show how to save.
        with TemporaryDirectory() as folder, contextlib.chdir(folder):
            for node in list(self.document.findall(nodes.literal_block)):
                if node.get("language") != "python":
                    continue
                try:
                    text = session(node.astext(), namespace)
                except Exception as error:
                    log = logging.getLogger(__name__)
                    log.warning("This block raises %r", error, location=node)
                    return
                node.replace_self(nodes.literal_block(text, text, language="pycon"))


def setup(app):
    """Run before numpydoc, which rewrites sections."""
    app.add_transform(Sessions)
    add_roles(app)
    add_siblings(app)
    add_tables(app)
    app.connect("autodoc-process-signature", signature_of_init)
    app.connect("autodoc-process-docstring", without_foreign_references, priority=1)
    app.connect("doctree-read", fold)
    app.connect("missing-reference", by_last_part)
