//! Agents: what they ask, what they and probers say, and what was promised to them.

use civ_control_api::app::agents::{Answer, CheckReport, Event, Introduction, SelfCheckReport};
use civ_control_api::app::{App, AppError};
use civ_types::{CheckName, ClaimNo, Clock as _, IpId, SiteId, ValidatorId};

use crate::story::{Mood, Stale};
use crate::view::{Spec, number};
use crate::world::{Accepted, SECOND, Shared, Task, fip, port};

/// Former tasks that an agent or a prober remembers.
const MEMORY: usize = 8;

/// The name of a validator.
pub(crate) fn validator(n: u8) -> ValidatorId {
    ValidatorId::parse(&format!("v{n}")).expect("a name")
}

/// The name of a site.
pub(crate) fn site(n: u8) -> SiteId {
    SiteId::parse(&format!("site-{n}")).expect("a name")
}

fn check(name: &str) -> CheckName {
    CheckName::parse(name).expect("a check type")
}

/// Who reports.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Who {
    Agent(u8),
    Prober(u8),
}

/// A report's row: check type, target, passed.
type Line = (String, String, bool);

/// Someone who acts in the product's world.
#[derive(Debug, Clone)]
pub(crate) struct Actor {
    pub(crate) shared: Shared,
    pub(crate) app: App,
}

impl Actor {
    fn spec(who: Who, (name, target, _): &Line) -> Spec {
        match who {
            Who::Agent(_) => {
                let source = "egress".to_owned();
                (source, String::new(), name.clone(), target.clone())
            }
            Who::Prober(n) => {
                let source = "inbound".to_owned();
                (source, format!("site-{n}"), name.clone(), String::new())
            }
        }
    }

    /// A fresh mark, and that something is said in a claim.
    fn mark(&self, task: &Task, is_stale: bool) -> u64 {
        let mut world = self.shared.world();
        let mark = world.mark();
        if is_stale {
            world.stale_marks.insert(mark);
        } else {
            world.claims.entry(task.fence).or_default().heard = true;
        }
        mark
    }

    /// What has to be in the history because it was answered as done.
    pub(crate) fn promised(&self, mark: u64, what: &str) {
        let mut world = self.shared.world();
        if !world.seen_marks.contains(&mark) {
            world.broken("6", format!("{what} {mark} was accepted and is nowhere"));
        }
    }

    /// An agent starts, and knows nothing.
    pub(crate) async fn agent_starts(&self, v: u8) {
        self.shared.world().contact(v);
        let told = self
            .app
            .agent_register(&validator(v), Introduction::default())
            .await;
        let mut world = self.shared.world();
        let agent = world.agents.entry(v).or_default();
        agent.registered = told.is_ok();
        if told.is_ok() {
            world.contact(v);
        }
    }

    /// Only a sign of life.
    pub(crate) async fn heartbeat(&self, v: u8) -> bool {
        self.shared.world().contact(v);
        let seen = self.app.agent_seen(&validator(v)).await;
        let mut world = self.shared.world();
        if let Err(AppError::NotFound(_)) = seen {
            world.agents.entry(v).or_default().registered = false;
        }
        if seen.is_ok() {
            world.contact(v);
        }
        matches!(seen, Ok(true))
    }

    /// An agent asks, and acts on the answer.
    pub(crate) async fn agent_turn(&self, v: u8, mood: Mood) {
        let registered = self
            .shared
            .world()
            .agents
            .get(&v)
            .is_some_and(|one| one.registered);
        if !registered {
            self.agent_starts(v).await;
        }
        if !self.heartbeat(v).await {
            return;
        }
        let pause = self.pause();
        let Ok(Answer::Work(work)) = self.app.agent_assignment(&validator(v)).await else {
            return;
        };
        let task = Task {
            ip: work.ip.0,
            address: number(&work.address.to_string()),
            attempt: work.attempt.0,
            fence: work.fence.0,
            checking: work.checking,
            checks: work
                .checks
                .into_iter()
                .map(|(name, targets, _)| (name.to_string(), targets))
                .collect(),
        };
        self.given(v, &task, pause);
        if task.checking {
            self.checks(Who::Agent(v), &task, mood).await;
        } else {
            self.proves(v, &task, mood).await;
        }
    }

    fn pause(&self) -> i64 {
        let world = self.shared.world();
        world
            .view
            .count("SELECT fip_settle_seconds FROM settings", [])
    }

