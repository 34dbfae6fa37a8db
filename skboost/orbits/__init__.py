"""Components reweighted over orbits: groups, bounds, draws and densities."""

from skboost.orbits._draws import Orbits, ShiftGroups, remaining_after_orbits
from skboost.orbits._mixture import KnownOrbits, OrbitMixture
from skboost.orbits._reweighting import (
    AUTO_ORDER,
    DEAR_ORDER,
    ORDERS,
    OrbitReport,
    most_images,
    reweighted,
)
