//! ICMP, paths and MTU over the real kernel: each test in network namespaces of its own, which
//! vanish with it. Where namespaces are not to be had, a test says so and does nothing.

#[cfg(test)]
mod datagrams;
#[cfg(test)]
mod icmp;
#[cfg(test)]
mod stage;
