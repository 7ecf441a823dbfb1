//! What is taken from the file, and each way in which it goes wrong.

use secrecy::ExposeSecret as _;

use super::*;

const FILE: &str = "
clouds:
  plain:
    region_name: RegionOne
    interface: internalURL
    cacert: ~/ca.pem
    network_endpoint_override: https://cloud.example/networking
    auth:
      auth_url: https://cloud.example:5000/v3
      username: validator
      password: 's3cret'
      project_name: validation
      user_domain_id: default
      project_domain_name: Default
  credential:
    auth_type: v3applicationcredential
    auth: { auth_url: https://k, application_credential_id: c1, password: ignored }
  secretless:
    auth: { auth_url: https://k, username: u, project_id: p }
";

fn clouds(text: &str, secure: Option<&str>) -> Result<Clouds, CloudsError> {
    let secure = secure.map(|text| (Path::new("secure.yaml"), text));
    Clouds::parse((Path::new("clouds.yaml"), text), secure)
}

fn why(text: &str, name: &str) -> String {
    let found = clouds(text, None).and_then(|all| all.profile(name, None));
    found.map(|_profile| ()).unwrap_err().to_string()
}

fn one(keys: &str) -> String {
    format!("clouds: {{ a: {{ {keys} }} }}")
}

#[test]
fn every_key_that_concerns_us_is_taken() {
    let all = clouds(FILE, None).unwrap();
    assert_eq!(all.names(), ["plain", "credential", "secretless"]);
    let found = all.profile("plain", Some(Path::new("/home/me"))).unwrap();
    assert_eq!(found.auth_url, "https://cloud.example:5000/v3");
    assert_eq!(found.region.as_deref(), Some("RegionOne"));
    assert_eq!(found.interface.as_deref(), Some("internal"));
    assert_eq!(found.ca_file.as_deref(), Some(Path::new("/home/me/ca.pem")));
    assert_eq!(
        found.network_endpoint.as_deref(),
        Some("https://cloud.example/networking")
    );
    let Auth::Password {
        user,
        password,
        scope,
    } = found.auth
    else {
        unreachable!("a password was given")
    };
    assert_eq!(password.expose_secret(), "s3cret");
    let (name, domain) = ("validator".to_owned(), Domain::Id("default".to_owned()));
    assert_eq!(user, User::Name { name, domain });
    let (name, domain) = ("validation".to_owned(), Domain::Name("Default".to_owned()));
    assert_eq!(scope, Scope::ProjectName { name, domain });
}

#[test]
fn secure_yaml_brings_secrets_and_wins() {
    let secure = "clouds: { secretless: { auth: { password: hidden } },
        credential: { auth: { application_credential_secret: also } } }";
    let all = clouds(FILE, Some(secure)).unwrap();
    let found = all.profile("secretless", None).unwrap();
    assert!(
        matches!(found.auth, Auth::Password { user: User::Name { ref domain, .. }, .. }
            if *domain == Domain::Id("default".to_owned()))
    );
    let found = all.profile("credential", None).unwrap();
    let Auth::AppCredential { id, secret } = found.auth else {
        unreachable!("auth_type says so")
    };
    assert_eq!((id.as_str(), secret.expose_secret()), ("c1", "also"));
}

#[test]
fn no_secret_shows() {
    let all = clouds(FILE, None).unwrap();
    let found = all.profile("plain", None).unwrap();
    assert!(!format!("{all:?} {found:?}").contains("s3cret"));
    let broken = "clouds: { a: { auth: { password: s3cret, : ] } } }";
    let text = why(broken, "a");
    assert!(text.contains("clouds.yaml is not YAML: line 1"), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
}

/// Keys of a cloud, and what is said of them.
const WRONG: [(&str, &str); 16] = [
    ("verify: false", "verify must be true"),
    ("identity_api_version: 2", "identity_api_version must be 3"),
    (
        "identity_api_version: '2.0'",
        "identity_api_version must be 3",
    ),
    ("auth_type: v3token", "auth_type must be password"),
    ("auth: 5", "auth must be a section"),
    ("auth: { username: u }", "auth.password is missing"),
    ("auth: { password: 12 }", "auth.username is missing"),
    (
        "auth: { username: u, password: 12 }",
        "auth.password must be a text: put the value in quotes",
    ),
    (
        "auth: { auth_url: h, username: u, password: p }",
        "auth.project_name is missing",
    ),
    (
        "auth: { username: u, password: p, project_id: p }",
        "auth.auth_url is missing: write Keystone's address",
    ),
    (
        "profile: big, auth: { username: u, password: p, project_id: p }",
        "auth.auth_url is missing: profiles of clouds-public.yaml are not read",
    ),
    (
        "auth: { application_credential_id: c, password: p }",
        "auth.password stands beside an application credential",
    ),
    (
        "auth: { application_credential_id: c }",
        "auth.application_credential_secret is missing",
    ),
    (
        "auth_type: v3applicationcredential, auth: { application_credential_secret: s }",
        "auth.application_credential_id is missing",
    ),
    (
        "interface: outer, auth: { auth_url: h, user_id: u, password: p, project_id: p }",
        "interface must be public, internal or admin",
    ),
    (
        "regions: [one, two], auth: { auth_url: h, user_id: u, password: p, project_id: p }",
        "region_name is missing, and `regions` names several: one, two",
    ),
];

#[test]
fn each_way_to_go_wrong_names_file_and_key_and_says_what_to_do() {
    for (keys, said) in WRONG {
        let text = why(&one(keys), "a");
        let said = format!("clouds.yaml: clouds.a.{said}");
        assert!(text.starts_with(&said), "{keys}: {text}");
    }
}

#[test]
fn a_file_or_a_cloud_that_is_not_there_is_told_with_what_there_is() {
    assert_eq!(
        why(FILE, "mine"),
        "clouds.yaml has no cloud \"mine\"; it has: plain, credential, secretless"
    );
    assert_eq!(
        why(FILE, "secretless"),
        "clouds.yaml: clouds.secretless.auth.password is missing: write it here, or in \
         secure.yaml beside this file"
    );
    for empty in ["", "[]", "cloud: {}", "clouds: 5"] {
        assert!(why(empty, "a").contains("no section `clouds`"), "{empty}");
    }
}

#[test]
fn one_region_of_a_list_is_the_region_and_version_3_may_be_said() {
    let keys = "identity_api_version: 3, regions: [{name: one}],
        auth: { auth_url: h, user_id: u, password: p, project_id: p }";
    let found = clouds(&one(keys), None).unwrap();
    let found = found.profile("a", None).unwrap();
    assert_eq!(found.region.as_deref(), Some("one"));
    assert!(matches!(
        found.auth,
        Auth::Password {
            user: User::Id(_),
            ..
        }
    ));
}
