//! cloudsim.
