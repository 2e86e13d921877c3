"""THE PAPER: its baselines, its comparison, its regimes. Uses public names only."""
