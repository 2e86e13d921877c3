"""Whether a model fits: tests of its one-step errors."""
