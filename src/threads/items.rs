//! Items: what a thread is made of, in the order in which they were made.
