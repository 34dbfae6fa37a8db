"""Base families of the mixture components."""

from skboost.families._base import VariationalFamily
from skboost.families._evaluation import Evaluation
from skboost.families._gaussian import MAX_FULL_DIM, Gaussian
from skboost.families._laplace import Laplace
from skboost.families._laplace_product import LaplaceProduct
from skboost.families._low_rank import rank_of
from skboost.families._student_t import StudentT

FAMILIES = {"gaussian": Gaussian, "laplace": Laplace, "student_t": StudentT}


def as_family(family, component_covariance="auto", dim=1):
    """Family object from an estimator's `family` and `component_covariance`.

    Parameters
    ----------
    family : {"gaussian", "laplace", "student_t"} or VariationalFamily
        A family object carries its own covariance and is returned as it is.
    component_covariance : {"auto", "full", "low_rank", "diag"}, default="auto"
        ``"auto"`` means full up to dimension 300; above, a Gaussian has low rank and
        a Student-t component is diagonal. A Laplace component always is.
    dim : int, default=1
        Dimension of the parameter space.

    Returns
    -------
    VariationalFamily

    Raises
    ------
    ValueError
        If a name is unknown, or the family does not have the covariance.
    """
    if isinstance(family, VariationalFamily):
        return _with_own_covariance(family, component_covariance)
    if not isinstance(family, str) or family not in FAMILIES:
        raise ValueError(
            f"family must be one of {list(FAMILIES)} or a VariationalFamily object; "
            f"got {family!r}."
        )
    allowed = ("auto", *FAMILIES[family].covariances)
    if component_covariance not in allowed:
        raise ValueError(
            f"family={family!r} needs component_covariance to be one of "
            f"{list(allowed)}; got component_covariance={component_covariance!r}."
        )
    return FAMILIES[family].with_covariance(component_covariance, dim)


def _with_own_covariance(family, component_covariance):
    covariance = getattr(family, "covariance", None)
    if covariance == "full" and not family.full_covariance:
        # Families of a user's own written for skboost 0.1.0, which read the name.
        raise TypeError(
            f"family={family!r} has covariance='full' and needs the attribute "
            "full_covariance = True, by which skboost 0.2.0 knows it; got False. Set "
            "full_covariance on the class, or write it as a property."
        )
    if isinstance(family, LaplaceProduct):
        raise ValueError(
            "family must be one that can be searched over; got LaplaceProduct(), the "
            "product of two fitted components. Use family='laplace'."
        )
    own = family.get_params().get("covariance", "diag")
    if component_covariance not in ("auto", own):
        raise ValueError(
            f"family={family!r} is an object with its own covariance and needs "
            f"component_covariance='auto'; got {component_covariance!r}. "
            "Set the covariance on the family object."
        )
    return family


__all__ = [
    "FAMILIES",
    "MAX_FULL_DIM",
    "Evaluation",
    "Gaussian",
    "Laplace",
    "LaplaceProduct",
    "StudentT",
    "VariationalFamily",
    "as_family",
    "rank_of",
]
