//! Owns what Slurm says of its nodes and jobs: which commands ask for it, and what their text means.
