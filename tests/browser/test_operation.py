"""Pages for administrators: audit log, history, status, moderation, users."""

import base64
import json
import re
import threading
import unittest
import urllib.request
from urllib.parse import parse_qs, urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from support import ADMIN, BASE, NARROW, BrowserTest, name, png, registry, send, user, wait_until

BUSY = {"type": "about:blank", "title": "Too many requests", "status": 429, "error": "too_many_requests", "detail": "Ask less often."}


CHARTS = ["Jobs", "Job duration", "Failed jobs by code", "Queues", "Vendor circuits", "Jobs at vendors", "Webhook deliveries",
          "Requests", "Request latency", "Storage", "Memory", "Log position"]


def history(minutes, template):
    """A history with the columns of the service: busy, then a stop of a quarter of the time, then idle. No job ends in the first hour."""
    stop, restart = minutes // 2, minutes * 3 // 4
    known = lambda values: [None if stop <= at < restart else values(at) for at in range(minutes)]
    busy = lambda value: known(lambda at: value if at < stop else 0)
    values = {
        "tasks_submitted": busy(4), "task_duration_p50": known(lambda at: None if at < 60 else 0.25), "storage_free": known(lambda at: 3 << 30),
        "log_position": known(lambda at: 20_000 + at),
    }
    failures = {"engine_failed": busy(2), "vendor_lost": busy(1)}
    columns = [{**column, "values": failures.get(column.get("label")) or values.get(column["name"]) or known(lambda at: 0)} for column in template["columns"]]
    for column in columns:
        if column["name"] == "task_duration_p95":
            column["values"] = values["task_duration_p50"]
    circuits = [{**circuit, "values": known(lambda at: "open" if at < 5 else "closed")} for circuit in template["circuits"]]
    return {**template, "from": "2026-02-01T00:01:00.000000Z", "columns": columns, "circuits": circuits}


def query_of(route):
    return {name: values[0] for name, values in parse_qs(urlsplit(route.request.url).query).items()}


def refuse(route):
    route.fulfill(status=429, content_type="application/problem+json", body=json.dumps(BUSY))


class Log:
    """Mocked log with many events of one resource."""

    def __init__(self, head):
        self.head, self.refuses = head, False

    def answer(self, route):
        query = query_of(route)
        if self.refuses and "to" in query:
            return refuse(route)
        first = max(int(query.get("after", 0)) + 1, int(query.get("from", 1)))
        last = min(int(query.get("to", self.head)), self.head)
        positions = range(first, min(last, first + int(query["limit"]) - 1) + 1)
        answer = {"events": [self.event(position) for position in positions], "head": self.head}
        return route.fulfill(json={**answer, "next": positions[-1]} if positions and positions[-1] < last else answer)

    def event(self, position):
        return {"id": str(position), "position": position, "at": "2026-01-01T00:00:00.000000Z", "actor": "system",
                "stream": "node/busy", "type": "DownloadsCounted", "version": position, "schema": 1, "data": {}}


class LogOfTokens(Log):
    """Mocked log of many issued tokens, each by one of a few older tokens; lookups are recorded."""

    def __init__(self, head, actors):
        super().__init__(head)
        self.actors, self.lookups = actors, []

    def answer(self, route):
        return self.lookups.append(route) if query_of(route).get("type") == "TokenIssued" else super().answer(route)

    def lookup(self, page):
        wait_until(lambda: page.wait_for_timeout(20) or self.lookups)
        return self.lookups.pop(0)

    def answer_lookup(self, route):
        route.fulfill(json={"events": [self.issued(query_of(route)["stream"], 1)], "head": self.head})

    def event(self, position):
        return {**self.issued(f"token/{position}", position), "actor": self.actors[position % len(self.actors)]}

    def issued(self, stream, position):
        return {**super().event(position), "stream": stream, "type": "TokenIssued", "data": {"name": f"The {stream}"}}


