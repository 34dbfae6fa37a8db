"""What every proposer offers: where a run begins, and what a mixture lacks."""

from abc import ABC, abstractmethod


class Proposer(ABC):
    """Proposes components of one family for a target."""

    # Whether components have correlations between all coordinates, and whether a better
    # search means a larger gain of the mixture.
    seeks_gain = True
    # Why a run under ``tol="auto"`` needs no more than the mixture it begins with;
    # empty where it may.
    complete = ""
    # The family of the components, as a message names it.
    kind = "conjugate distributions"
    # Whether the first component is as wide as the posterior where modes are several.
    spans = False

    @staticmethod
    def serves(target, family):
        """Whether it can begin for a target, with components of a family."""
        return True

    def way(self, target):
        """How it begins, as a log has it."""
        return "components by search"

    def family_of(self, target):
        """The family of the components."""
        return target.family

    def modes_not_searched(self, target):
        """Whether there may be modes far off that nothing looks for."""
        return False

    @abstractmethod
    def initial(self, target, settings):
        """The mixture that a run begins with, and the modes that are known then."""

    @abstractmethod
    def propose(self, target, context, settings):
        """The `Component` that gains most beside the mixture so far."""

    def leaves_little(self, target, mixture, allowed):
        """Whether a closed form says that a first mixture with orbits leaves little,
        or no more than is allowed, in nats.
        """
        return False

    def find_modes(self, target, fresh, modes, settings, *key):
        """The known modes, and those that fresh draws of a mixture lead to."""
        return modes

    def with_missed(self, mixture, log_evidence, modes, settings):
        """The mixture with a component at every known mode that it lacks."""
        return mixture

    def missed_modes(self, mixture, modes, log_evidence, settings):
        """Known modes outside a mixture, the heaviest first."""
        return ()

    def lacks(self, target, mixture, modes):
        """Whether a mode that is known and has mass is surely outside a mixture."""
        return False

    def located(self, modes):
        """Components at modes, the heaviest first."""
        return ()

    def check_reached(self, target, fresh):
        """Raise where the density is zero at all draws of the first mixture."""
        return None

    def improper(self, target, state, settings, *key):
        """Why a mixture seems to have no end to grow to, or to lie on noise; empty
        elsewhere."""
        return ""
