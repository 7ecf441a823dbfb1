//! A copy is made beside a running control-api, takes its place in an orderly way, and a damaged,
//! newer or busy database is told in a sentence with its exit code.

use std::os::unix::fs::FileExt as _;

use crate::place::Place;

#[tokio::test]
async fn a_copy_is_made_and_put_back_beside_and_without_a_running_control_api() {
    let place = Place::new().await;
    let process = place.start().await;
    process.enqueue(10..14).await;
    let said = place.done(&["backup", "--to", "copy.db"]).await;
    assert!(
        said.starts_with("copy.db: ") && said.contains("; verified"),
        "{said}"
    );
    process.enqueue(14..16).await;
    let again = place.run(&["backup", "--to", "copy.db"]).await;
    assert_eq!(again.code, 2);
    assert!(again.err.contains("is there already"), "{}", again.err);
    let busy = place.run(&["restore", "--from", "copy.db"]).await;
    assert_eq!(busy.code, 2, "{busy:?}");
    assert!(
        busy.err.contains("another process works on the database"),
        "{}",
        busy.err
    );
    let (code, second) = place.refused().await;
    assert!(
        code == 2 && second.contains("another process works on"),
        "{code} {second}"
    );
    process.kill().await;

    let said = place.done(&["restore", "--from", "copy.db"]).await;
    assert!(
        said.contains("is now copy.db: ") && said.contains("is kept as"),
        "{said}"
    );
    assert_eq!(place.names(".", "control-api.db.before-").len(), 1);
    let process = place.start().await;
    assert_eq!(process.get("/admin/status").await["total_ips"], 4);
    let told = process.get("/admin/events?type=database_restored").await;
    assert!(told.to_string().contains("copy.db"), "{told}");
    process.kill().await;
    // The log of a killed process is in the copy too.
    place.done(&["backup", "--to", "second.db"]).await;
    place.done(&["backup", "--to", "copy.db", "--force"]).await;
}

#[tokio::test]
async fn usage_and_what_cannot_be_read_have_their_codes() {
    let place = Place::new().await;
    let none = place.run(&["backup", "--to", "copy.db"]).await;
    assert_eq!(none.code, 1);
    assert!(
        none.err.contains("cannot read the database control-api.db"),
        "{}",
        none.err
    );
    let none = place.run(&["restore", "--from", "copy.db"]).await;
    assert_eq!(none.code, 1, "{none:?}");
    assert!(
        none.err.contains("cannot read the database copy.db"),
        "{}",
        none.err
    );
    assert!(!place.path("control-api.db").exists());
    for command in ["backup", "restore"] {
        assert_eq!(place.run(&[command]).await.code, 2);
    }
    let nowhere = place.run(&["doctor", "--no-cloud"]).await;
    assert_eq!(nowhere.code, 1, "{nowhere:?}");
}

#[tokio::test]
async fn a_newer_database_is_refused_by_every_command() {
    let place = Place::new().await;
    place.start().await.kill().await;
    place.done(&["backup", "--to", "newer.db"]).await;
    // `user_version` stands at byte 60 of the header; without a log, the file is what it says.
    let newer = std::fs::File::options()
        .write(true)
        .open(place.path("newer.db"))
        .unwrap();
    newer.write_all_at(&999_u32.to_be_bytes(), 60).unwrap();
    let before = std::fs::read(place.path("newer.db")).unwrap();
    let restored = place.run(&["restore", "--from", "newer.db"]).await;
    assert_eq!(restored.code, 2, "{restored:?}");
    assert!(
        restored.err.contains("schema version 999"),
        "{}",
        restored.err
    );
    for name in ["control-api.db", "control-api.db-wal", "control-api.db-shm"] {
        drop(std::fs::remove_file(place.path(name)));
    }
    std::fs::copy(place.path("newer.db"), place.path("control-api.db")).unwrap();
    let (code, said) = place.refused().await;
    assert!(
        code == 2 && said.contains("schema version 999"),
        "{code} {said}"
    );
    for args in [
        &["backup", "--to", "copy.db"] as &[&str],
        &["doctor"],
        &["doctor", "--fix"],
    ] {
        let ended = place.run(args).await;
        assert_eq!(ended.code, 2, "{args:?}: {ended:?}");
        assert!(ended.err.contains("schema version 999"), "{}", ended.err);
    }
    assert!(std::fs::read(place.path("control-api.db")).unwrap() == before);
}

#[tokio::test]
async fn a_damaged_database_is_told_with_what_to_do_and_can_be_replaced() {
    let place = Place::new().await;
    let process = place.start().await;
    process.enqueue(10..14).await;
    place.done(&["backup", "--to", "copy.db"]).await;
    process.kill().await;
    // A log that was cut short.
    let log = place.path("control-api.db-wal");
    let whole = std::fs::read(&log).unwrap();
    std::fs::write(&log, &whole[..whole.len() / 2]).unwrap();
    let (code, said) = place.refused().await;
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("its -wal file was cut short") && said.contains("restore"),
        "{said}"
    );
    let found = place.run(&["doctor", "--no-cloud"]).await;
    assert_eq!(found.code, 3, "{found:?}");
    assert!(
        found.out.contains("found     lost_writes: "),
        "{}",
        found.out
    );
    std::fs::write(&log, &whole).unwrap();
    place.start().await.kill().await;
    // Pages of nonsense, in a file that has all there is.
    place.done(&["doctor", "--fix", "--no-cloud"]).await;
    assert_eq!(std::fs::metadata(&log).map_or(0, |file| file.len()), 0);
    let file = std::fs::File::options()
        .write(true)
        .open(place.path("control-api.db"))
        .unwrap();
    let page = [0x5a; 4_096];
    let pages = file.metadata().unwrap().len() / 4_096;
    (1..pages).for_each(|n| file.write_all_at(&page, n * 4_096).unwrap());
    let (code, said) = place.refused().await;
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("is damaged") && said.contains("Recovery"),
        "{said}"
    );
    let found = place.run(&["doctor", "--fix", "--no-cloud"]).await;
    assert_eq!(found.code, 3, "{found:?}");
    assert!(
        found.err.contains("must be restored from a backup"),
        "{}",
        found.err
    );
    let restored = place.run(&["restore", "--from", "copy.db"]).await;
    assert_eq!(restored.code, 0, "{restored:?}");
    assert!(
        restored.err.contains("make sure that each port"),
        "{}",
        restored.err
    );
    let process = place.start().await;
    assert_eq!(process.get("/admin/status").await["total_ips"], 4);
    process.kill().await;
}
