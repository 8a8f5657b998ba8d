//! Owns the ring of recent snapshots: what a process did over the time we have watched.
