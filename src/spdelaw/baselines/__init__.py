"""PEERS: the systems the paper compares with, behind one `Predictor` interface. Needs torch."""

from spdelaw.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise MissingExtraError("spdelaw.baselines", "neural") from _error

from spdelaw.baselines._noise import TIERS
from spdelaw.baselines._predictor import Predictor
from spdelaw.baselines._protocol import Protocol
from spdelaw.baselines._store import load
from spdelaw.baselines.deeponet import DeepONet
from spdelaw.baselines.dlr_net import DLRNet
from spdelaw.baselines.fno import FNO
from spdelaw.baselines.nspde import NSPDE
from spdelaw.baselines.sv_nn import SVNN

__all__ = [
    "FNO",
    "NSPDE",
    "SVNN",
    "SYSTEMS",
    "TIERS",
    "DLRNet",
    "DeepONet",
    "Predictor",
    "Protocol",
    "load",
]

#: Systems by the name under which files and the shell know them.
SYSTEMS = Predictor.systems
