"""The paper's comparison, done again: runs, records, and what is made of records."""

from spdelaw.paper.reproduce._entries import ENTRIES, Entry
from spdelaw.paper.reproduce._execute import execute
from spdelaw.paper.reproduce._figures import (
    FIGURES,
    draw_figures,
    plot_eigenvalues,
    plot_energy_at_end,
    plot_noise_amplitudes,
    plot_variance_over_time,
)
from spdelaw.paper.reproduce._network_figures import (
    NETWORK_FIGURES,
    plot_draws,
    plot_initial_states,
    plot_observation_noise,
    plot_training,
)
from spdelaw.paper.reproduce._page import write_page
from spdelaw.paper.reproduce._plan import PROFILES, Profile, Run, plan
from spdelaw.paper.reproduce._records import find_record, read_records
from spdelaw.paper.reproduce._tables import tables, write_tables

__all__ = [
    "ENTRIES",
    "FIGURES",
    "NETWORK_FIGURES",
    "PROFILES",
    "Entry",
    "Profile",
    "Run",
    "draw_figures",
    "execute",
    "find_record",
    "plan",
    "plot_draws",
    "plot_eigenvalues",
    "plot_energy_at_end",
    "plot_initial_states",
    "plot_noise_amplitudes",
    "plot_observation_noise",
    "plot_training",
    "plot_variance_over_time",
    "read_records",
    "tables",
    "write_page",
    "write_tables",
]
