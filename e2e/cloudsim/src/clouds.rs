//! The clouds.yaml by which clients reach a simulation: an entry for each user.

use std::fmt::Write as _;

use crate::keystone::users;
use crate::setup::Setup;

/// The text of the file, for a simulation at `url`. The first user's application credential is an
/// entry too, named after the user with `-app`.
#[must_use]
pub fn clouds_yaml(setup: &Setup, url: &str) -> String {
    let mut text = String::from("clouds:\n");
    for user in users(setup) {
        let auth = format!(
            "username: {}\n      password: {}\n      project_name: {}\n      \
             user_domain_id: default\n      project_domain_id: default",
            quoted(&user.name),
            quoted(&user.password),
            quoted(&user.project)
        );
        entry(&mut text, &user.name, "password", &auth, setup, url);
    }
    let auth = format!(
        "application_credential_id: {}\n      application_credential_secret: {}",
        quoted(&setup.app_credential_id),
        quoted(&setup.app_credential_secret)
    );
    let name = format!("{}-app", setup.username);
    entry(
        &mut text,
        &name,
        "v3applicationcredential",
        &auth,
        setup,
        url,
    );
    text
}

fn entry(text: &mut String, name: &str, kind: &str, auth: &str, setup: &Setup, url: &str) {
    let (name, region) = (quoted(name), quoted(&setup.region));
    // Writing to a text cannot fail.
    let _written = write!(
        text,
        "  {name}:\n    auth_type: {kind}\n    auth:\n      auth_url: {url}/v3\n      {auth}\n    \
         region_name: {region}\n    identity_api_version: 3\n"
    );
}

/// As JSON writes it, which is YAML too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_has_an_entry() {
        let text = clouds_yaml(&Setup::default(), "http://127.0.0.1:1");
        let expected = "clouds:
  \"validator\":
    auth_type: password
    auth:
      auth_url: http://127.0.0.1:1/v3
      username: \"validator\"
      password: \"validator-password\"
      project_name: \"validation\"
      user_domain_id: default
      project_domain_id: default
    region_name: \"RegionOne\"
    identity_api_version: 3
  \"validator-app\":
    auth_type: v3applicationcredential
";
        assert!(text.starts_with(expected), "{text}");
    }
}