class Audit(BrowserTest):
    def test_the_timeline_is_newest_first_and_filterable(self):
        publisher, (node,) = registry()
        page = self.page("/audit", token=ADMIN)
        expect(page.locator(".event").first).to_be_visible()
        positions = [int(text[1:].replace(",", "")) for text in page.locator(".event .position").all_inner_texts()]
        self.assertEqual(positions, sorted(positions, reverse=True))

        page.get_by_label("Resource").fill(f"node/{node}")
        page.get_by_role("button", name="Filter").click()
        expect(page.locator(".event").last).to_contain_text("Node created")
        page.get_by_label("Type").select_option("VersionPublished")
        expect(page.locator(".event")).to_have_count(1)
        page.reload()
        expect(page.locator(".event")).to_have_count(1)
        page.locator(".event summary").click()
        expect(page.locator(".event pre")).to_contain_text("1.0.0")
        page.locator(".event .inside").get_by_role("link", name=f"node/{node}").click()
        expect(page.get_by_role("heading", name=f"node/{node}")).to_be_visible()

    def test_a_long_history_is_complete(self):
        # Given more events than fit on the page, of one resource and of all
        log = Log(4500)
        page = self.page("/nodes", token=ADMIN, allowed=(429,))
        page.route(re.compile("/admin/events[?]"), log.answer)
        shown = lambda: [int(text[1:].replace(",", "")) for text in page.locator(".event .position").all_inner_texts()]
        older = page.get_by_role("button", name="Older events")
        for path in ("/audit?stream=node/busy", "/audit?from=1", "/audit"):
            self.show(page, path)
            expect(older).to_be_visible()
            # When loading more fails once, then the error is shown until a retry succeeds
            log.refuses = True
            older.click()
            expect(page.get_by_role("alert")).to_contain_text("Ask less often.")
            log.refuses = False
            while older.count():
                before = len(shown())
                older.click()
                self.until(page, f"document.querySelectorAll('.event').length > {before}")
            # Then every event is shown, newest first
            self.assertEqual(shown(), list(range(log.head, 0, -1)), path)
            expect(page.get_by_role("alert")).to_have_count(0)

    def test_actors_and_resources_are_named(self):
        # Given two users whose ids begin alike, and many changes of a publisher by one of them
        ada, publisher = user(name("Ada")), name("names")
        send("POST", "/publishers", {"id": publisher, "name": "Nameable"}, token=ada["token"])
        for number in range(5):
            send("PUT", f"/publishers/{publisher}", {"description": f"The {number}."}, token=ada["token"])
        page = self.page("/nodes", token=ADMIN)
        asked_for = []
        page.on("request", lambda request: asked_for.append(request.url) if re.search("(user|publisher|node)_id=", request.url) else None)
        # When the log is opened
        self.show(page, f"/audit?stream=publisher/{publisher}")
        events = page.locator(".event")
        expect(events).to_have_count(6)
        # Then names are shown beside the ids, with one lookup per kind
        for event in events.all():
            expect(event.locator(".name")).to_have_text(["Nameable", ada["name"]])
            expect(event.locator("summary")).to_contain_text(f"…{ada['id'][-6:]}")
        self.assertEqual(len(asked_for), 2)
        # And the resource is named too
        page.locator(".event summary").first.click()
        page.locator(".event .inside").get_by_role("link", name=re.compile(ada["name"])).click()
        expect(page.locator(".lead")).to_contain_text(ada["name"])

    def test_token_names_come_from_the_log_and_only_actors_are_looked_up(self):
        # Given a log of many tokens that were issued by two others
        log = LogOfTokens(30, ["token/first", "token/second"])
        page = self.page("/nodes", token=ADMIN, allowed=(429,))
        page.route("**/admin/events?*", log.answer)
        self.show(page, "/audit")
        # When only the lookup of the first one fails
        refuse(log.lookup(page))
        log.answer_lookup(log.lookup(page))
        # Then the others are named without a lookup
        by_second = lambda position: ["The token/second"] if position % 2 else []
        names = [name for position in range(30, 0, -1) for name in [f"The token/{position}", *by_second(position)]]
        expect(page.locator(".event .name")).to_have_text(names)
        self.assertEqual(log.lookups, [])

    def test_lookups_stop_when_the_user_changes(self):
        # Given a pending lookup during a change of user
        log, bob = LogOfTokens(30, ["token/first", "token/second"]), user(name("Bob"))
        page = self.page("/nodes", token=ADMIN)
        page.route("**/admin/events?*", log.answer)
        self.show(page, "/audit")
        lookup = log.lookup(page)
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("button", name="Sign in", exact=True).first.click()
        page.get_by_label("Token", exact=True).fill(bob["token"])
        page.keyboard.press("Enter")
        expect(page.locator(".who")).to_contain_text(bob["name"])
        # When it completes, then no further lookup is sent
        with page.expect_event("requestfinished", lambda request: request == lookup.request):
            log.answer_lookup(lookup)
        self.show(page, "/nodes")
        self.assertEqual(log.lookups, [])

    def test_an_unknown_kind_is_not_found(self):
        for kind in ("constructor", "nothing"):
            page = self.page(f"/audit/{kind}/x", token=ADMIN, allowed=(404,))
            expect(page.get_by_text("not found").first).to_be_visible()

    def test_idempotency_keys_are_shown_on_request(self):
        publisher = name("keys")
        request = urllib.request.Request(f"{BASE}/publishers", method="POST", data=json.dumps({"id": publisher, "name": "Keys"}).encode(),
                                         headers={"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json", "Idempotency-Key": publisher})
        urllib.request.urlopen(request).close()
        claims = lambda: page.locator(".event, .history > li").filter(has_text="Key claimed")
        for path in (f"/audit?stream=publisher/{publisher}", f"/audit/publisher/{publisher}"):
            # Given a change with an idempotency key
            page = self.page(path, token=ADMIN)
            expect(page.locator(".event, .history > li").first).to_be_visible()
            expect(claims()).to_have_count(0)
            # When the switch is turned on by keyboard, then the events are shown, also after a reload
            switch = page.get_by_label("Show idempotency keys")
            switch.focus()
            page.keyboard.press("Space")
            expect(claims()).to_have_count(1)
            expect(switch).to_be_focused()
            page.reload()
            expect(claims()).to_have_count(1)
            page.get_by_label("Show idempotency keys").uncheck()
            expect(claims()).to_have_count(0)
        # A filter for that type always shows it
        self.show(page, f"/audit?stream=publisher/{publisher}&type=KeyClaimed")
        expect(claims()).to_have_count(1)

    def test_filters_keep_typed_text_and_focus(self):
        page = self.page("/audit", token=ADMIN)
        who, type_ = page.get_by_label("Actor"), page.get_by_label("Type")
        who.fill("system")
        expect(type_.locator("option").nth(2)).to_be_attached()
        type_.focus()
        for times in (1, 2):
            page.keyboard.press("ArrowDown")
            chosen = type_.evaluate("(it, at) => it.options[at].value", times)
            self.until(page, f"location.hash.endsWith('type={chosen}')")
            self.settle(page)
            expect(type_).to_be_focused()
            expect(type_).to_have_value(chosen)
        expect(who).to_have_value("system")
        self.assertNotIn("actor", page.url)
        # A changed URL replaces the typed text.
        self.show(page, "/audit?actor=system&from=3")
        expect(page.get_by_label("From")).to_have_value("3")
        self.show(page, "/audit")
        expect(who).to_have_value("")

    def test_the_log_is_filtered_by_position_and_date(self):
        registry()
        # With idempotency keys, because the first events may be of any type.
        page = self.page("/audit?from=2&to=3&idempotency_keys=true", token=ADMIN)
        expect(page.locator(".event .position")).to_have_text(["#3", "#2"])
        page.get_by_label("From").fill("3")
        page.get_by_label("To", exact=True).fill("3")
        page.keyboard.press("Enter")
        expect(page.locator(".event .position")).to_have_text(["#3"])
        self.show(page, "/audit?to=2001-01-01")
        expect(page.get_by_role("heading", name="No matching events")).to_be_visible()
        self.show(page, "/audit?from=2001-01-01&stream=publisher/")
        expect(page.locator(".event").first).to_be_visible()

    def test_an_invalid_filter_shows_only_its_error(self):
        page = self.page("/audit", token=ADMIN, allowed=(400,))
        expect(page.locator(".event").first).to_be_visible()
        page.get_by_label("Actor").fill("nobody")
        page.get_by_role("button", name="Filter").click()
        expect(page.get_by_role("alert")).to_contain_text("Actor must be system")
        expect(page.get_by_role("alert").get_by_role("listitem")).to_have_count(0)
        expect(page.locator(".event, .empty")).to_have_count(0)

    def test_new_events_arrive_live(self):
        page = self.page("/audit?stream=publisher/", token=ADMIN)
        page.get_by_role("button", name="Follow live").click()
        expect(page.locator(".pulse.live")).to_be_visible()
        publisher = name("live")
        send("POST", "/publishers", {"id": publisher, "name": "Live"})
        fresh = page.locator(".event.fresh").filter(has_text=publisher)
        expect(fresh.first).to_be_visible()
        # Shown events stay, and missed ones arrive when live mode is turned on again.
        page.get_by_role("button", name="Live").click()
        expect(page.locator(".pulse.live")).to_have_count(0)
        before = fresh.count()
        self.assertGreater(before, 0)
        later = name("later")
        send("POST", "/publishers", {"id": later, "name": "Later"})
        page.get_by_role("button", name="Follow live").click()
        expect(page.locator(".event.fresh").filter(has_text=later).first).to_be_visible()
        expect(fresh).to_have_count(before)

    def test_live_mode_ends_at_the_end_of_the_range(self):
        head = send("GET", "/admin/events?limit=1")["head"]
        page = self.page(f"/audit?stream=publisher/&to={head}", token=ADMIN)
        page.get_by_role("button", name="Follow live").click()
        expect(page.get_by_text("No more events")).to_be_visible()
        expect(page.get_by_role("button", name="Follow live")).to_be_visible()

    def test_a_resource_at_a_point_in_time_and_its_changes(self):
        publisher, (node,) = registry(description="Before.")
        send("PUT", f"/publishers/{publisher}/nodes/{node}", {"description": "After."})
        page = self.page(f"/audit/node/{node}", token=ADMIN)
        change = page.locator(".history > li").last
        expect(change.locator("dt")).to_have_text("/description")
        expect(change.locator("del")).to_contain_text("Before.")
        expect(change.locator("ins")).to_contain_text("After.")
        page.get_by_role("button", name=re.compile("As of")).first.click()
        expect(page.locator(".as-of pre")).to_contain_text('"description": "Before."')
        page.get_by_role("button", name=re.compile("As of")).last.click()
        expect(page.locator(".as-of pre")).to_contain_text('"description": "After."')
        page.get_by_label("Time (UTC)").fill("2001-01-01T00:00")
        expect(page.locator(".as-of")).to_contain_text("Did not exist")


