"""How components are combined into one density, whoever proposed them."""

from abc import ABC, abstractmethod


class Combination(ABC):
    """Weights of components, and how a new one gets its own.

    An *iterate* is what a combination keeps of a mixture: its components with their
    weights, and the cached draws that every question about weights is answered from.
    It has ``mixture``, ``pool``, ``components`` (a mixture of the
    family) and ``fixed`` (what a greedy objective takes for the mixture so far).

    Attributes
    ----------
    unit : str
        Of the gain that is compared with ``tol``.
    outside_advice : str
        For a posterior that reaches where the density is zero.
    monotone : bool
        Whether every step minimises, so that a worse iterate can be refused.
    splits_first : bool
        Whether a component may be split in place of a search.
    noisy : bool
        Whether a search that finds nothing says little while draws see that something
        is left: its integrals want more draws.
    """

    unit: str
    outside_advice: str
    monotone: bool
    splits_first = False
    noisy = False
    # What is combined, as a message names it.
    kind: str
    # Hyperparameters of which only some values have a meaning here.
    allowed = {}

    @classmethod
    @abstractmethod
    def of(cls, target, step_size, corrective):
        """The combination of the hyperparameters with these names."""

    @abstractmethod
    def begin(self, mixture, settings):
        """The iterate of the mixture that a run begins with.

        Parameters
        ----------
        mixture : Mixture
        settings : Settings

        Returns
        -------
        iterate
        """

    @abstractmethod
    def append(self, state, component, settings):
        """A new component beside the others, and all weights moved.

        Parameters
        ----------
        state : State
        component : (family, params)
        settings : Settings

        Returns
        -------
        iterate, Move
        """

    @abstractmethod
    def refine(self, iterate, state, settings):
        """All components moved together, with weights on new draws."""

    @abstractmethod
    def redrawn(self, iterate, t, settings):
        """The same iterate on new draws, as many as the settings ask for."""

    @abstractmethod
    def gain(self, before, after):
        """What one iterate gains over another by their fresh draws, an `Estimate`."""

    @abstractmethod
    def gap(self, state, component, settings):
        """The duality gap of a proposed component, an `Estimate`; nan without one."""

    @abstractmethod
    def least_gain(self, settings):
        """The gain above which an iterate is kept."""

    def split(self, state, settings):
        """The iterate with its heaviest component split in two, and all refined.

        None where components cannot be split.
        """
        return None

    def unchanged(self, before, after):
        """Whether two iterates are known to be one and the same density."""
        return False

    def candidates(self, state, components):
        """Those of the components at modes that are worth a search."""
        return components
