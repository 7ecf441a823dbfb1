//! control-api.
