//! Plays a session: sends what stands there and compares what comes back.

use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::bytes::{self, Known};
use crate::script::{self, Part};
use crate::stage::Stage;

/// No answer takes longer; none comes in parts that are further apart.
const PATIENCE: Duration = Duration::from_secs(25);

/// After a wrong answer: how long there may be more of it.
const REST: Duration = Duration::from_millis(300);

/// A session under way.
struct Player {
    stage: Stage,
    stream: Option<TcpStream>,
    title: String,
    /// What goes out before the next answer is looked at, in one piece.
    sent: String,
    known: Known,
    faults: Vec<String>,
}

impl Player {
    async fn stream(&mut self) -> &mut TcpStream {
        if self.stream.is_none() {
            self.stream = Some(self.stage.connect().await);
        }
        self.stream.as_mut().unwrap()
    }

    fn send(&mut self, text: &str) {
        self.sent.push_str(&bytes::fill(text, &self.known));
    }

    /// Reads what is expected, and compares it; gives the answer that came.
    async fn answer(&mut self, expected: &[String]) -> Vec<String> {
        let sent = std::mem::take(&mut self.sent);
        let expected = bytes::wire(expected);
        let stream = self.stream().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = vec![0; bytes::length(&expected)];
        let mut come = 0;
        while come < answer.len() {
            let read = timeout(PATIENCE, stream.read(&mut answer[come..])).await;
            match read {
                Ok(Ok(n)) if n != 0 => come += n,
                _ => break,
            }
        }
        answer.truncate(come);
        let mut known = self.known.clone();
        if !expected.is_empty() && bytes::fits(&expected, &answer, &mut known) {
            self.known = known;
            return Vec::new();
        }
        self.rest(&mut answer).await;
        let came = String::from_utf8_lossy(&answer).into_owned();
        let title = &self.title;
        self.faults
            .push(format!("{title}: expected {expected:?}, got {came:?}"));
        bytes::lines(&answer, &mut self.known)
    }

    /// What else there is of a wrong answer.
    async fn rest(&mut self, answer: &mut Vec<u8>) {
        let stream = self.stream().await;
        let mut more = [0; 4_096];
        let mut patience = if answer.is_empty() { PATIENCE } else { REST };
        while let Ok(Ok(n)) = timeout(patience, stream.read(&mut more)).await {
            if n == 0 {
                break;
            }
            patience = REST;
            answer.extend_from_slice(&more[..n]);
        }
    }

    /// Ends the connection: nothing may come behind the last answer.
    async fn hang_up(&mut self) {
        let Some(mut stream) = self.stream.take() else {
            return;
        };
        drop(stream.shutdown().await);
        let mut more = Vec::new();
        let ended = timeout(PATIENCE, stream.read_to_end(&mut more)).await;
        if ended.is_err() || !more.is_empty() {
            let more = String::from_utf8_lossy(&more);
            let title = &self.title;
            self.faults
                .push(format!("{title}: behind the answer {more:?}"));
        }
    }

    async fn play(&mut self, part: &mut Part) {
        match part {
            Part::Setting(_) => {}
            Part::Connect(title) => {
                self.hang_up().await;
                self.title.clone_from(title);
            }
            Part::Command(command) if command == "go away" => self.stream = None,
            Part::Command(command) => {
                self.hang_up().await;
                self.stage.command(command).await;
            }
            Part::Request(lines) => self.send(&bytes::wire(lines)),
            Part::Body(lines) => self.send(&bytes::body(lines)),
            Part::Answer(lines) => {
                let came = self.answer(lines).await;
                if !came.is_empty() {
                    *lines = came;
                }
            }
        }
    }
}

/// Plays the session of that name. If an answer is another one, the session with the answers that
/// came is written beside the build, for whoever finds that they are right.
pub(crate) async fn session(name: &str) {
    let file = script::folder().join(format!("{name}.http"));
    let mut parts = script::parse(&std::fs::read_to_string(file).unwrap());
    let mut player = Player {
        stage: Stage::start(&parts).await,
        stream: None,
        title: String::new(),
        sent: String::new(),
        known: Known::new(),
        faults: Vec::new(),
    };
    for part in &mut parts {
        player.play(part).await;
    }
    player.hang_up().await;
    player.stage.end().await;
    if let Some(first) = player.faults.first() {
        let came = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.http"));
        std::fs::write(&came, script::render(&parts)).unwrap();
        let n = player.faults.len();
        panic!("{n} differ, see {}; the first: {first}", came.display());
    }
}
