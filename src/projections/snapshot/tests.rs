//! What is read back is what was written, and nothing else is taken for a snapshot.