    /// Holds an assignment against the rules, and remembers it.
    fn given(&self, v: u8, task: &Task, pause_before: i64) {
        let pause = self.pause();
        let mut world = self.shared.world();
        world.contact(v);
        let ip = world.snap.ips.get(&task.ip).cloned();
        if let Some(ip) = ip.filter(|ip| ip.claim == task.fence) {
            let lease = world.snap.leases.iter().find(|one| one.claim == ip.claim);
            let owner = lease.map_or(v, |lease| lease.validator);
            if owner != v {
                world.broken("1", format!("v{v} is given what v{owner} owns"));
            }
            let now = world.clock.now().as_micros();
            let settles = ip.associated.map_or(now, |at| at + pause * SECOND);
            let waits = ip.state == "awaiting_self_check" && !task.checking;
            if waits && pause == pause_before && now < settles {
                let text = format!("address {} is handed out before its time", ip.address);
                world.broken("pause", text);
            }
        }
        remember(&mut world.agents.entry(v).or_default().tasks, task);
    }

    /// The self-check, after the truth or not.
    async fn proves(&self, v: u8, task: &Task, mood: Mood) {
        let truth = {
            let world = self.shared.world();
            let mut leases = world.snap.leases.iter();
            let lease = leases.find(|one| one.claim == task.fence);
            let on = world.fake.port_of(&fip(task.address));
            lease.is_some_and(|lease| on == Some(port(lease.port)))
        };
        let own = format!("203.0.113.{}", task.address);
        let other = "192.0.2.1".to_owned();
        let seen = if truth { own } else { other.clone() };
        match mood {
            Mood::Mute => {}
            Mood::WrongAddress => {
                self.self_check(v, task, true, Some(other), false).await;
            }
            Mood::Gloomy => self.self_check(v, task, false, None, false).await,
            Mood::Early => {
                let lines = vec![("https".to_owned(), "https://a.example".to_owned(), true)];
                self.results(Who::Agent(v), task, lines, false, false).await;
                // Every other one gives up then, and its results belong to no verdict.
                let truth = truth && task.fence % 2 == 0;
                self.self_check(v, task, truth, Some(seen), false).await;
            }
            Mood::Repeats => {
                self.self_check(v, task, truth, Some(seen.clone()), false)
                    .await;
                self.self_check(v, task, truth, Some(seen), false).await;
            }
            Mood::Hasty => self.self_check(v, task, truth, None, false).await,
            Mood::Honest | Mood::Mixed | Mood::Unable | Mood::Helpless | Mood::Halfway => {
                self.self_check(v, task, truth, Some(seen), false).await;
            }
        }
    }

    async fn self_check(
        &self,
        v: u8,
        task: &Task,
        success: bool,
        detected: Option<String>,
        is_stale: bool,
    ) {
        let mark = self.mark(task, is_stale);
        let own = format!("203.0.113.{}", task.address);
        let is_sound = success && detected.as_ref().is_none_or(|seen| *seen == own);
        if is_sound {
            self.shared.world().sound_marks.insert(mark);
        }
        let id = validator(v);
        self.shared.world().contact(v);
        if self.app.agent_reports(&id).await.is_err() {
            return;
        }
        let report = SelfCheckReport {
            ip: IpId(task.ip),
            fence: Some(ClaimNo(task.fence)),
            success,
            detected,
            detail: format!("#{mark}#"),
        };
        if self.app.agent_self_check(&id, report).await.is_err() {
            return;
        }
        let mut world = self.shared.world();
        if is_stale {
            world.broken("7", format!("the late self-check {mark} was accepted"));
        }
        let is_repeated = world
            .claims
            .get(&task.fence)
            .is_some_and(|claim| claim.passed);
        drop(world);
        // Of a success through another address the history tells why it is none.
        if (is_sound || !success) && !is_repeated {
            self.promised(mark, "self-check");
        }
    }

    /// The checks of a task, of an agent or a prober.
    pub(crate) async fn checks(&self, who: Who, task: &Task, mood: Mood) {
        let mut lines: Vec<Line> = task
            .checks
            .iter()
            .flat_map(|(name, targets)| {
                let line = |target: &String| (name.clone(), target.clone(), true);
                targets.iter().map(line).collect::<Vec<_>>()
            })
            .collect();
        match mood {
            Mood::Mute => return,
            Mood::Gloomy => lines.iter_mut().for_each(|line| line.2 = false),
            Mood::Mixed => lines.iter_mut().step_by(2).for_each(|line| line.2 = false),
            Mood::Unable | Mood::Helpless => {
                let n = if mood == Mood::Unable { 1 } else { lines.len() };
                for line in lines.drain(..n.min(lines.len())).collect::<Vec<_>>() {
                    self.inconclusive(who, task, line, false).await;
                }
            }
            Mood::Halfway => lines.truncate(1),
            Mood::Hasty => lines.drain(..lines.len().saturating_sub(1)).for_each(drop),
            Mood::Honest | Mood::WrongAddress | Mood::Early | Mood::Repeats => {}
        }
        let is_through = mood != Mood::Halfway;
        let of_agent = matches!(who, Who::Agent(_));
        if of_agent && mood == Mood::Hasty {
            lines.clear();
        }
        if !lines.is_empty() {
            let times = if mood == Mood::Repeats { 2 } else { 1 };
            for _ in 0..times {
                self.results(who, task, lines.clone(), is_through, false)
                    .await;
            }
        }
        if let Who::Agent(v) = who
            && is_through
        {
            self.complete(v, task, false).await;
        }
    }

