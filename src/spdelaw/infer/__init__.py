"""Estimation: from observed fields to a law."""

from spdelaw.infer.discovery import Discovery as Discovery
from spdelaw.infer.discovery import discover as discover
from spdelaw.infer.engines.chaos import Chaos as Chaos
from spdelaw.infer.engines.exact import Exact as Exact
from spdelaw.infer.engines.registry import Engine as Engine
from spdelaw.infer.engines.registry import engine_names as engine_names
from spdelaw.infer.many import Learner as Learner
from spdelaw.infer.many import fit_many as fit_many
from spdelaw.infer.model import LowRank as LowRank
from spdelaw.infer.model import Model as Model
from spdelaw.infer.objective import LogNormal as LogNormal
from spdelaw.infer.objective import Normal as Normal
from spdelaw.infer.pipeline import fit as fit
from spdelaw.infer.pipeline import update as update
