//! Every kind of check against real servers on loopback, and every code that loopback can provoke.

#[cfg(test)]
mod common;
#[cfg(test)]
mod dns;
#[cfg(test)]
mod http;
#[cfg(test)]
mod icmp;
#[cfg(test)]
mod ssh;
#[cfg(test)]
mod tcp;
#[cfg(test)]
mod tls;