    async fn send(
        &self,
        who: Who,
        task: &Task,
        lines: &[Line],
        mark: u64,
        through: bool,
    ) -> Result<u32, AppError> {
        self.send_fenced(who, task, lines, mark, (through, true))
            .await
    }

    async fn send_fenced(
        &self,
        who: Who,
        task: &Task,
        lines: &[Line],
        mark: u64,
        (through, fenced): (bool, bool),
    ) -> Result<u32, AppError> {
        let last = lines.len().saturating_sub(1);
        let rows = lines
            .iter()
            .enumerate()
            .map(|(n, (name, target, success))| CheckReport {
                ip: IpId(task.ip),
                fence: fenced.then_some(ClaimNo(task.fence)),
                name: check(name),
                target: target.clone(),
                success: *success,
                latency_ms: 1,
                duration_ms: None,
                detail: format!("#{mark}#"),
                checked_at: None,
                complete: through && n == last,
                revision: None,
            })
            .collect();
        match who {
            Who::Agent(v) => {
                self.shared.world().contact(v);
                self.app.agent_reports(&validator(v)).await?;
                self.app.agent_results(&validator(v), rows).await
            }
            Who::Prober(n) => {
                self.app.prober_seen(&site(n)).await?;
                self.app.prober_results(&site(n), rows).await
            }
        }
    }

    /// Results, and that they are kept if they are accepted.
    pub(crate) async fn results(
        &self,
        who: Who,
        task: &Task,
        lines: Vec<Line>,
        through: bool,
        is_stale: bool,
    ) {
        let mark = self.mark(task, is_stale || matches!(who, Who::Prober(_)));
        self.shared.world().stale_marks.remove(&mark);
        let keys: Vec<_> = lines
            .iter()
            .map(|line| (task.ip, task.attempt, Self::spec(who, line)))
            .collect();
        let mut former = Vec::new();
        for key in &keys {
            let mut world = self.shared.world();
            let one = world.accepted.entry(key.clone()).or_default();
            one.under_way += 1;
            one.mixed |= one.under_way > 1;
            former.push(one.detail.take());
        }
        let answer = self.send(who, task, &lines, mark, through).await;
        let detail = format!("#{mark}#");
        let mut world = self.shared.world();
        for (key, former) in keys.iter().zip(former) {
            let one = world.accepted.entry(key.clone()).or_default();
            one.under_way = one.under_way.saturating_sub(1);
            if one.under_way > 0 {
                continue;
            }
            let mixed = std::mem::take(&mut one.mixed);
            let stored = world.view.result(key.0, key.1, &key.2);
            let is_there = stored.as_ref().is_some_and(|(text, _)| *text == detail);
            match answer {
                Ok(0) if is_stale => {
                    let text = format!("late results {mark} of address {}", task.address);
                    world.broken("7", text);
                }
                // Whichever came last is there.
                Ok(_) if mixed && !is_stale => {}
                Ok(0) if !is_there && !world.cut => {
                    let text = format!("{:?} of {mark} was accepted, and is {stored:?}", key.2);
                    world.broken("6", text);
                }
                Ok(0) => {
                    let known = Accepted {
                        detail: Some(detail.clone()),
                        ..Accepted::default()
                    };
                    world.accepted.insert(key.clone(), known);
                }
                Ok(_) if is_there => {
                    let text = format!("results {mark} were refused, and are there");
                    world.broken("7", text);
                }
                Ok(_) => {
                    let known = Accepted {
                        detail: former,
                        ..Accepted::default()
                    };
                    world.accepted.insert(key.clone(), known);
                }
                Err(_) => {}
            }
        }
    }

