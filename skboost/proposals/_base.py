"""What every proposer offers: where a run begins, and what a mixture lacks."""

from abc import ABC, abstractmethod


class Proposer(ABC):
    """Proposes components of one family for one target.

    Attributes
    ----------
    modes_not_searched : bool
        Whether there may be modes far off that nothing looks for.
    correlated : bool
        Whether components have correlations between all coordinates.
    seeks_gain : bool
        Whether a better search means a larger gain of the mixture.
    complete : str
        Why a run under ``tol="auto"`` needs no more than the mixture it begins with;
        empty where it may.
    """

    modes_not_searched = False
    correlated = seeks_gain = True
    complete = ""
    # The family of the components, as a message names it.
    kind = "conjugate distributions"

    @abstractmethod
    def initial(self, settings):
        """The mixture that a run begins with, and the modes that are known then.

        Parameters
        ----------
        settings : Settings

        Returns
        -------
        Mixture, Modes
        """

    @abstractmethod
    def propose(self, context, settings):
        """The component that gains most beside the mixture so far.

        Parameters
        ----------
        context : SearchContext
        settings : Settings

        Returns
        -------
        family : VariationalFamily
        params : ndarray of shape (n_params,)
        """

    def find_modes(self, fresh, modes, settings, *key):
        """The known modes, and those that fresh draws of a mixture lead to."""
        return modes

    def at_modes(self, modes, settings):
        """The mixture that a run begins with at known modes, the starts forgotten."""
        raise NotImplementedError

    def n_moving(self, mixture):
        """Parameters that a search moves in a component; 0 where it fits no draws."""
        return 0

    def missed_modes(self, mixture, modes, log_evidence, settings, *key):
        """Modes outside a mixture that probes find, the heaviest first."""
        return ()

    def located(self, modes, settings):
        """Components (family, params) at modes, the heaviest first."""
        return ()

    def check_reached(self, fresh):
        """Raise where the density is zero at all draws of the first mixture."""
        return None

    def improper(self, mixture, settings, *key):
        """Why a mixture seems to have no end to grow to; empty where it has one."""
        return ""
