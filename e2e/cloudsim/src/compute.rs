//! As much of Nova as the CLI's list of servers asks for: an instance for each port.

use civ_simkit::{Asked, Reply};
use serde_json::{Value, json};

use crate::ids::{dashed, hex_id, mac};
use crate::neutron::View;
use crate::neutron::render;
use crate::world::{Port, ROUTER_INTERFACE};

/// Where it is.
pub(crate) const PREFIX: &str = "/compute";

/// Answers a read; `None` if it asks for something that is not simulated.
pub(crate) fn read(asked: &Asked, view: &View<'_>) -> Option<Reply> {
    let path = asked.path.strip_prefix(PREFIX)?.trim_end_matches('/');
    let root = format!("{}{PREFIX}", view.base);
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    Some(match parts.as_slice() {
        [] => Reply::json(200, &json!({"versions": [version(&root)]})),
        ["v2.1"] => Reply::json(200, &json!({"version": version(&root)})),
        ["v2.1", "servers", rest @ ..] => {
            let all = view
                .world
                .ports()
                .filter(|port| view.sees(&port.project) && port.device_owner != ROUTER_INTERFACE);
            let all: Vec<Value> = all.map(|port| server(port, view)).collect();
            match rest {
                [] => {
                    let brief = all.iter().map(
                        |one| json!({"id": one["id"], "name": one["name"], "links": one["links"]}),
                    );
                    Reply::json(200, &json!({"servers": brief.collect::<Vec<_>>()}))
                }
                // A page that is asked for with a marker is the one after the last.
                ["detail"] if asked.param("marker").is_some() => {
                    Reply::json(200, &json!({"servers": []}))
                }
                ["detail"] => Reply::json(200, &json!({ "servers": all })),
                [id] => match all.into_iter().find(|one| one["id"] == *id) {
                    Some(one) => Reply::json(200, &json!({ "server": one })),
                    None => {
                        let message = format!("Instance {id} could not be found.");
                        let fault = json!({"code": 404, "message": message});
                        Reply::json(404, &json!({ "itemNotFound": fault }))
                    }
                },
                _ => return None,
            }
        }
        ["v2.1", "os-quota-sets", project] => {
            let quota = json!({"id": project, "cores": 20, "instances": 10, "ram": 51_200,
                "key_pairs": 100, "metadata_items": 128, "server_groups": 10,
                "server_group_members": 10});
            Reply::json(200, &json!({ "quota_set": quota }))
        }
        ["v2.1", "flavors", "detail"] => Reply::json(200, &json!({"flavors": [flavor()]})),
        _ => return None,
    })
}

fn version(root: &str) -> Value {
    json!({"id": "v2.1", "status": "CURRENT", "version": "2.1", "min_version": "2.1",
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": format!("{root}/v2.1/")}]})
}

fn flavor() -> Value {
    json!({"id": dashed("flavor"), "name": "validator", "vcpus": 1, "ram": 512, "disk": 4,
        "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0, "OS-FLV-DISABLED:disabled": false,
        "os-flavor-access:is_public": true, "rxtx_factor": 1.0, "links": []})
}

fn server(port: &Port, view: &View<'_>) -> Value {
    let entry = |address: &Value, kind: &str| {
        json!({"addr": address, "version": 4, "OS-EXT-IPS:type": kind,
            "OS-EXT-IPS-MAC:mac_addr": mac(&port.id)})
    };
    let mut addresses: Vec<Value> = port
        .fixed_ips
        .iter()
        .map(|ip| entry(&json!(ip), "fixed"))
        .collect();
    let on_it = view.world.fips().filter(|fip| {
        let bound = fip.bound.as_ref();
        bound.is_some_and(|bound| bound.port == port.id)
    });
    addresses
        .extend(on_it.map(|fip| entry(&render::fip(fip, view)["floating_ip_address"], "floating")));
    let network = view.world.networks.get(&port.network);
    let network = network.map_or("", |network| network.name.as_str());
    json!({
        "id": port.device_id, "name": format!("instance-of-{}", port.name), "status": "ACTIVE",
        "tenant_id": port.project, "user_id": hex_id("nova"), "metadata": {}, "hostId": "",
        "image": "", "flavor": {"id": dashed("flavor"), "links": []},
        "addresses": {network: addresses}, "accessIPv4": "", "accessIPv6": "", "links": [],
        "OS-DCF:diskConfig": "AUTO", "progress": 0, "OS-EXT-AZ:availability_zone": "nova",
        "config_drive": "", "key_name": null, "OS-EXT-STS:task_state": null,
        "OS-EXT-STS:vm_state": "active", "OS-EXT-STS:power_state": 1, "security_groups": [],
        "created": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z",
        "OS-SRV-USG:launched_at": null, "OS-SRV-USG:terminated_at": null,
        "os-extended-volumes:volumes_attached": [],
    })
}