    async fn complete(&self, v: u8, task: &Task, is_stale: bool) {
        self.mark(task, is_stale);
        let id = validator(v);
        self.shared.world().contact(v);
        if self.app.agent_reports(&id).await.is_err() {
            return;
        }
        let fence = Some(ClaimNo(task.fence));
        let done = self
            .app
            .agent_complete(&id, IpId(task.ip), fence, None)
            .await;
        if done.is_err() {
            return;
        }
        let mut world = self.shared.world();
        if is_stale {
            let text = format!("v{v} was through with claim {} long ago", task.fence);
            world.broken("7", text);
        }
        let ip = world.snap.ips.get(&task.ip).cloned();
        let current = ip.filter(|ip| ip.claim == task.fence && ip.state == "checking");
        let stored = world
            .view
            .count("SELECT egress_complete FROM ips WHERE id = ?1", [task.ip]);
        if current.is_some() && stored == 0 {
            world.broken("6", format!("v{v} was through, and it is forgotten"));
        }
    }

    async fn inconclusive(&self, who: Who, task: &Task, line: Line, is_stale: bool) {
        let mark = self.mark(task, is_stale);
        let (name, target, _) = line;
        let event = Event {
            event_type: "check_inconclusive".to_owned(),
            ip: Some(IpId(task.ip)),
            fence: Some(ClaimNo(task.fence)),
            payload: format!("#{mark}#"),
            inconclusive: Some((check(&name), target, format!("#{mark}#"))),
        };
        let done = match who {
            Who::Agent(v) => {
                self.shared.world().contact(v);
                match self.app.agent_reports(&validator(v)).await {
                    Ok(()) => self.app.agent_event(&validator(v), event).await,
                    Err(error) => Err(error),
                }
            }
            Who::Prober(n) => self.app.prober_event(&site(n), event).await,
        };
        if done.is_err() {
            return;
        }
        self.promised(mark, "event");
        let mut world = self.shared.world();
        let counts = world.view.count(
            "SELECT COUNT(*) FROM inconclusive_checks WHERE code = ?1",
            [format!("#{mark}#")],
        );
        if is_stale && counts > 0 {
            world.broken("7", format!("the late event {mark} counts"));
        }
    }

    /// Something about a claim that is over, or not one's own.
    pub(crate) async fn late(&self, v: u8, kind: Stale) {
        if kind == Stale::Stranger {
            return self.stranger(v).await;
        }
        let former = {
            let world = self.shared.world();
            let is_over = |task: &&Task| {
                let ip = world.snap.ips.get(&task.ip);
                ip.is_none_or(|ip| ip.claim != task.fence)
            };
            let agent = world.agents.get(&v);
            agent.and_then(|agent| agent.tasks.iter().find(is_over).cloned())
        };
        let Some(task) = former else { return };
        self.shared.world().reach("fault late report");
        let line = ("https".to_owned(), "https://a.example".to_owned(), true);
        match kind {
            Stale::SelfCheck => self.self_check(v, &task, true, None, true).await,
            Stale::Results => {
                self.results(Who::Agent(v), &task, vec![line], false, true)
                    .await;
            }
            Stale::Complete => self.complete(v, &task, true).await,
            Stale::Inconclusive => self.inconclusive(Who::Agent(v), &task, line, true).await,
            Stale::Stranger => {}
        }
    }

    async fn stranger(&self, v: u8) {
        let target = {
            let world = self.shared.world();
            let mut leases = world.snap.leases.iter();
            let lease = leases.find(|one| one.validator != v && !one.releasing && one.attached);
            lease.and_then(|lease| Some((lease.ip?, lease.address, lease.claim)))
        };
        let Some((ip, address, fence)) = target else {
            return;
        };
        let task = Task {
            ip,
            address,
            attempt: 0,
            fence,
            checking: true,
            checks: Vec::new(),
        };
        let mark = self.shared.world().mark();
        self.shared.world().reach("fault report of a stranger");
        let line = ("https".to_owned(), "https://a.example".to_owned(), true);
        let lines = [line];
        let sent = self.send_fenced(Who::Agent(v), &task, &lines, mark, (false, false));
        if let Ok(0) = sent.await {
            let mut world = self.shared.world();
            let mut leases = world.snap.leases.iter();
            let owns = leases.any(|one| one.validator == v && one.ip == Some(ip));
            if !owns {
                let text = format!("v{v} reports on address {address}, which it does not own");
                world.broken("7", text);
            }
        }
    }
}

/// Keeps a task in mind, and forgets the oldest.
pub(crate) fn remember(tasks: &mut Vec<Task>, task: &Task) {
    match tasks.iter_mut().find(|known| known.fence == task.fence) {
        Some(known) => *known = task.clone(),
        None => tasks.push(task.clone()),
    }
    if tasks.len() > MEMORY {
        tasks.remove(0);
    }
}
