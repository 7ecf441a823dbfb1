//! Probers: what they ask, and what they say late.

use civ_store::sites::Knows;

use crate::actors::{Actor, Who, remember, site};
use crate::story::Mood;
use crate::view::number;
use crate::world::Task;

impl Actor {
    /// A prober asks, and reports.
    pub(crate) async fn prober_turn(&self, n: u8, mood: Mood) {
        let registered = {
            let world = self.shared.world();
            world.probers.get(&n).is_some_and(|one| one.registered)
        };
        if !registered {
            let told = self
                .app
                .prober_register(&site(n), "host".to_owned(), Knows::default())
                .await;
            let mut world = self.shared.world();
            world.probers.entry(n).or_default().registered = told.is_ok();
        }
        if !matches!(self.app.prober_seen(&site(n)).await, Ok(true)) {
            self.shared.world().probers.entry(n).or_default().registered = false;
            return;
        }
        let Ok(found) = self.app.prober_assignments(&site(n)).await else {
            return;
        };
        let mut names: Vec<String> = found.ports.iter().map(|p| format!("tcp-{p}")).collect();
        names.extend(found.ports.contains(&22).then(|| "ssh".to_owned()));
        names.extend(found.ports.contains(&443).then(|| "tls-443".to_owned()));
        names.extend(found.icmp.then(|| "icmp".to_owned()));
        for one in found.list {
            let task = Task {
                ip: one.ip.0,
                address: number(&one.address.to_string()),
                attempt: one.attempt.0,
                fence: one.fence.0,
                checking: true,
                checks: names
                    .iter()
                    .map(|name| (name.clone(), vec![String::new()]))
                    .collect(),
            };
            {
                let mut world = self.shared.world();
                remember(&mut world.probers.entry(n).or_default().tasks, &task);
            }
            self.checks(Who::Prober(n), &task, mood).await;
        }
    }

    /// A prober reports on a claim that is over.
    pub(crate) async fn late_prober(&self, n: u8) {
        let former = {
            let world = self.shared.world();
            let is_over = |task: &&Task| {
                let ip = world.snap.ips.get(&task.ip);
                ip.is_none_or(|ip| ip.claim != task.fence)
            };
            let prober = world.probers.get(&n);
            prober.and_then(|one| one.tasks.iter().find(is_over).cloned())
        };
        let Some(task) = former else { return };
        self.shared.world().reach("fault late report of a site");
        let line = ("tcp-22".to_owned(), String::new(), true);
        self.results(Who::Prober(n), &task, vec![line], true, true)
            .await;
    }
}
