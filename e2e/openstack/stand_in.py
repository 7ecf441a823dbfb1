"""What agents would do on a real network, inside of Neutron's API server.

BindAll is a mechanism driver: a port that is given a host is bound at once. StatusReporter is a
service plug-in: some time after the binding of a floating IP changed, it reports the status that
an L3 agent would report, by the very call that the agent's report ends in. How long after is read
from $CIV_STAND_IN each time: {"delay": SECONDS}, or {"delay": null} for never.
"""

import heapq
import json
import os
import threading
import time

from neutron import policy
from neutron_lib import constants, context, exceptions
from neutron_lib.api.definitions import portbindings
from neutron_lib.callbacks import events, registry, resources
from neutron_lib.exceptions import l3 as l3_exceptions
from neutron_lib.plugins import constants as plugins
from neutron_lib.plugins import directory
from neutron_lib.plugins.ml2 import api as ml2
from neutron_lib.services import base
from oslo_log import log
import sqlalchemy
from sqlalchemy import event as sql_event

LOG = log.getLogger(__name__)
TRIES = 5


@sql_event.listens_for(sqlalchemy.engine.Engine, "before_cursor_execute", retval=True)
def write_from_the_start(connection, _cursor, statement, parameters, _context, _many):
    """SQLite lets no reader become a writer while another one writes, so all begin as writers."""
    if connection.dialect.name == "sqlite" and statement.strip().upper() == "BEGIN":
        statement = "BEGIN IMMEDIATE"
    return statement, parameters


class BindAll(ml2.MechanismDriver):
    def initialize(self):
        pass

    def bind_port(self, context):
        segment = next(iter(context.segments_to_bind), None)
        if segment is not None:
            context.set_binding(
                segment[ml2.ID],
                portbindings.VIF_TYPE_OVS,
                {portbindings.CAP_PORT_FILTER: True},
                status=constants.PORT_STATUS_ACTIVE,
            )


@registry.has_registry_receivers
class StatusReporter(base.ServicePluginBase):
    supported_extension_aliases = []

    def __init__(self):
        super().__init__()
        # A server that loads its policies while it answers refuses some requests with a wrong 403.
        policy.init()
        self.due = []
        self.changed = threading.Condition()
        self.thread = None

    def get_plugin_type(self):
        return "floating-ip-status"

    def get_plugin_description(self):
        return "Reports the status of floating IPs in place of agents"

    @registry.receives(resources.FLOATING_IP, [events.AFTER_CREATE, events.AFTER_UPDATE])
    def noted(self, _resource, event, _trigger, payload):
        now = payload.latest_state
        before = payload.states[0].get("port_id") if event == events.AFTER_UPDATE else None
        delay = self.delay()
        if delay is None or now["port_id"] == before:
            return
        with self.changed:
            heapq.heappush(self.due, (time.monotonic() + delay, 0, now["id"]))
            # Begun here, not in __init__: threads do not outlive the server's fork.
            if self.thread is None:
                self.thread = threading.Thread(target=self.report_for_ever, daemon=True)
                self.thread.start()
            self.changed.notify()

    @staticmethod
    def delay():
        with open(os.environ["CIV_STAND_IN"], encoding="utf-8") as file:
            return json.load(file)["delay"]

    def report_for_ever(self):
        while True:
            with self.changed:
                while not self.due or self.due[0][0] > time.monotonic():
                    left = self.due[0][0] - time.monotonic() if self.due else None
                    self.changed.wait(left)
                _, tries, fip_id = heapq.heappop(self.due)
            try:
                self.report(fip_id)
            except l3_exceptions.FloatingIPNotFound:
                pass
            except (exceptions.NeutronException, sqlalchemy.exc.SQLAlchemyError):
                LOG.exception("the status of %s could not be set", fip_id)
                if tries < TRIES:
                    with self.changed:
                        heapq.heappush(self.due, (time.monotonic() + 0.3, tries + 1, fip_id))

    @staticmethod
    def report(fip_id):
        router = directory.get_plugin(plugins.L3)
        admin = context.get_admin_context()
        fip = router.get_floatingip(admin, fip_id)
        status = "ACTIVE" if fip["port_id"] else "DOWN"
        if fip["status"] != status:
            router.update_floatingip_status(admin, fip_id, status)
