//! Usage: what responses of models have used, and what that cost.
