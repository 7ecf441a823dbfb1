"""What is in the lab: users, networks, ports and floating IPs.

Runs in the venv. Everything is looked for before it is made, so that a lab that is started again
is left as it was, but for the bindings of floating IPs to validators' ports, which are undone.
"""

import datetime
import ipaddress
import uuid

import requests

PUBLIC = "198.18.0.0/22"
SECOND = "198.18.255.0/28"
PORTS = 8
CUSTOMERS = 5
MORE_THAN_ENOUGH = 5000


def answers(url):
    try:
        return requests.get(url, timeout=5).status_code < 500
    except requests.RequestException:
        return False


class Rest:
    """A service's collections, with one token."""

    def __init__(self, base, token=None):
        self.base = base
        self.http = requests.Session()
        self.http.trust_env = False
        if token:
            self.http.headers["X-Auth-Token"] = token

    def call(self, method, path, body=None, **query):
        answer = self.http.request(method, self.base + path, json=body, params=query, timeout=120)
        if not answer.ok:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer

    def all(self, collection, **query):
        key = collection.rsplit("/", 1)[-1].replace("-", "_")
        return self.call("GET", f"/{collection}", **query).json()[key]

    def one(self, collection, name, /, query=None, **attributes):
        """The resource with this name, made if there is none."""
        found = self.all(collection, name=name, **(query or {}))
        if found:
            return found[0]
        kind = collection.rsplit("/", 1)[-1].replace("-", "_").removesuffix("s")
        body = {kind: {"name": name, **attributes}}
        return self.call("POST", f"/{collection}", body).json()[kind]


def token(lab, user, project):
    default = {"id": "default"}
    who = {"name": user, "domain": default, "password": lab.secret}
    identity = {"methods": ["password"], "password": {"user": who}}
    scope = {"project": {"name": project, "domain": default}}
    body = {"auth": {"identity": identity, "scope": scope}}
    answer = Rest(lab.auth_url).call("POST", "/auth/tokens", body)
    return answer.headers["X-Subject-Token"]


def seed(lab):
    facts = {
        "auth_url": lab.auth_url,
        "brief_auth_url": lab.brief_auth_url,
        "network_url": lab.network_url,
        "secret": lab.secret,
        "database": lab.database.kind,
        "stand_in": str(lab.stand_in),
        "clouds": str(lab.home / "clouds.yaml"),
        "bin": str(lab.bin),
    }
    identity = Rest(lab.auth_url, token(lab, "admin", "admin"))
    facts |= people(lab, identity)
    return facts | networks(lab)


def people(lab, identity):
    roles = {name: identity.one("roles", name)["id"] for name in ("member", "reader", "service")}
    names = ("service", "validator", "other", "stage", "suite", "pair")
    projects = {n: identity.one("projects", n, domain_id="default")["id"] for n in names}
    members = [
        ("neutron", "service", "service"),
        ("validator", "validator", "member"),
        ("auditor", "validator", "reader"),
        ("other", "other", "member"),
        ("stage", "stage", "member"),
        ("suite", "suite", "member"),
        ("pair", "pair", "member"),
    ]
    users = {}
    for name, project, role in members:
        user = identity.one("users", name, domain_id="default", password=lab.secret)
        users[name] = user["id"]
        path = f"/projects/{projects[project]}/users/{user['id']}/roles/{roles[role]}"
        identity.call("PUT", path)
    catalog(lab, identity)
    own = Rest(lab.auth_url, token(lab, "validator", "validator"))
    path = f"users/{users['validator']}/application_credentials"
    role = [{"name": "member"}]
    credential = own.one(path, "validator-application", secret=lab.secret, roles=role)
    return {"projects": projects, "users": users, "application_credential": credential["id"]}


def catalog(lab, identity):
    """Ports differ from start to start, so the addresses in the catalog are set each time."""
    identity.one("services", "neutron", type="network")
    urls = {"neutron": lab.network_url, "keystone": f"{lab.auth_url}/"}
    for service in identity.all("services"):
        there = {e["interface"]: e for e in identity.all("endpoints", service_id=service["id"])}
        for interface in ("public", "internal", "admin"):
            url = urls[service["name"]]
            if service["name"] == "neutron" and interface == "public":
                url = lab.args.network_url or url
            endpoint = {"url": url, "interface": interface, "service_id": service["id"]}
            if interface not in there:
                body = {"endpoint": {**endpoint, "region_id": "RegionOne"}}
                identity.call("POST", "/endpoints", body)
            elif there[interface]["url"] != url:
                path = f"/endpoints/{there[interface]['id']}"
                identity.call("PATCH", path, {"endpoint": endpoint})