class Operation(BrowserTest):
    def test_the_state_of_the_service(self):
        page = self.page("/state", token=ADMIN)
        expect(page.locator(".gauge").first).to_contain_text("Ready")
        head = send("GET", "/admin/state")["log"]["head"]
        expect(page.locator(".gauge").nth(1)).to_contain_text(re.compile(r"\d"))
        self.assertGreater(head, 0)
        for vendor in send("GET", "/admin/state")["vendors"]:
            expect(page.locator(".vendors").get_by_text(vendor["name"], exact=True)).to_be_visible()
        # The log was created by this start, so nothing was verified.
        self.assertEqual(send("GET", "/admin/state")["verification"]["until"], 0)
        expect(page.locator(".gauge").filter(has_text="Verification")).to_contain_text("Not verified yet")
        page.get_by_role("button", name="Create checkpoint").click()
        expect(page.locator("pre")).to_contain_text('"signature"')

    def test_circuits_queues_and_storage_are_shown(self):
        page = self.page("/nodes", token=ADMIN)
        answer = send("GET", "/admin/state")
        answer["vendors"] = [{**answer["vendors"][0], "name": state, "circuit": state} for state in ("closed", "open", "half_open")]
        answer["queues"] = {"appends": 3, "tasks": 1234, "deliveries": 56}
        answer["storage"] = {**answer["storage"], "state": "read_only", "reason": "the disk is nearly full"}
        page.route("**/admin/state", lambda route: route.fulfill(json=answer))
        self.show(page, "/state")
        vendors = page.locator(".panel").filter(has_text="Vendors").get_by_role("listitem")
        expect(vendors.locator(".state")).to_have_text(["In service", "Paused", "Trial call"])
        expect(vendors.get_by_role("link", name="Undelivered submissions")).to_have_count(2)
        expect(page.locator(".ledger dd")).to_have_text(["3", "1,234", "56"])
        storage = page.locator(".gauge").filter(has_text="Storage")
        expect(storage).to_contain_text("Read only")
        expect(storage).to_contain_text("the disk is nearly full")
        answer["storage"] = {"state": "ok", "free_bytes": 3 * 2**30, "reserve_bytes": 2**20}
        expect(storage).to_contain_text("3.0 GiB")
        expect(storage).to_contain_text("below 1.0 MiB")

    def test_an_unresponsive_service_is_not_ready_and_slow_responses_are_used(self):
        page = self.page("/nodes", token=ADMIN, allowed=("ERR_FAILED",))
        answer = send("GET", "/admin/state")
        # Given responses slower than the refresh interval, on a controlled clock
        page.clock.install()
        waiting = []
        page.route("**/admin/state", lambda route: waiting.append(route))
        page.evaluate("location.hash = '/state'")
        service = page.locator(".gauge").first
        page.get_by_role("heading", name="Status").wait_for()
        for _ in range(4):
            page.clock.run_for(3000)
        self.assertEqual(len(waiting), 1)
        waiting.pop().fulfill(json=answer)
        expect(service).to_contain_text("Ready")
        # When the service stops responding, then the page says so
        page.unroute("**/admin/state")
        for path in ("**/admin/state", "**/ready"):
            page.route(path, lambda route: route.abort())
        page.clock.run_for(3000)
        expect(service).to_contain_text("No response")
        expect(page.get_by_role("alert")).to_contain_text("The service does not respond.")

    def test_a_failed_task_stream_shows_its_error(self):
        page = self.page("/nodes", token=ADMIN, allowed=(503,))
        refusal = {"type": "about:blank", "title": "The service is stopping", "status": 503, "error": "stopping", "detail": "Come back soon."}
        page.route("**/tasks/*/events", lambda route: route.fulfill(status=503, content_type="application/problem+json", body=json.dumps(refusal)))
        page.evaluate("location.hash = '/tasks/00000000-0000-4000-8000-00000000000a'")
        expect(page.get_by_role("alert")).to_contain_text("Come back soon.")
        expect(page.get_by_text("Retrying")).to_be_visible()

    def test_loading_more_tasks_continues_after_new_ones(self):
        # Given two pages of tasks, one of which is running
        page = self.page("/nodes", token=ADMIN, allowed=(429,))
        page.clock.install()
        task = lambda at: {"task_id": f"00000000-0000-4000-8000-{at:012d}", "kind": "image-upscaler", "state": "COMPLETED", "generated": [], "history": [],
                           "progress": 1, "cost": 1, "created_at": f"2026-01-01T00:00:{at:02d}Z", "updated_at": f"2026-01-01T00:00:{at:02d}Z"}
        tasks = [task(at) for at in range(40, 0, -1)]
        tasks[30]["state"] = tasks[0]["state"] = "IN_PROGRESS"
        refusing = threading.Event()

        def answer(route):
            query = query_of(route)
            if refusing.is_set():
                return refuse(route)
            first = next(at for at, it in enumerate(tasks) if it["task_id"] == query["cursor"]) + 1 if "cursor" in query else 0
            listed = tasks[first:first + int(query["limit"])]
            more = {"next_cursor": listed[-1]["task_id"]} if first + len(listed) < len(tasks) else {}
            return route.fulfill(json={"tasks": listed, **more})

        page.route(re.compile("/tasks[?]"), answer)
        page.evaluate("location.hash = '/tasks'")
        rows, older = page.locator(".tasks tbody tr"), page.get_by_role("button", name="Older tasks")
        expect(rows).to_have_count(25)
        # When loading more fails, then the error is shown and can be retried
        refusing.set()
        older.click()
        expect(page.get_by_role("alert")).to_contain_text("Ask less often.")
        refusing.clear()
        older.click()
        expect(rows).to_have_count(40)
        expect(page.get_by_role("alert")).to_have_count(0)
        # And when tasks are submitted and end, then every task is listed with its current state
        tasks[30]["state"] = "COMPLETED"
        tasks[:0] = [task(at) for at in range(59, 40, -1)]
        page.clock.run_for(4000)
        expect(rows.first).to_contain_text(tasks[0]["task_id"])
        self.assertEqual([row.split()[0] for row in page.locator(".tasks .id").all_inner_texts()], [it["task_id"] for it in tasks])
        expect(rows.get_by_role("progressbar")).to_have_count(1)

    def test_administrators_see_owners_and_unified_states(self):
        # Given a picture and a video of two users
        ada, eve = user(name("Ada")), user(name("Eve"))
        upscale = {"image": base64.b64encode(png(8, 8)).decode()}
        picture = send("POST", "/proxy/imagevendor/v1/ai/image-upscaler", upscale, token=ada["token"])["data"]["task_id"]
        video = send("POST", "/proxy/videovendor/start-end2video", {"prompt": "rain", "duration": 1, "resolution": "360p"}, token=eve["token"])["task_id"]
        for task, token in ((picture, ada["token"]), (video, eve["token"])):
            wait_until(lambda: send("GET", f"/tasks/{task}", token=token)["state"] in ("COMPLETED", "success"))
        page = self.page("/tasks", token=ADMIN)
        # Then each has its owner, and equal outcomes have one name
        for task, owner, job in ((picture, ada, "Upscale an image"), (video, eve, "Make a video from a start frame")):
            row = page.get_by_role("row").filter(has_text=task)
            expect(row).to_contain_text(owner["name"])
            expect(row).to_contain_text(job)
            expect(row.locator(".state")).to_have_text("Completed")
        states = page.get_by_label("State")
        expect(states.locator("option")).to_have_text(["All", "Created", "In progress", "Completed", "Failed", "Queueing"])
        states.select_option(label="Completed")
        for task in (picture, video):
            expect(page.get_by_role("row").filter(has_text=task)).to_be_visible()
        # Either name in the URL selects the same option
        self.show(page, "/tasks?state=success")
        self.assertEqual(states.evaluate("it => it.selectedOptions[0].label"), "Completed")
        expect(page.get_by_label("Kind").locator("option")).to_contain_text(["All", "Upscale an image"])
        # And other users do not see owners
        page = self.page("/tasks", token=ada["token"])
        expect(page.get_by_role("row").filter(has_text=picture)).to_be_visible()
        expect(page.get_by_role("columnheader", name="Owner")).to_have_count(0)

    def test_only_verified_parts_are_called_verified(self):
        page = self.page("/nodes", token=ADMIN)
        answer = send("GET", "/admin/state")
        page.route("**/admin/state", lambda route: route.fulfill(json=answer))
        gauge = page.locator(".gauge").filter(has_text="Verification")
        for verification, expected in [
            ({"state": "checking", "position": 0}, "Not verified yet"),
            ({"state": "checking", "position": 45}, "50 % verified"),
            ({"state": "damaged", "position": 45, "reason": "damage at offset 512"}, "damage at offset 512"),
            ({"state": "sound", "position": 90}, "up to position 90"),
        ]:
            answer["verification"] = {"until": 90, "since": "2026-02-01T09:00:00.000000Z", **verification}
            # The page refreshes every few seconds.
            self.show(page, "/state")
            expect(gauge).to_contain_text(expected)
            self.assertEqual("Verified" in gauge.inner_text(), verification["state"] == "sound")

    def history_page(self, **options):
        """The status page with a history of the requested length."""
        answer = send("GET", "/admin/state/history?minutes=1")
        page = self.page("/nodes", token=ADMIN, **options)
        page.route("**/admin/state/history?*", lambda route: route.fulfill(json=history(int(query_of(route)["minutes"]), answer)))
        self.show(page, "/state")
        return page

    def chart(self, page, title):
        return page.locator(".chart").filter(has=page.get_by_text(title, exact=True))

    def test_the_history_has_charts_with_tables(self):
        page = self.history_page()
        expect(page.locator(".chart figcaption strong").first).to_be_visible()
        titles = page.locator(".chart figcaption > strong").all_inner_texts()
        self.assertEqual(titles, CHARTS)
        # Each chart has a drawing with axis labels, and a row of the table for each point
        for title in CHARTS:
            chart = self.chart(page, title)
            expect(chart.get_by_role("img")).to_be_visible()
            self.assertIn("Time (UTC)", chart.locator("svg").text_content(), title)
            self.assertEqual(chart.locator("tbody tr").count(), 96, title)
            # And the time of the stop is one gap
            gaps = 3 if title == "Vendor circuits" else 1
            self.assertEqual(chart.locator("svg .gap").count(), gaps, title)
        # The unit, the last value, the whole course, and the values of the table
        jobs = self.chart(page, "Jobs")
        expect(jobs.locator("svg")).to_contain_text("jobs a minute")
        expect(page.get_by_text("Each point covers 15 minutes")).to_be_visible()
        expect(jobs.locator(".legend > span").first).to_have_text("Submitted 0")
        self.assertIn("Submitted: at most 4", jobs.locator("desc").text_content())
        self.assertEqual(jobs.locator("polyline").count(), 8, "each line is interrupted once")
        jobs.get_by_text("Table", exact=True).click()
        self.assertEqual(jobs.locator("tbody tr").nth(0).inner_text().split("\t"), ["2026-02-01 23:45", "0", "0", "0", "0"])
        self.assertEqual(jobs.locator("tbody tr").nth(30).inner_text().split("\t"), ["2026-02-01 16:15", "–", "–", "–", "–"])
        self.assertEqual(jobs.locator("tbody tr").nth(95).inner_text().split("\t"), ["2026-02-01 00:00", "4", "0", "0", "0"])
        # Only codes that occurred are shown, with the sum of their failures
        expect(self.chart(page, "Failed jobs by code").locator(".legend > span")).to_have_text(["Engine failed 0", "Vendor lost 0"])
        expect(self.chart(page, "Failed jobs by code").locator("tbody tr").last).to_contain_text("30")
        expect(self.chart(page, "Job duration").locator(".legend > span").first).to_have_text("Median 250 ms")
        expect(self.chart(page, "Storage").locator(".legend > span").first).to_have_text("Free 3.0 GiB")
        # The worst state of a point is shown
        expect(self.chart(page, "Vendor circuits").locator("tbody tr").last.locator("td").first).to_have_text("Paused")
        # A shorter period has finer points
        page.get_by_label("1 hour").check()
        expect(self.chart(page, "Jobs").locator("tbody tr")).to_have_count(60)
        self.assertIn("hours=1", page.url)

    def test_the_history_fits_on_a_phone_and_is_readable_in_the_dark(self):
        page = self.history_page(size=NARROW, theme="dark", bypass_csp=True)
        expect(page.locator(".chart")).to_have_count(len(CHARTS))
        self.assertFalse(page.evaluate("document.documentElement.scrollWidth > innerWidth"))
        # Labels of the axes do not leave the drawing
        outside = page.evaluate("""[...document.querySelectorAll('.chart svg')].flatMap((svg) => {
            const frame = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('text')].filter((text) => text.getBoundingClientRect().left < frame.left - 1 || text.getBoundingClientRect().right > frame.right + 2)
                .map((text) => text.textContent);
        })""")
        self.assertEqual(outside, [])
        page.evaluate("document.querySelectorAll('main details').forEach(it => { it.open = true })")
        found = Axe().run(page).response["violations"]
        self.assertEqual([(it["id"], it["nodes"][0]["target"]) for it in found if it["impact"] in ("serious", "critical")], [])

    def test_a_service_without_samples_says_so(self):
        answer = send("GET", "/admin/state/history?minutes=60")
        for column in answer["columns"]:
            column["values"] = [None] * 60
        page = self.page("/nodes", token=ADMIN)
        page.route("**/admin/state/history?*", lambda route: route.fulfill(json=answer))
        self.show(page, "/state?hours=1")
        expect(page.get_by_text("No values in this period yet.")).to_be_visible()
        expect(page.locator(".chart")).to_have_count(0)

    def test_a_version_is_flagged_and_approved(self):
        publisher, (node,) = registry()
        send("PUT", f"/admin/nodes/{node}/versions/1.0.0", {"status": "NodeVersionStatusFlagged", "status_reason": "Looks odd."})
        page = self.page("/moderation", token=ADMIN)
        entry = page.locator(".release").filter(has_text=node)
        expect(entry).to_contain_text("Looks odd.")
        entry.get_by_role("button", name="Approve").click()
        page.get_by_label("Reason").fill("Looked at.")
        page.get_by_role("dialog").get_by_role("button", name="Approve").click()
        expect(entry).to_have_count(0)
        self.assertEqual(send("GET", f"/nodes/{node}/versions/1.0.0")["status"], "NodeVersionStatusActive")

    def test_approving_a_version_without_an_archive_warns(self):
        # Given a version with an archive and one without
        publisher, (node,) = registry()
        send("PUT", f"/admin/nodes/{node}/versions/1.0.0", {"status": "NodeVersionStatusFlagged", "status_reason": "Looks odd."})
        send("POST", f"/publishers/{publisher}/nodes/{node}/versions", {"node_version": {"version": "2.0.0"}})
        page = self.page("/moderation", token=ADMIN)
        dialog = page.get_by_role("dialog")
        for version, has_warning in (("1.0.0", False), ("2.0.0", True)):
            entry = page.locator(".release").filter(has=page.get_by_role("heading", name=f"{node} {version}"))
            entry.get_by_role("button", name="Approve").click()
            expect(dialog).to_contain_text("Its status becomes Active.")
            self.assertEqual("It has no archive" in dialog.inner_text(), has_warning)
            dialog.get_by_role("button", name="Cancel").click()
        # And a ban shows no such warning
        entry.get_by_role("button", name="Ban").click()
        expect(dialog).to_contain_text("Its status becomes Banned.")
        expect(dialog).not_to_contain_text("It has no archive")

    def test_banning_needs_a_reason_and_can_be_taken_back(self):
        _, (node,) = registry()
        page = self.page(f"/nodes/{node}", token=ADMIN)
        page.get_by_role("button", name="Ban").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("button", name="Ban", exact=True)).to_be_disabled()
        dialog.get_by_label("Reason").fill("Mines coins.")
        dialog.get_by_role("button", name="Ban", exact=True).click()
        expect(page.locator(".trouble")).to_contain_text("Mines coins.")
        page.get_by_role("button", name="Unban").click()
        page.get_by_label("Reason").fill("It did not.")
        page.get_by_role("dialog").get_by_role("button", name="Unban").click()
        expect(page.locator(".trouble")).to_have_count(0)
        self.assertEqual(send("GET", f"/nodes/{node}")["status"], "NodeStatusActive")

    def test_publishers_and_users_are_banned_on_their_pages(self):
        publisher, _ = registry()
        page = self.page(f"/publishers/{publisher}", token=ADMIN)
        dialog = page.get_by_role("dialog")
        page.get_by_role("button", name="Ban", exact=True).click()
        dialog.get_by_label("Reason").fill("Copies of others.")
        dialog.get_by_role("button", name="Ban", exact=True).click()
        expect(page.locator(".trouble")).to_contain_text("Copies of others.")
        self.assertEqual(send("GET", f"/publishers/{publisher}")["status"], "PublisherStatusBanned")
        page.get_by_role("button", name="Unban").click()
        dialog.get_by_label("Reason").fill("Cleared up.")
        dialog.get_by_role("button", name="Unban").click()
        expect(page.locator(".trouble")).to_have_count(0)

        finn = user(name("Finn"))
        users = [user["id"] for user in send("GET", "/admin/users?limit=1000")["users"]]
        self.show(page, f"/users?page={users.index(finn['id']) // 25 + 1}")
        row = page.get_by_role("row").filter(has_text=finn["id"])
        row.get_by_role("button", name="Ban", exact=True).click()
        dialog.get_by_label("Reason").fill("Spam.")
        dialog.get_by_role("button", name="Ban", exact=True).click()
        expect(row).to_contain_text("Spam.")
        claim = lambda: send("POST", "/publishers", {"id": name("claim"), "name": "Finn's"}, token=finn["token"])
        with self.assertRaisesRegex(AssertionError, "403"):
            claim()
        row.get_by_role("button", name="Unban").click()
        dialog.get_by_label("Reason").fill("A mistake.")
        dialog.get_by_role("button", name="Unban").click()
        expect(row.get_by_role("button", name="Ban", exact=True)).to_be_visible()
        claim()

    def test_self_and_first_administrator_cannot_be_banned(self):
        boss = user(name("Boss"), isAdmin=True)
        users = [user["id"] for user in send("GET", "/admin/users?limit=1000")["users"]]
        page = self.page("/users", token=boss["token"])
        for spared in (boss["id"], send("GET", "/users")["id"]):
            self.show(page, f"/users?page={users.index(spared) // 25 + 1}")
            row = page.get_by_role("row").filter(has_text=spared)
            expect(row.get_by_role("button", name="Tokens")).to_be_visible()
            expect(row.get_by_role("button", name="Ban")).to_have_count(0)

    def test_users_and_tokens_are_created(self):
        page = self.page("/users", token=ADMIN)
        who = name("Cleo")
        page.get_by_role("button", name="Create user").click()
        page.get_by_role("textbox", name=re.compile("^Name")).fill(who)
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        users = [user["name"] for user in send("GET", "/admin/users?limit=1000")["users"] if "name" in user]
        self.show(page, f"/users?page={users.index(who) // 25 + 1}")
        row = page.get_by_role("row").filter(has_text=who)
        row.get_by_role("button", name="Tokens").click()
        page.get_by_role("button", name="Create token").click()
        page.get_by_role("textbox", name=re.compile("^Name")).fill("laptop")
        page.get_by_role("button", name="Create", exact=True).click()
        token = page.locator(".secret").inner_text()
        self.assertEqual(send("GET", "/users", token=token)["name"], who)

    def test_unnamed_users_are_shown_by_email_or_id(self):
        known, bare = send("POST", "/admin/users", {"email": "eve@example.org"}), send("POST", "/admin/users", {})
        users = [user["id"] for user in send("GET", "/admin/users?limit=1000")["users"]]
        page = self.page("/users", token=ADMIN)
        for user, called in ((known, "eve@example.org"), (bare, f"User …{bare['id'][-6:]}")):
            self.show(page, f"/users?page={users.index(user['id']) // 25 + 1}")
            row = page.get_by_role("row").filter(has_text=user["id"])
            expect(row.locator("strong")).to_have_text(called)

    def test_admin_pages_are_hidden_from_others(self):
        page = self.page("/audit", token=user("Dora")["token"])
        expect(page.get_by_role("heading", name="Administrators only").first).to_be_visible()
        expect(page.get_by_role("link", name="Audit log")).to_have_count(0)


if __name__ == "__main__":
    unittest.main()
