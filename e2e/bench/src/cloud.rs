//! Listing floating IPs: the product's client against openstacksdk and `curl | jq`, in one run on
//! the same server, which costs next to nothing.
//!
//! Every lister is a process of its own that logs in and follows all pages; its wall time and
//! processor time are measured around the whole of it by the shell's `time`, the same for all.

mod answers;
mod lister;
mod serve;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use civ_types::{Clock as _, SystemClock};
use clap::Args;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::document::replace;
use crate::figures::machine;
use crate::say;

pub(crate) use lister::{ListArgs, list};
pub(crate) use serve::{ServeArgs, serve};

/// What is compared.
const ROWS: u32 = 10_000;

/// What has to fit into the memory.
const MANY: u32 = 100_000;

/// Memory that listing them may take, in MB.
const MEMORY_MAX: f64 = 60.0;

/// Runs of each lister; the median counts.
const RUNS: usize = 5;

#[derive(Debug, Args)]
pub(crate) struct CloudArgs {
    /// A Python with openstacksdk
    #[arg(long)]
    python: PathBuf,
    /// Where the figures go as JSON
    #[arg(long)]
    json: PathBuf,
    /// Whose section on listing is replaced
    #[arg(long)]
    document: Option<PathBuf>,
}

/// A figure beside a peer's; a ratio above 1 says that we are ahead.
#[derive(Debug, Serialize)]
struct Figure {
    figure: &'static str,
    ours: f64,
    peer: f64,
    peer_name: &'static str,
    unit: &'static str,
    ratio: f64,
    /// What the ratio has to be at least.
    #[serde(skip)]
    goal: f64,
}

/// What one run took, in seconds.
#[derive(Debug, Clone, Copy)]
struct Took {
    wall: f64,
    cpu: f64,
}

pub(crate) async fn compare(args: &CloudArgs) -> Result<()> {
    let load = crate::load_before();
    let server = Server::start(ROWS).await?;
    let ours = Lister::ours(&server.url)?;
    let sdk = Lister::sdk(&args.python, &server.url);
    let curl = Lister::curl(&server.url);
    // In turns, so that whatever else the machine does meets all of them.
    let mut took = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        for (lister, times) in [&ours, &sdk, &curl].into_iter().zip(&mut took) {
            times.push(lister.run(ROWS).await?);
        }
    }
    drop(server);
    let [ours_took, sdk_took, curl_took] = took.map(|times| median(&times));
    let figure = |figure, ours, peer, peer_name, goal| Figure {
        figure,
        ours,
        peer,
        peer_name,
        unit: "s",
        ratio: peer / ours,
        goal,
    };
    let memory = memory().await?;
    let mut figures = vec![
        figure(
            "wall time",
            ours_took.wall,
            curl_took.wall,
            "curl | jq",
            1.0 / 1.1,
        ),
        figure(
            "processor time",
            ours_took.cpu,
            sdk_took.cpu,
            "openstacksdk",
            15.0,
        ),
        figure(
            "processor time",
            ours_took.cpu,
            curl_took.cpu,
            "curl | jq",
            0.0,
        ),
        figure(
            "wall time",
            ours_took.wall,
            sdk_took.wall,
            "openstacksdk",
            0.0,
        ),
    ];
    figures.push(Figure {
        figure: "memory of listing 100,000 addresses, against the limit",
        ours: memory,
        peer: MEMORY_MAX,
        peer_name: "limit",
        unit: "MB",
        ratio: MEMORY_MAX / memory,
        goal: 1.0,
    });
    write(&figures, load, args)
}

fn median(times: &[Took]) -> Took {
    let middle = |of: fn(&Took) -> f64| {
        let mut all: Vec<f64> = times.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Took {
        wall: middle(|took| took.wall),
        cpu: middle(|took| took.cpu),
    }
}

/// Megabytes that a process of ours has taken at most when it had listed many.
async fn memory() -> Result<f64> {
    let server = Server::start(MANY).await?;
    let output = Command::new(std::env::current_exe()?)
        .args(["cloud-list", "--memory", &server.url])
        .output()
        .await?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = text.split_whitespace();
    let n = words.next();
    if n != Some(&MANY.to_string()) {
        bail!(
            "{MANY} addresses were to be listed, not: {text}{}",
            lossy(&output.stderr)
        );
    }
    Ok(words.next().context("no figure of memory")?.parse()?)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The server, as a process of its own.
struct Server {
    url: String,
    _child: Child,
}

impl Server {
    async fn start(rows: u32) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["cloud-serve", "--rows", &rows.to_string()])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let out = child.stdout.take().context("no standard output")?;
        let url = BufReader::new(out).lines().next_line().await?;
        Ok(Self {
            url: url.context("the server does not start")?,
            _child: child,
        })
    }
}

