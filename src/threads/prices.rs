//! Prices of models.
