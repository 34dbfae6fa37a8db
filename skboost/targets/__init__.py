"""Log joint densities: generalised linear models and their priors."""

from skboost._budget import Budget, BudgetSpent
from skboost._math import bounded_exp
from skboost._row_blocks import Table
from skboost.targets._base import Centre, Ledger, Target
from skboost.targets._callable import CallableTarget
from skboost.targets._composed import (
    CentredTarget,
    ComposedTarget,
    LogJoint,
    TransformedTarget,
    updated_target,
)
from skboost.targets._design import Block, sum_log, validate_offset, with_exposure
from skboost.targets._failures import (
    FailedEvaluationError,
    FailedEvaluationWarning,
    LogDensityError,
    OverwrittenArgumentError,
    SlowPoints,
    coordinate_label,
    shown_point,
    what_came,
)
from skboost.targets._glm import GLMTarget
from skboost.targets._likelihood import (
    Logistic,
    Multinomial,
    OverdispersionWarning,
    Poisson,
    WeightedRows,
)
from skboost.targets._log_sigmoid import (
    laplace_sigmoid_expectation,
    log_laplace_sigmoid,
    log_sigmoid_expectation,
    log_student_t_sigmoid,
    sigmoid_over_scales,
    student_t_radii,
)
from skboost.targets._logistic_gaussian import (
    class_contrasts,
    contrast_roots,
    entropy_expectation,
    logistic_gaussian_expectations,
    nodes_of_mixture,
    scalar_rules,
    sigmoid_expectation,
    softmax_expectation,
    softmax_gaussian_expectations,
    softmax_nodes,
)
from skboost.targets._negative_binomial import (
    DispersionPrior,
    NegativeBinomial,
    as_dispersion_prior,
    gamma_terms,
)
from skboost.targets._noise import NOISES, KnownScale, NormalNoise, StudentTNoise
from skboost.targets._noisy_glm import NoiseScalePrior, NoisyGLMTarget, as_noise_prior
from skboost.targets._ordinal import GAP_SCALE, CumulativeLogits, OrdinalTarget
from skboost.targets._priors import (
    PRIORS,
    FlatPrior,
    HorseshoePrior,
    LaplacePrior,
    NormalPrior,
    Prior,
    StudentTPrior,
    as_prior,
    validate_scale,
)
from skboost.targets._quadrature import gaussian_expectation_1d, normal_rule
from skboost.targets._scale_mixtures import (
    ScaleMixture,
    horseshoe_mixture,
    laplace_mixture,
    student_t_mixture,
)
from skboost.targets._scale_priors import (
    ColumnPriors,
    ColumnScale,
    CommonScale,
    HalfNormalPrior,
    HalfTPrior,
    LKJPrior,
    PrincipalScale,
    ScaleNode,
    ScalePrior,
)
