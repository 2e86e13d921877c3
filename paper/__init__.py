"""The paper's reproduction: its regimes, its baselines, its comparison, and a demonstration.

The package is a user of `spdelaw`: it imports no module and no name that starts with an
underscore. Names that it needs beyond ``sl.*`` are listed in `BEYOND_PUBLIC`, and a test keeps
the list complete.
"""

#: Names by the sub-package that exports them.
BEYOND_PUBLIC = {
    "spdelaw.chaos": ("CosineBasis", "expand", "propagate"),
    "spdelaw.checks": ("whole",),
    "spdelaw.cli": (
        *("OutFolder", "Output", "Seed", "load_command", "make_app", "one_of", "positive", "run"),
    ),
    "spdelaw.data": ("fingerprint",),
    "spdelaw.data.atomic": ("recover_directory", "replace_directory", "replace_file"),
    "spdelaw.domain": ("from_dict",),
    "spdelaw.evaluation": (
        *("TierScore", "coverage", "decoder_floor", "gaussian_crps", "law_distance"),
        *("mean_predictor", "parameter_errors", "relative_l2", "rmse"),
    ),
    "spdelaw.infer.amortized": (
        *("amortized_posterior", "amortized_reconstruct", "make_config", "sample_decoder"),
    ),
    "spdelaw.law": ("chaos_posterior",),
    "spdelaw.model": ("StateSpace",),
    "spdelaw.report.drawing": (
        *("COLUMN", "GREY", "figure_of", "new_figure", "save_figure", "spatial_weights", "style"),
    ),
    "spdelaw.report.html": (
        *("Answer", "Figure", "Section", "Table", "axis", "layout", "log_axis", "packed"),
        *("panel_title", "render"),
    ),
    "spdelaw.train": ("Report", "read_checkpoint", "reporter", "stream", "train"),
    "spdelaw.train.torch_run": ("TorchRun",),
}
