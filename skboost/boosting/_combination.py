"""What every combination of components offers: weights, and how they move."""

from abc import ABC, abstractmethod

from skboost.boosting._state import UNKNOWN


class Combination(ABC):
    """Weights of components, and how a new one gets its own.

    An *iterate* is what it keeps of a mixture: components with weights, and the cached
    draws that answer questions about weights, as ``mixture``, ``pool``, ``components``
    (of the family) and ``fixed`` (the mixture so far, to a greedy objective).
    """

    # Of the gain that is compared with ``tol``.
    unit: str
    # What is combined, as a message names it.
    kind: str
    # For a posterior that reaches where the density is zero.
    outside_advice: str
    # Whether every step minimises, so that a worse iterate can be refused.
    monotone: bool
    # Whether a component may be split, and whether in place of a search.
    splits = splits_first = False
    # Whether a search that finds nothing says little while draws see that something is
    # left.
    noisy = False
    # Whether components of a first mixture come in one by one, by the masses that they
    # stand for.
    by_nodes = False
    # Hyperparameters of which only some values have a meaning here.
    allowed = {}

    @classmethod
    @abstractmethod
    def of(cls, step_size, corrective):
        """The combination of the hyperparameters with these names."""

    @abstractmethod
    def begin(self, target, mixture, settings):
        """The iterate of the mixture that a run begins with."""

    @abstractmethod
    def append(self, target, state, component, settings):
        """A new component beside the others, and all weights moved: iterate, `Move`."""

    @abstractmethod
    def refine(self, target, iterate, state, settings):
        """All components moved together, with weights on new draws."""

    @abstractmethod
    def gain(self, before, after):
        """What one iterate gains over another by their fresh draws, an `Estimate`."""

    def gap(self, target, state, component, settings):
        """The duality gap of a proposed component, an `Estimate`; nan without one."""
        return UNKNOWN

    @abstractmethod
    def least_gain(self, settings):
        """The gain above which an iterate is kept."""

    def split(self, target, state, settings):
        """The iterate with heavy components split in two, and all refined."""
        raise NotImplementedError(f"{self.kind} are not split.")

    def candidates(self, state, components):
        """Those of the components at modes that are worth a search."""
        return components
