//! control-api in this process, as a session asks for it: with a clock that stands still, so that
//! every time in an answer is known.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use civ_boot::Context;
use civ_boot::tasks::Tasks;
use civ_cloud::Fault;
use civ_cloud::fake::FakeCloud;
use civ_control_api::{config, start_at};
use civ_testkit::{FakeClock, START, eventually, fip};
use civ_types::{Address, Clock, PortId};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::script::Part;

/// What the sessions send; longer than the 16 characters that `auth.required` asks for.
const TOKENS: [(&str, &str); 2] = [
    ("CONTROL_API_ADMIN_TOKEN", "admin-token-0123456789"),
    ("CONTROL_API_AGENT_TOKEN", "agent-token-0123456789"),
];

/// How long an orderly end may take.
const END: Duration = Duration::from_secs(10);

/// A running service.
pub(crate) struct Stage {
    folder: TempDir,
    addr: SocketAddr,
    context: Context,
    clock: Arc<FakeClock>,
    cloud: Arc<FakeCloud>,
}

/// The settings at the head of a session.
#[derive(Default)]
struct Settings {
    yaml: String,
    tokens: bool,
    ports: Vec<PortId>,
    fips: Vec<(Address, Option<PortId>)>,
}

impl Settings {
    fn read(parts: &[Part]) -> Self {
        let mut settings = Self::default();
        for part in parts {
            let Part::Setting(line) = part else { continue };
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            let port = |text: &str| PortId::parse(text).unwrap();
            let address = |text: &str| Address::parse(text).unwrap();
            match name {
                "#" | "" => {}
                "|" => settings.yaml.push_str(&format!("{value}\n")),
                "@tokens" => settings.tokens = true,
                "@port" => settings.ports.push(port(value)),
                "@free" => settings.fips.push((address(value), None)),
                "@taken" => settings.fips.push((address(value), Some(port("foreign")))),
                _ => panic!("no setting: {line}"),
            }
        }
        settings
    }

    fn cloud(&self) -> FakeCloud {
        let cloud = FakeCloud::new();
        self.ports
            .iter()
            .for_each(|port| cloud.add_port(port.clone()));
        for (address, port) in &self.fips {
            cloud.add_fip(fip(*address), *address, port.clone());
        }
        cloud
    }
}

impl Stage {
    pub(crate) async fn start(parts: &[Part]) -> Self {
        let settings = Settings::read(parts);
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("control-api.db");
        let file = folder.path().join("control-api.yaml");
        let yaml = &settings.yaml;
        let text = format!("database: {{ path: {} }}\n{yaml}", database.display());
        std::fs::write(&file, text).unwrap();
        let loaded = match config::load(&file) {
            Ok(loaded) => loaded.settings,
            Err(faults) => panic!("{faults}"),
        };
        let tokens = TOKENS.into_iter().filter(|_| settings.tokens);
        let environment: BTreeMap<_, _> = tokens
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let shutdown = CancellationToken::new();
        let context = Context {
            tasks: Tasks::new(shutdown.clone()),
            shutdown,
            environment: Arc::new(environment),
        };
        let clock = Arc::new(FakeClock::at(START));
        let cloud = Arc::new(settings.cloud());
        let time: Arc<dyn Clock> = Arc::<FakeClock>::clone(&clock);
        let running = start_at(loaded, &context, Arc::<FakeCloud>::clone(&cloud), time);
        Self {
            folder,
            addr: running.await.unwrap().addr,
            context,
            clock,
            cloud,
        }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.addr).await.unwrap()
    }

    /// `clock +SECONDS`, `cloud away`, `cloud back`, `until PATH TEXT`.
    pub(crate) async fn command(&self, command: &str) {
        let (name, value) = command.split_once(' ').unwrap();
        match (name, value) {
            ("clock", secs) => self.clock.advance_secs(secs.parse().unwrap()),
            ("cloud", "away") => self.cloud.set_outage(Some(Fault::cloud("HTTP 503"))),
            ("cloud", "back") => self.cloud.set_outage(None),
            ("until", value) => {
                let (path, text) = value.split_once(' ').unwrap();
                eventually(command, async || {
                    self.get(path).await.contains(text).then_some(())
                })
                .await;
            }
            _ => panic!("no command: {command}"),
        }
    }

    /// The answer to an administrator.
    async fn get(&self, path: &str) -> String {
        let token = TOKENS[0].1;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             authorization: Bearer {token}\r\n\r\n"
        );
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    pub(crate) async fn end(self) {
        self.context.shutdown.cancel();
        let ended = tokio::time::timeout(END, self.context.tasks.ended()).await;
        assert!(ended.is_ok(), "{:?}", self.context.tasks.running());
        assert_eq!(self.context.tasks.fault(), None);
        drop(self.folder);
    }
}
