//! prober.

fn main() {}
