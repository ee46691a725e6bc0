//! The text of items that is still streaming in.
