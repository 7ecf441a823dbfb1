//! Ready is whose loop goes round.

use civ_testkit::eventually;

use crate::place::Place;

#[tokio::test]
async fn a_loop_that_stands_still_makes_unready_until_it_goes_round_again() {
    let place = Place::new("", "");
    let service = place.start().await;
    assert_eq!(service.readiness().await.0, 200);
    // As long as the loop sleeps, a clock that is moved on makes its last round an old one.
    let body = eventually("it is not ready", async || {
        place.clock.on_by(600);
        let (status, body) = service.readiness().await;
        (status == 503).then_some(body)
    })
    .await;
    let text = body["error"].as_str().unwrap();
    let begin = "the orchestrator's loop has not gone round for ";
    let rest = text.strip_prefix(begin).unwrap();
    let secs = rest.strip_suffix(" seconds").unwrap();
    assert!(secs.parse::<u32>().unwrap() >= 599, "{text}");
    eventually("it is ready again", async || {
        (service.readiness().await.0 == 200).then_some(())
    })
    .await;
    service.end().await;
}
