"""The systems that the paper compares with or cites, behind one interface. Needs torch."""

from spdelaw.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise MissingExtraError("paper.baselines", "neural") from _error

from paper.baselines.deeponet import DeepONet
from paper.baselines.dlr_net import DLRNet, DLRNetwork
from paper.baselines.fno import FNO
from paper.baselines.inputs import TIERS, Grid
from paper.baselines.latent_ode import LatentODE
from paper.baselines.lec import LEC
from paper.baselines.neural_cde import NeuralCDE
from paper.baselines.nspde import NSPDE
from paper.baselines.predictor import Predictor, load
from paper.baselines.protocol import Protocol
from paper.baselines.spde_prior import SPDEPrior
from paper.baselines.spdeno import FSPDENO, SDENO
from paper.baselines.sv_nn import SVNN

__all__ = [
    "FNO",
    "FSPDENO",
    "LEC",
    "NSPDE",
    "SDENO",
    "SVNN",
    "SYSTEMS",
    "TIERS",
    "DLRNet",
    "DLRNetwork",
    "DeepONet",
    "Grid",
    "LatentODE",
    "NeuralCDE",
    "Predictor",
    "Protocol",
    "SPDEPrior",
    "load",
]

#: Systems by their name in files and in the shell.
SYSTEMS = Predictor.systems
