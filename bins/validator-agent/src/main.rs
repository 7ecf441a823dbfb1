//! validator-agent.

fn main() {}
