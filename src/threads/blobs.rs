//! Blobs: bytes that items and events refer to, stored once.
