"""PEERS: the systems the paper compares with, behind one `Predictor` interface. Needs torch."""

from spdelaw.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise MissingExtraError("spdelaw.paper.baselines", "neural") from _error

from spdelaw.paper.baselines._grid import Grid
from spdelaw.paper.baselines._noise import TIERS
from spdelaw.paper.baselines._predictor import Predictor
from spdelaw.paper.baselines._protocol import Protocol
from spdelaw.paper.baselines._store import load
from spdelaw.paper.baselines.deeponet import DeepONet
from spdelaw.paper.baselines.dlr_net import DLRNet, DLRNetwork
from spdelaw.paper.baselines.fno import FNO
from spdelaw.paper.baselines.nspde import NSPDE
from spdelaw.paper.baselines.sv_nn import SVNN

__all__ = [
    "FNO",
    "NSPDE",
    "SVNN",
    "SYSTEMS",
    "TIERS",
    "DLRNet",
    "DLRNetwork",
    "DeepONet",
    "Grid",
    "Predictor",
    "Protocol",
    "load",
]

#: Systems by the name under which files and the shell know them.
SYSTEMS = Predictor.systems
