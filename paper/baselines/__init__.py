"""The five systems that the paper compares with, behind one `Predictor` interface. Needs torch."""

from spdelaw.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise MissingExtraError("paper.baselines", "neural") from _error

from paper.baselines.deeponet import DeepONet
from paper.baselines.dlr_net import DLRNet, DLRNetwork
from paper.baselines.fno import FNO
from paper.baselines.inputs import TIERS, Grid
from paper.baselines.nspde import NSPDE
from paper.baselines.predictor import Predictor, load
from paper.baselines.protocol import Protocol
from paper.baselines.sv_nn import SVNN

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

#: Systems by their name in files and in the shell.
SYSTEMS = Predictor.systems
