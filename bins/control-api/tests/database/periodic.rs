//! Backups by the clock: made, told, shown, and no more kept than wanted.

use crate::place::Place;

const YAML: &str = "database: { path: control-api.db, \
     backup: { dir: backups, interval_hours: 1, keep: 2 } }\n";

#[tokio::test]
async fn a_backup_is_made_shown_and_kept_until_newer_ones_are_there() {
    let place = Place::with(YAML, civ_cloudsim::Setup::default()).await;
    std::fs::create_dir(place.path("backups")).unwrap();
    for name in [
        "control-api-20260101T000000Z.db",
        "control-api-20260102T000000Z.db",
        "control-api-notes.txt",
    ] {
        std::fs::write(place.path("backups").join(name), "old").unwrap();
    }
    let process = place.start().await;
    let made = |status: &serde_json::Value| {
        let last = status["backup"]["last_at"].as_str().unwrap_or_default();
        !last.is_empty() && !last.starts_with("2026-01-0")
    };
    let status = process.when("/admin/status", made).await;
    assert_eq!(status["backup"]["error"], serde_json::Value::Null);
    let told = process.get("/admin/events?type=backup_made").await;
    assert!(told.to_string().contains("removed"), "{told}");
    let names = place.names("backups", "");
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(names[0], "control-api-20260102T000000Z.db");
    assert_eq!(names[2], "control-api-notes.txt");
    let file = format!("backups/{}", names[1]);
    assert_eq!(status["backup"]["last_file"], file.as_str());
    process.kill().await;
    // It is one that can be put back; and the next start knows it and makes none.
    place.done(&["restore", "--from", &file]).await;
    let process = place.start().await;
    let status = process.get("/admin/status").await;
    assert_eq!(status["backup"]["last_file"], file.as_str());
    process.kill().await;
    assert_eq!(place.names("backups", "control-api-2").len(), 2);
}

#[tokio::test]
async fn a_backup_that_cannot_be_made_is_a_warning_and_work_goes_on() {
    let place = Place::with(YAML, civ_cloudsim::Setup::default()).await;
    std::fs::write(place.path("backups"), "a file where the folder should be").unwrap();
    let process = place.start().await;
    let failed = |status: &serde_json::Value| status["backup"]["error"].is_string();
    let status = process.when("/admin/status", failed).await;
    let error = status["backup"]["error"].as_str().unwrap();
    assert!(
        error.contains("the folder backups of the backups cannot be used"),
        "{error}"
    );
    assert_eq!(status["backup"]["last_at"], serde_json::Value::Null);
    let told = process.get("/admin/events?type=backup_failed").await;
    assert!(told.to_string().contains("warning"), "{told}");
    process.enqueue([10]).await;
    process.kill().await;
}
