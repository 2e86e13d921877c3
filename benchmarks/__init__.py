"""Speed as ratios: each file times the package against work that cannot be avoided."""