def networks(lab):
    base = f"{lab.network_url}/v2.0"
    admin = Rest(base, token(lab, "admin", "admin"))
    mine = Rest(base, token(lab, "validator", "validator"))
    theirs = Rest(base, token(lab, "other", "other"))
    default_security_rules(admin)
    public = external(admin, "public", PUBLIC)
    second = external(admin, "public2", SECOND)
    for rest in (mine, theirs):
        me = rest.all("security-groups")[0]["project_id"]
        quota = {"floatingip": 3} if rest is theirs else {"floatingip": MORE_THAN_ENOUGH}
        quota |= {"port": MORE_THAN_ENOUGH}
        admin.call("PUT", f"/quotas/{me}", {"quota": quota})
    inside = tenant(mine, "validator", "10.77.0.0/22", public)
    outside = tenant(theirs, "other", "10.78.0.0/24", public)
    ports = [vm_port(admin, mine, f"validator-port-{n + 1}", inside) for n in range(PORTS)]
    customers = [vm_port(admin, mine, f"customer-port-{n + 1}", inside) for n in range(CUSTOMERS)]
    alone = mine.one("networks", "isolated-network")
    mine.one("subnets", "isolated", network_id=alone["id"], ip_version=4, cidr="10.79.0.0/24")
    lonely = mine.one("ports", "isolated-port", network_id=alone["id"])
    other_port = vm_port(admin, theirs, "other-port", outside)
    floating_ips(lab, mine, public, ports, customers)
    if not theirs.all("floatingips"):
        wanted = {"floating_network_id": public["id"], "port_id": other_port}
        theirs.call("POST", "/floatingips", {"floatingip": wanted})
    return {
        "public_network": public["id"],
        "second_network": second["id"],
        "router": inside["router"],
        "ports": ports,
        "customer_ports": customers,
        "isolated_port": lonely["id"],
        "foreign_port": other_port,
        "foreign_floating_ip": theirs.all("floatingips")[0]["id"],
    }


def default_security_rules(admin):
    """What Neutron's migrations write; where models made the tables, nothing did."""
    path = "default-security-group-rules"
    if admin.all(path):
        return
    for family in ("IPv4", "IPv6"):
        out = {"direction": "egress", "used_in_non_default_sg": True}
        inward = {"direction": "ingress", "remote_group_id": "PARENT"}
        for rule in (out, {**inward, "used_in_non_default_sg": False}):
            body = {**rule, "ethertype": family, "used_in_default_sg": True}
            admin.call("POST", f"/{path}", {"default_security_group_rule": body})


def external(admin, name, cidr):
    provider = {"provider:network_type": "flat", "provider:physical_network": f"out-{name}"}
    network = admin.one("networks", name, **{"router:external": True, **provider})
    subnet = {"network_id": network["id"], "ip_version": 4, "cidr": cidr, "enable_dhcp": False}
    admin.one("subnets", f"{name}-subnet", **subnet)
    return network


def tenant(rest, name, cidr, public):
    mine = {"project_id": rest.all("security-groups")[0]["project_id"]}
    network = rest.one("networks", f"{name}-network", mine)
    kept = {"network_id": network["id"], "ip_version": 4, "cidr": cidr}
    subnet = rest.one("subnets", f"{name}-subnet", mine, **kept)
    gateway = {"network_id": public["id"]}
    router = rest.one("routers", f"{name}-router", mine, external_gateway_info=gateway)
    if not rest.all("ports", device_id=router["id"], network_id=network["id"]):
        path = f"/routers/{router['id']}/add_router_interface"
        rest.call("PUT", path, {"subnet_id": subnet["id"]})
    return {"network": network["id"], "router": router["id"]}


def vm_port(admin, rest, name, where):
    """A port as Nova leaves it: owned by a VM, and bound to a host."""
    port = rest.one("ports", name, network_id=where["network"])
    if not port["device_owner"]:
        machine = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.openstack.test"))
        attributes = {"device_owner": "compute:nova", "device_id": machine}
        body = {"port": {**attributes, "binding:host_id": "host-1"}}
        admin.call("PUT", f"/ports/{port['id']}", body)
    return port["id"]


