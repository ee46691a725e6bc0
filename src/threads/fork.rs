//! Forks: a thread that goes on from a point of another.
