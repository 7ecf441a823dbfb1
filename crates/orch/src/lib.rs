//! orch.
