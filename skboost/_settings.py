"""What a run of boosting is told, in one place: by the user, and by trials.

Every search, refinement and judgement reads the same frozen `Settings`. Numbers that
one function reads stand beside its code; here is what users choose, what an ablation
switches off, and what several places have to agree on.
"""

from dataclasses import dataclass

# What the next iteration is expected to gain, as a share of what the last one did: the
# median over iterations of two targets each of p0_tables.py and posteriordb.py.
GAIN_DECAY = 0.5
# Modes that every search tries.
MAX_CANDIDATES = 32


@dataclass(frozen=True)
class Settings:
    """Settings of a run; `exact` says that Gaussian expectations are in closed form.

    The first group is what a user chooses. The others were set by trials on small
    densities (two modes, a far mode, a ring, a Cauchy and a Student-t distribution and
    logistic posteriors in ten dimensions); the comment beside each says what the trial
    showed. None was tuned by a search, and ``benchmarks/ablation.py`` measures what the
    mechanisms are worth.
    """

    n_draws: int = 512
    # Runs of coordinate ascent of conjugate models, whose optima depend on the start.
    n_restarts: int = 2
    n_fresh: int = 2048
    tol: float = 1e-2
    seed: int = 0
    max_components: int | None = None
    refine: bool = True
    n_jobs: int | None = None
    exact: bool = False
    # Nats that may remain under tol="auto", after orbits where they follow; None
    # under a number, which is allowed itself where orbits follow.
    allowed_kl: float | None = None
    # Images of a point at most; one without orbits.
    max_order: int = 1

    # --- mechanisms of the search

    # Climbs from far around the mixture find modes that its own draws never see.
    search_modes: bool = True
    # A component split in two, before a search or after one that found little: on a
    # logistic regression of P0 it took a third of the seconds of a search with its
    # refinement.
    split: bool = True

    # --- what is kept, and what is reported

    # Draws of the probe for what remains: they tell .01 nats from nothing where half a
    # variance is the divergence.
    n_probe_remaining: int = 512
    # A run leaves its best iterate by ELBO, also where its steps do not minimise; False
    # leaves the last one.
    keep_best: bool = True
    # Draws behind the importance sampling of the final report.
    n_report: int = 1024

    @property
    def least_gain(self):
        """Nats that an iterate has to gain to be kept: for less no mixture grows."""
        return 0.1 * self.tol

    @property
    def probe_precision(self):
        """Standard error of what remains below which more draws are not made, nats.

        Of two million rows, whose posterior is as good as Gaussian, an eighth of the
        draws is enough. All draws took a third of the seconds of that fit.
        """
        return 0.1 * self.tol
