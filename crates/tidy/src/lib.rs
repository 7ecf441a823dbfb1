//! What keeps the repository tidy: checkers over text, used by the tests in `tests/`.
//!
//! Each checker is a function from text to findings, so that it is itself tested with a planted
//! fault; the tests apply them to the whole workspace. It knows the layout of the repository and
//! nothing of the product.
#![warn(missing_docs)]

pub mod crash;
pub mod events;
pub mod leftovers;
pub mod migrations;
pub mod places;
pub mod rules;
pub mod sizes;
pub mod source;
pub mod walls;
