"""What a run of boosting is told, in one place: by the user, and by trials.

Every search, refinement and judgement reads the same frozen `Settings`. Numbers that
keep arithmetic safe (a ridge, a floor, a limit of a loop) stand beside the code that
needs them; here is what trades quality against cost.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from skboost._budget import Budget


class Climbs(NamedTuple):
    """How many climbs look for modes, and what they may cost.

    Attributes
    ----------
    batch, most : int
        Climbs at once, and at most.
    patience : int
        Batches follow until that many times as many climbs were made as it took to
        find the last mode: so the rarest found was found about that often.
    share : float
        Of all evaluations that a run may take.
    """

    batch: int
    most: int
    patience: int
    share: float


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    The first group is what a user chooses. The others were set by trials on small
    densities (two modes, a far mode, a ring, Cauchy, t2 and ten-dimensional logistic
    posteriors); the comment beside each says what the trial showed. None was tuned by
    a search, and ``benchmarks/ablation.py`` measures what the mechanisms are worth.

    Parameters
    ----------
    n_draws : int
        Monte Carlo draws kept for each component.
    n_restarts : int
        Starts that are searched for each new component.
    n_fresh : int
        Fresh draws of each reported estimate.
    tol : float
        Nats that matter.
    seed : int
    max_components : int or None
    refine : bool
        Whether old components move after a new one.
    n_jobs : int or None
        Threads over starts.
    max_evaluations : float
        Of the target, of which the search for modes may take a share.
    exact : bool
        Whether the target's closed Gaussian expectations are used.
    budget : Budget
        What the run may still spend.
    """

    n_draws: int = 512
    n_restarts: int = 2
    n_fresh: int = 2048
    tol: float = 1e-2
    seed: int = 0
    max_components: int | None = None
    refine: bool = True
    n_jobs: int | None = None
    max_evaluations: float = float("inf")
    exact: bool = False
    budget: Budget = field(default_factory=Budget)

    # --- mechanisms of the search

    # Climbs from far around the mixture find modes that its own draws never see.
    search_modes: bool = True
    # Starts shifted along the most skewed direction of a component.
    skewness_starts: bool = True
    # A component split in two, before a search or after one that found little: on t2
    # synth it took a third of the seconds of a search with its refinement.
    split: bool = True
    # Two components are split at once where draws see that many times `tol` left for
    # each: it saves garch11 an iteration, and the centred eight schools gain two
    # components in ten. Three for all together took five skewed coordinates, which stop
    # at max_iter, 2.5 times as long.
    much_left: float = 1.5
    # Draws at most, in multiples of those that a run begins with: where noise hides
    # what is gained they double. Twice was too little on a logistic model with 25
    # coefficients; four times at once cost four times as much from the first doubt on.
    draw_growth: int = 4
    # Draws that one parameter of a component asks for once a second one has gained: ten
    # dimensions had 8, and with 1,024 draws the non-centred eight schools needed fewer
    # iterations, and two thirds of the gradients.
    draws_per_parameter: int = 10
    # What the next iteration is expected to gain, as a share of what the last one did:
    # the median over iterations of t2 synth and phishing, garch11 and ds1_100.
    gain_decay: float = 0.5
    # An expected gain below this share of the remaining KL is not worth its seconds: at
    # that rate a run would need a thousand iterations.
    least_share: float = 1e-3
    # A search that found nothing is repeated from other starts before a run ends.
    repeat_search: bool = True

    # --- the greedy search

    # Weights tried at every start, the largest first; the solver moves them. A tail
    # wants a small one.
    start_weights: tuple = (0.25, 0.02, 0.002)
    # Draws that rank the starts before any search: they rank, and need no precision.
    n_rank: int = 64
    # Quasi-Newton steps after which the best of several starts is chosen; after six
    # the order hardly changed.
    short_iter: int = 6
    # Modes that every search tries.
    max_candidates: int = 32
    # Proposal of the points where the target has more mass than the mixture: widths
    # of its components, with their shares, and draws.
    probe_widths: tuple = (1.0, 1.5, 3.0, 10.0, 40.0)
    probe_shares: tuple = (0.35, 0.25, 0.2, 0.1, 0.1)
    n_probes: int = 256
    # A power iteration for the most skewed direction: draws, starts, steps.
    n_skew_draws: int = 512
    n_skew_starts: int = 8
    n_skew_steps: int = 15

    # --- the first components

    # Quasi-Newton steps before the best of several starts is chosen, and after.
    first_short_iter: int = 10
    first_max_iter: int = 100
    # Modes closer than that many standard deviations of either are fitted together.
    overlap: float = 6.0
    joint_max_iter: int = 50

    # Share of the mass at modes that the first mixture lacks, above which it is fitted
    # anew at the modes: hmm_drive_0 spent five iterations at a mode with e^-60 of it.
    most_missed: float = 0.99

    # --- warps

    # Draws that a warp is fitted on, and judged by; behind it a run has so many at
    # least, for with fewer what is left to gain is less than its noise.
    n_draws_warp: int = 2048
    n_fresh_warp: int = 4096
    least_draws_warped: int = 2048
    # Quasi-Newton steps before the better axes are chosen, and after.
    warp_short_iter: int = 15
    warp_max_iter: int = 300

    # --- low-rank components, whose factor grows

    # Times that a factor grows, and quasi-Newton steps after each.
    low_rank_max_growths: int = 12
    low_rank_max_iter: int = 40
    # Draws that one column of the factor asks for; where a search fits noise there are
    # more, up to this multiple of what the run has.
    draws_per_column: int = 8
    low_rank_most_draws: int = 4

    # --- the search for modes

    # From a box, and far around a mixture: sixteen climbs there cost 1 % of the
    # evaluations of a fit.
    box_climbs: Climbs = Climbs(64, 1024, 8, 0.5)
    around_climbs: Climbs = Climbs(16, 256, 4, 0.0625)

    # --- conjugate components

    # Rounds of coordinate ascent of a short run and of one to convergence, and the
    # nats per round at which it has converged.
    ascent_short_iter: int = 30
    ascent_max_iter: int = 500
    ascent_tol: float = 1e-3
    # Short runs for the first component and for every other, for each restart.
    n_first_runs: int = 5
    n_runs: int = 2
    # Draws of each distribution when all are ranked, and when the best are once more.
    n_rank_all: int = 48
    n_rank_best: int = 256
    # Widths of every optimum: powers of Louis' correction.
    louis_powers: tuple = (0.0, 0.5, 1.0, 1.5)
    # Distributions of other widths, and at draws, that a step tries.
    n_other_widths: int = 10
    n_at_draws: int = 8

    # Quasi-Newton steps of a search for a component of a factorisation by gradients.
    gradient_max_iter: int = 200

    # --- refinement, and what is kept

    # Quasi-Newton steps; the next refinement goes on from where this one ended.
    refine_max_iter: int = 30
    # Components that move: those of the largest predicted gains, until that share of
    # the whole is together. Fewer draws for light components in its place lost 0.02
    # nats on t2 synth and 0.08 on ds1_100.
    move_share: float = 0.9
    # A search, and a refinement, end once three steps gain less than this share of the
    # whole gain. After a search components move once more; a refinement that ended at
    # 0.05 left ds1_100 at a saddle.
    search_share: float = 0.05
    refine_share: float = 0.02
    # An iterate is kept where it gains more than this share of `tol`: for less no
    # mixture grows.
    least_gain: float = 0.1
    # Draws of the probe for an exhausted residual: enough to tell 0.01 nats from
    # nothing where half a variance is the divergence.
    n_probe_remaining: int = 512
    # A standard error of what remains, as a share of `tol`, below which more draws are
    # not made: of two million rows, whose posterior is as good as Gaussian, an eighth
    # of the draws is enough. All draws took a third of the seconds of that fit.
    probe_precision: float = 0.1

    # A run leaves its best iterate by ELBO, also where its steps do not minimise; False
    # leaves the last one.
    keep_best: bool = True
    # Draws behind the importance sampling of the final report.
    n_report: int = 1024

    # --- combinations of roots (Hellinger)

    # Draws that rank the starts of a root.
    n_rank_roots: int = 128
    # Quasi-Newton steps of a refinement times its roots, and the range of the steps:
    # one that ends early is gone on with after the next root.
    root_refine_work: int = 300
    root_refine_iter: tuple = (10, 40)
    # Refinement ends where a step gains less than this share of what is left.
    root_refine_share: float = 3e-4

    @property
    def precision(self):
        """Standard error of what remains that needs no more draws, nats."""
        return self.probe_precision * self.tol

    def with_more_draws(self, factor):
        """These settings with that many times the draws."""
        if factor == 1:
            return self
        return replace(
            self,
            n_draws=factor * self.n_draws,
            n_fresh=factor * self.n_fresh,
        )
