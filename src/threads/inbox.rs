//! The prompt inbox: what people have asked for while a turn was running.
