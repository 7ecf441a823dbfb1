//! Everything that a simulation is, as one value: what snapshots hold and state files keep.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use civ_simkit::{Agenda, Audit, Clock, Dice, Moment, Row};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::calls::Call;
use crate::faults::Rules;
use crate::keystone::Tokens;
use crate::plane::Way;
use crate::setup::Setup;
use crate::world::{Kind, World};

/// Which cloud it is, in snapshots and state files.
pub(crate) const CLOUD: &str = "openstack";

/// In a state file, what is no object of the world.
const PART: &str = "part";

/// What the data plane lets through for one floating address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flow {
    pub(crate) fixed: IpAddr,
    /// `None`: both ways.
    pub(crate) way: Option<Way>,
}

/// By floating address.
pub(crate) type Flows = BTreeMap<IpAddr, Flow>;

/// What happens by itself later.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Due {
    /// The agent reports the status.
    Status {
        /// The floating IP.
        fip: String,
    },
    /// Packets begin to flow, if the binding still is that one.
    Flow {
        /// The floating IP.
        fip: String,
        /// Its count of bindings.
        epoch: u64,
    },
}

/// The state. Its lock is never held across an await.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) setup: Arc<Setup>,
    pub(crate) world: World,
    /// What reads are answered from while a rule says so.
    pub(crate) stale: Option<World>,
    pub(crate) tokens: Tokens,
    pub(crate) rules: Rules,
    pub(crate) agenda: Agenda<Due>,
    /// For latencies.
    pub(crate) dice: Dice,
    pub(crate) audit: Audit<Call>,
}

/// What a document holds. Calls are no state: they are what happened.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    setup: Setup,
    world: World,
    #[serde(default)]
    stale: Option<World>,
    tokens: Tokens,
    rules: Rules,
    agenda: Agenda<Due>,
    dice: Dice,
    clock: Moment,
    flows: Flows,
}

impl State {
    /// A cloud as its set-up describes it.
    pub(crate) fn new(setup: Setup, clock: &Clock) -> anyhow::Result<Self> {
        Ok(Self {
            world: World::new(&setup, clock.now())?,
            dice: Dice::new(setup.seed),
            setup: Arc::new(setup),
            stale: None,
            tokens: Tokens::default(),
            rules: Rules::default(),
            agenda: Agenda::default(),
            audit: Audit::default(),
        })
    }

    /// The whole of it as a document.
    pub(crate) fn document(&self, clock: &Clock, flows: &Flows) -> anyhow::Result<Value> {
        Ok(json!({
            "setup": *self.setup, "world": self.world, "stale": self.stale,
            "tokens": self.tokens, "rules": self.rules, "agenda": self.agenda,
            "dice": self.dice, "clock": clock.moment(), "flows": flows,
        }))
    }

    /// Becomes what a document holds; the calls so far stay. Its flows are yet to be let through.
    pub(crate) fn become_document(&mut self, value: Value, clock: &Clock) -> anyhow::Result<Flows> {
        let document: Document = serde_path_to_error::deserialize(value)?;
        clock.set(document.clock);
        self.setup = Arc::new(document.setup);
        self.world = document.world;
        self.stale = document.stale;
        self.tokens = document.tokens;
        self.rules = document.rules;
        self.agenda = document.agenda;
        self.dice = document.dice;
        Ok(document.flows)
    }

    /// What changed in the world since this was asked last, for the state file.
    pub(crate) fn touched_rows(&mut self) -> Vec<Row> {
        let touched = self.world.take_touched();
        let row = |(kind, id): (Kind, String)| Row {
            kind: kind.field().to_owned(),
            document: self.object(kind, &id),
            id,
        };
        touched.into_iter().map(row).collect()
    }

    fn object(&self, kind: Kind, id: &str) -> Option<Value> {
        let world = &self.world;
        match kind {
            Kind::Fip => world.fips.get(id).map(|it| json!(it)),
            Kind::Port => world.ports.get(id).map(|it| json!(it)),
            Kind::Network => world.networks.get(id).map(|it| json!(it)),
            Kind::Subnet => world.subnets.get(id).map(|it| json!(it)),
            Kind::Router => world.routers.get(id).map(|it| json!(it)),
            Kind::Group => world.groups.get(id).map(|it| json!(it)),
        }
    }

    /// What is no object of the world, for the state file.
    pub(crate) fn parts(&self, clock: &Clock, flows: &Flows) -> Vec<Row> {
        let world = json!({"fip_quotas": self.world.fip_quotas, "n_made": self.world.n_made()});
        let parts = [
            ("setup", json!(*self.setup)),
            ("world", world),
            ("stale", json!(self.stale)),
            ("tokens", json!(self.tokens)),
            ("rules", json!(self.rules)),
            ("agenda", json!(self.agenda)),
            ("dice", json!(self.dice)),
            ("clock", json!(clock.moment())),
            ("flows", json!(flows)),
        ];
        let row = |(id, document): (&str, Value)| Row {
            kind: PART.to_owned(),
            id: id.to_owned(),
            document: Some(document),
        };
        parts.into_iter().map(row).collect()
    }

    /// Every object of the world, for a new state file.
    pub(crate) fn all_rows(&mut self) -> Vec<Row> {
        for kind in Kind::ALL {
            let ids: Vec<String> = match kind {
                Kind::Fip => self.world.fips.keys().cloned().collect(),
                Kind::Port => self.world.ports.keys().cloned().collect(),
                Kind::Network => self.world.networks.keys().cloned().collect(),
                Kind::Subnet => self.world.subnets.keys().cloned().collect(),
                Kind::Router => self.world.routers.keys().cloned().collect(),
                Kind::Group => self.world.groups.keys().cloned().collect(),
            };
            for id in ids {
                self.world.touch(kind, &id);
            }
        }
        self.touched_rows()
    }
}

/// The document that the rows of a state file make up.
pub(crate) fn assemble(rows: Vec<Row>) -> Value {
    let mut parts = Map::new();
    let mut shelves = Map::new();
    for kind in Kind::ALL {
        shelves.insert(kind.field().to_owned(), json!({}));
    }
    for row in rows {
        let document = row.document.unwrap_or_default();
        if row.kind == PART {
            parts.insert(row.id, document);
        } else if let Some(Value::Object(shelf)) = shelves.get_mut(&row.kind) {
            shelf.insert(row.id, document);
        }
    }
    if let Some(Value::Object(world)) = parts.get_mut("world") {
        world.extend(shelves);
    }
    Value::Object(parts)
}
