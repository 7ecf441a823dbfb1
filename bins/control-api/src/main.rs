//! control-api.

fn main() {}
