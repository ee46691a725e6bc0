//! Turns: one exchange of a thread each, from what the person asked to where the answer ended.
