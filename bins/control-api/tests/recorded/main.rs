//! Requests as clients of the contract send them, and what they are answered, byte for byte. How a
//! session is written says `README.md` beside this file.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test: whatever fails here fails it"
)]

mod bytes;
mod coverage;
mod play;
mod script;
mod stage;

/// A test for each file in `sessions/`, and their list.
macro_rules! sessions {
    ($($name:ident),* $(,)?) => {
        const SESSIONS: &[&str] = &[$(stringify!($name)),*];

        $(#[tokio::test]
        async fn $name() {
            play::session(stringify!($name)).await;
        })*
    };
}

sessions!(
    agent,
    automation,
    configuration,
    framing,
    history,
    open_levels,
    prober,
    queue,
    refusals,
    walk_through,
);

#[test]
fn every_session_is_played() {
    let mut found: Vec<String> = std::fs::read_dir(script::folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    found.sort();
    assert_eq!(found, SESSIONS);
}
