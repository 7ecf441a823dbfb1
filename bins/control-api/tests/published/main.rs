//! What is published: the document against the routes, the history to follow, the exports.
#![cfg(test)]

mod document;
mod export;
mod ground;
mod history;
