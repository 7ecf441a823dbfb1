//! Tokens that were given out: until when they are good, and for whom.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ids::{hex_id, project_id};
use crate::setup::{Role, Setup, UserSetup};

/// How long Neutron believes a token that it has seen before, whatever Keystone says meanwhile.
const BELIEVED: SignedDuration = SignedDuration::from_secs(300);

/// How somebody logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Method {
    Password,
    AppCredential,
    Token,
}

impl Method {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::AppCredential => "application_credential",
            Self::Token => "token",
        }
    }
}

/// Who calls Neutron, and what that one may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// For the call log.
    pub(crate) writer: String,
    /// The project's id; `None`: the token has no scope.
    pub(crate) project: Option<String>,
    pub(crate) role: Role,
}

/// A token that was given out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) method: Method,
    pub(super) user: String,
    /// By name.
    pub(super) project: Option<String>,
    pub(super) role: Role,
    pub(super) issued: Timestamp,
    pub(super) expires: Timestamp,
    revoked: Option<Timestamp>,
    /// When Neutron last asked Keystone about it.
    seen: Option<Timestamp>,
}

impl Grant {
    pub(super) fn new(
        method: Method,
        user: &UserSetup,
        project: Option<String>,
        setup: &Setup,
        now: Timestamp,
    ) -> Self {
        let life = SignedDuration::try_from(setup.token_ttl).unwrap_or(SignedDuration::MAX);
        Self {
            method,
            user: user.name.clone(),
            project,
            role: user.role,
            issued: now,
            expires: now.checked_add(life).unwrap_or(Timestamp::MAX),
            revoked: None,
            seen: None,
        }
    }

    /// 22 characters, as Keystone's are.
    pub(super) fn audit_id(&self) -> String {
        let of = format!("{} {}", self.user, self.issued);
        hex_id(&of).chars().take(22).collect()
    }
}

/// The tokens that were given out and have not ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Tokens {
    grants: BTreeMap<String, Grant>,
}

impl Tokens {
    /// What Keystone says of a token: expired and revoked ones are gone.
    pub(super) fn valid(&self, token: &str, now: Timestamp) -> Option<&Grant> {
        let grant = self.grants.get(token)?;
        (now < grant.expires && grant.revoked.is_none()).then_some(grant)
    }

    /// Whom Neutron takes the caller for. It asks Keystone once and then believes the token for
    /// five minutes, also if it is revoked meanwhile.
    pub(crate) fn caller(&mut self, token: &str, now: Timestamp) -> Option<Caller> {
        let grant = self.grants.get_mut(token)?;
        if now >= grant.expires {
            return None;
        }
        let is_believed = grant
            .seen
            .is_some_and(|seen| seen.duration_until(now) < BELIEVED);
        if !is_believed {
            if grant.revoked.is_some() {
                return None;
            }
            grant.seen = Some(now);
        }
        Some(Caller {
            writer: match grant.method {
                Method::Password | Method::Token => grant.user.clone(),
                Method::AppCredential => "application_credential".to_owned(),
            },
            project: grant.project.as_deref().map(project_id),
            role: grant.role,
        })
    }

    pub(crate) fn expire_all(&mut self) {
        self.grants.clear();
    }

    pub(super) fn revoke(&mut self, token: &str, now: Timestamp) {
        if let Some(grant) = self.grants.get_mut(token) {
            grant.revoked = Some(now);
        }
    }

    pub(super) fn issue(&mut self, grant: Grant, now: Timestamp) -> String {
        self.grants.retain(|_, grant| now < grant.expires);
        // As long as Keystone's: longer with an application credential.
        let length = match grant.method {
            Method::AppCredential => 204,
            Method::Password | Method::Token => 183,
        };
        let random: String = (0..7)
            .map(|_| Uuid::new_v4().simple().to_string())
            .collect();
        let token: String = format!("gAAAAA{random}").chars().take(length).collect();
        self.grants.insert(token.clone(), grant);
        token
    }
}
