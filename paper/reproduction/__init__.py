"""The paper's comparison, run again: a plan of runs, their records, and tables made of records."""
