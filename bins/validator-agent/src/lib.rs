//! validator-agent.
