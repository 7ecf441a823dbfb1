//! The real process is killed exactly at each of its crash points, and started again on what it
//! left behind.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod calls;
mod place;
mod round;
mod scan;

use std::collections::BTreeSet;
use std::fmt::Debug;

use civ_crash::{Point, parse};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet, spawn_local};

/// Cases at once, of all tests together: each is mostly a process that waits for the disk.
static ROOM: Semaphore = Semaphore::const_new(6);

/// Plays all cases; those that fail are named.
async fn all<T, F>(cases: impl IntoIterator<Item = T>, play: impl Fn(T) -> F)
where
    T: Debug,
    F: Future<Output = ()> + 'static,
{
    let playing = async {
        let mut playing = JoinSet::new();
        for case in cases {
            let (name, play) = (format!("{case:?}"), play(case));
            playing.spawn_local(async move {
                let _room = ROOM.acquire().await.unwrap();
                spawn_local(play).await.is_err().then_some(name)
            });
        }
        playing.join_all().await
    };
    let ended = LocalSet::new().run_until(playing).await;
    let failed: Vec<String> = ended.into_iter().flatten().collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Every case asserts that the process died at its point, so what stands in a table is reached.
#[test]
fn every_point_is_reached_by_a_case() {
    let cases = scan::points().chain(round::points()).chain(calls::points());
    let reached: BTreeSet<Point> = cases.map(|text| parse(text).unwrap().0).collect();
    let all: BTreeSet<Point> = Point::all().collect();
    let missing: Vec<String> = all.difference(&reached).map(ToString::to_string).collect();
    assert!(missing.is_empty(), "no case is killed at {missing:?}");
}