def floating_ips(lab, rest, public, ports, customers):
    """Free ones but for those of the customers' ports. Neutron takes a third of a second for each,
    so it makes the first, and the others are copies of its rows."""
    wanted = lab.args.floating_ips
    there = rest.all("floatingips")
    bound = {fip["port_id"] for fip in there}
    for n, port in enumerate(customers[len(bound & set(customers)) :]):
        body = {"floating_network_id": public["id"], "port_id": port, "description": "customer"}
        fip = rest.call("POST", "/floatingips", {"floatingip": body}).json()["floatingip"]
        rest.call("PUT", f"/floatingips/{fip['id']}/tags/in-use")
        there.append(fip)
    for fip in there:
        if fip["port_id"] in ports:
            path = f"/floatingips/{fip['id']}"
            rest.call("PUT", path, {"floatingip": {"port_id": None}})
    free = [fip for fip in there if fip["port_id"] not in customers]
    if not free:
        body = {"floatingip": {"floating_network_id": public["id"]}}
        free = [rest.call("POST", "/floatingips", body).json()["floatingip"]]
        there += free
    if len(there) < wanted:
        with Rows(lab.database) as rows:
            copy(rows, free[0]["id"], public["id"], wanted - len(there))


class Rows:
    """Plain SQL on Neutron's database, in one transaction."""

    def __init__(self, database):
        self.mark = database.mark
        self.connection = database.connect("neutron")
        self.cursor = self.connection.cursor()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.connection.commit()
        self.connection.close()

    def find(self, table, **where):
        terms = " and ".join(f"{column} = {self.mark}" for column in where)
        self.cursor.execute(f"select * from {table} where {terms}", tuple(where.values()))
        names = [column[0] for column in self.cursor.description]
        return [dict(zip(names, row)) for row in self.cursor.fetchall()]

    def add(self, table, rows):
        names = list(rows[0])
        marks = ", ".join([self.mark] * len(names))
        sql = f"insert into {table} ({', '.join(names)}) values ({marks})"
        self.cursor.executemany(sql, [tuple(row[name] for name in names) for row in rows])

    def last_attribute(self):
        self.cursor.execute("select max(id) from standardattributes")
        return self.cursor.fetchone()[0]


def copy(rows, fip_id, network_id, n):
    (fip,) = rows.find("floatingips", id=fip_id)
    (port,) = rows.find("ports", id=fip["floating_port_id"])
    (allocation,) = rows.find("ipallocations", port_id=port["id"])
    (subnet,) = rows.find("subnets", id=allocation["subnet_id"])
    (pool,) = rows.find("ipamsubnets", neutron_subnet_id=subnet["id"])
    (of_fip,) = rows.find("standardattributes", id=fip["standard_attr_id"])
    (of_port,) = rows.find("standardattributes", id=port["standard_attr_id"])
    taken = {row["ip_address"] for row in rows.find("ipallocations", network_id=network_id)}
    hosts = (str(host) for host in ipaddress.ip_network(subnet["cidr"]).hosts())
    free = [host for host in hosts if host not in taken and host != subnet["gateway_ip"]][:n]
    now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None, microsecond=0)
    new = {"created_at": str(now), "updated_at": str(now), "revision_number": 0}
    made = {name: [] for name in TABLES}
    attribute = rows.last_attribute()
    for address in free:
        port_id, new_fip, attribute = str(uuid.uuid4()), str(uuid.uuid4()), attribute + 2
        numbers = ipaddress.ip_address(address).packed
        mac = "fa:16:%02x:%02x:%02x:%02x" % tuple(numbers)
        made["standardattributes"] += [
            {**of_port, **new, "id": attribute - 1},
            {**of_fip, **new, "id": attribute},
        ]
        own = {"id": port_id, "mac_address": mac, "device_id": new_fip}
        made["ports"].append({**port, **own, "standard_attr_id": attribute - 1})
        at = {"port_id": port_id, "ip_address": address}
        made["ipallocations"].append({**allocation, **at})
        ipam = {"ip_address": address, "status": "ALLOCATED", "ipam_subnet_id": pool["id"]}
        made["ipamallocations"].append(ipam)
        for table in OF_PORT:
            for row in rows.find(table, port_id=port["id"]):
                made[table].append({**row, "port_id": port_id})
        floating = {"id": new_fip, "floating_ip_address": address, "floating_port_id": port_id}
        made["floatingips"].append({**fip, **floating, "standard_attr_id": attribute})
    for table, several in made.items():
        if several:
            rows.add(table, several)


OF_PORT = ["ml2_port_bindings", "portsecuritybindings"]
# In the order in which they refer to each other.
TABLES = ["standardattributes", "ports", "ipallocations", "ipamallocations", *OF_PORT, "floatingips"]