/// A command line of the shell that prints how many it has listed.
struct Lister {
    command: String,
}

/// What openstacksdk's own documentation shows: one connection, a generator over all pages.
const SDK: &str = "import sys, openstack
cloud = openstack.connect(auth_url=sys.argv[1], username='u', password='p', project_name='p', \
user_domain_id='default', project_domain_id='default', region_name='RegionOne')
print(sum(1 for ip in cloud.network.ips(limit=1000)))";

/// One curl and one jq a page: what a careful shell script does.
const CURL: &str = r#"token=$(curl -s -D - -o /dev/null -H 'Content-Type: application/json' \
 -d '{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"u","domain":{"id":"default"},"password":"p"}}},"scope":{"project":{"name":"p","domain":{"id":"default"}}}}}' \
 "$0/auth/tokens" | tr -d '\r' | sed -n 's/^[Xx]-[Ss]ubject-[Tt]oken: //p')
next="${0%/v3}/v2.0/floatingips?limit=1000&fields=id&fields=floating_ip_address&fields=port_id&fields=router_id&fields=port_forwardings"
n=0
while [ -n "$next" ]; do
 { read -r rows; read -r next; } < <(curl -s -H "X-Auth-Token: $token" "$next" |
  jq -r '(.floatingips | map({id, floating_ip_address, free: (.port_id == null)}) | length),
   ((.floatingips_links // []) | map(select(.rel == "next").href)[0] // "")')
 n=$((n + rows))
done
echo $n"#;

impl Lister {
    fn ours(url: &str) -> Result<Self> {
        let program = std::env::current_exe()?;
        let command = format!(
            "{} cloud-list {url}",
            quoted(&program.display().to_string())
        );
        Ok(Self { command })
    }

    fn sdk(python: &Path, url: &str) -> Self {
        let python = quoted(&python.display().to_string());
        let command = format!("{python} -c {} {url}", quoted(SDK));
        Self { command }
    }

    fn curl(url: &str) -> Self {
        let command = format!("bash -c {} {url}", quoted(CURL));
        Self { command }
    }

    async fn run(&self, rows: u32) -> Result<Took> {
        let script = format!("TIMEFORMAT='%R %U %S'; time {}", self.command);
        let output = Command::new("bash").args(["-c", &script]).output().await?;
        let (out, err) = (lossy(&output.stdout), lossy(&output.stderr));
        if out.trim() != rows.to_string() {
            bail!("{rows} were to be listed, not {out:?}: {err}");
        }
        let last = err.lines().last().unwrap_or_default();
        let seconds: Vec<f64> = last
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        let [wall, user, system] = seconds.as_slice() else {
            bail!("no times in {err:?}");
        };
        Ok(Took {
            wall: *wall,
            cpu: user + system,
        })
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn write(figures: &[Figure], load: f64, args: &CloudArgs) -> Result<()> {
    let mut table =
        String::from("| figure | ours | peer | ratio | goal |\n|---|---|---|---|---|\n");
    for one in figures {
        let goal = match one.goal {
            goal if goal > 0.0 && goal <= one.ratio => format!("at least {goal:.2}: passed"),
            goal if goal > 0.0 => format!("at least {goal:.2}: FAILED"),
            _ => String::new(),
        };
        let line = format!(
            "| {} | {:.3} {} | {:.3} {} ({}) | {:.2} | {goal} |",
            one.figure,
            one.ours,
            one.unit,
            one.peer,
            one.unit,
            one.peer_name.replace('|', "\\|"),
            one.ratio
        );
        say(&line);
        table.push_str(&line);
        table.push('\n');
    }
    if let Some(folder) = args.json.parent() {
        std::fs::create_dir_all(folder).context("the folder of the figures cannot be made")?;
    }
    let text = serde_json::to_string_pretty(figures)?;
    std::fs::write(&args.json, text + "\n").context("the figures cannot be written")?;
    let Some(path) = &args.document else {
        return Ok(());
    };
    let day = SystemClock.now().to_string();
    let day = day.split('T').next().unwrap_or_default();
    let section = format!(
        "## Listing floating IPs\n\nMade by `make bench-cloud` on {day}, on {}; load average before the \
         run: {load}.\n\nEach lister is a \
         process that logs in and follows all pages of {ROWS} floating IPs, 1,000 a page, on one\n\
         server that costs next to nothing and honours `fields`, as Neutron does: the product's \
         client as a\nscan uses it, openstacksdk's `network.ips(limit=1000)`, and a shell loop of \
         `curl` and `jq` with the\nsame fields. Medians of {RUNS} runs in turns. A ratio above 1: \
         we are ahead.\n\n{table}",
        machine()
    );
    replace(path, "cloud", &section)
}
