//! Thread events: what happened to a thread, numbered for the whole tenant.
