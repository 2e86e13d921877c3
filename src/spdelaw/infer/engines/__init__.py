"""Ways to learn a law, and the decisions that they take."""
