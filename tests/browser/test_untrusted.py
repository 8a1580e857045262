"""Untrusted text is never executed: payloads in every field of every resource, with the content security policy
switched off, so that the pages themselves are tested."""

import json
import re
import unittest
import uuid
from types import MappingProxyType

from playwright.sync_api import expect

from support import ADMIN, BrowserTest, Receiver, archive, document, name, send, wait_until

PAYLOADS = [
    "<script>window.ran=1</script>",
    "<img src=x onerror=window.ran=1>",
    "<svg/onload=window.ran=1>",
    "\"><img src=x onerror=alert(1)>",
    "'-window.ran=1-'",
    "javascript:window.ran=1",
    "<iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
    "<a href=javascript:window.ran=1 autofocus onfocus=window.ran=1>x</a>",
    "</textarea></style></title><script>window.ran=1</script>",
    "<details open ontoggle=window.ran=1>",
    "[x](javascript:window.ran=1) `<b onclick=window.ran=1>`",
    "${window.ran=1}{{constructor.constructor('window.ran=1')()}}<math><mtext><style><img src onerror=window.ran=1>",
]
# URLs must begin with http(s); the rest is arbitrary.
ADDRESS = "https://x.example/"


FORM = "multipart/form-data"
JSON = "application/json"


def multipart(fields):
    """Encodes a multipart form; returns body and content type."""
    boundary = uuid.uuid4().hex
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()]
    return "".join([*parts, f"--{boundary}--\r\n"]).encode(), f"{FORM}; boundary={boundary}"


def address(payload, base=ADDRESS):
    return base + re.sub(r"[^!-~]", "+", payload)


class Forms:
    """Builds request bodies with a payload in every text field of the OpenAPI document, so that new fields are
    covered automatically."""

    def __init__(self):
        self.schemas = document()["components"]["schemas"]
        self.operations = {operation["operationId"]: (method.upper(), path, operation) for path, item in document()["paths"].items()
                           for method, operation in item.items() if isinstance(operation, dict) and "operationId" in operation}
        self.sent = set()

    def schema(self, schema):
        while "$ref" in schema:
            schema = self.schemas[schema["$ref"].split("/")[-1]]
        return schema

    def body(self, operation, text, /, **given):
        """Body of an operation: the given fields, and payloads in all others; None omits a field."""
        content = self.operations[operation][2]["requestBody"]["content"]
        schema = self.schema(content.get("application/json", content.get(FORM))["schema"])
        return self.object(operation, schema, text, given) if "properties" in schema else self.value(operation, schema, text)

    def object(self, where, schema, payload, given):
        properties, made = schema["properties"], {}
        unknown = set(given) - set(properties)
        assert not unknown, f"{where} has no {unknown}"
        for field, property in properties.items():
            inside = given.get(field)
            value = inside if field in given and not isinstance(inside, dict) else self.value(f"{where}/{field}", self.schema(property), payload, inside or {})
            if value is not None:
                made[field] = value
        return made

    def value(self, where, schema, payload, given=MappingProxyType({})):
        """Payload for a field; None if it takes no text."""
        schema = next((self.schema(it) for it in schema.get("anyOf", []) if it.get("type") != "null"), schema)
        kinds = schema.get("type", [])
        if "enum" in schema or schema.get("format") in ("date-time", "binary") or "boolean" in kinds or "integer" in kinds or "number" in kinds:
            return None
        if "array" in kinds:
            item = self.value(where + "[]", self.schema(schema["items"]), payload)
            return None if item is None else [item]
        if "object" in kinds and "properties" in schema:
            return self.object(where, schema, payload, given) or None
        if "object" in kinds:
            # Translations: of a language, fields of any name.
            return {"de": {"name": payload, payload: payload}}
        assert "string" in kinds and "pattern" in schema, f"say what goes into {where}: {schema}"
        if "[Tt][Pp][Ss]?:" in schema["pattern"]:
            return address(payload)
        assert schema["pattern"].startswith("^[^"), f"say what goes into {where}: {schema}"
        return payload

    def submit(self, operation, text, /, token=ADMIN, at=(), **given):
        """Sends an operation; `at` are its path parameters, `given` the fixed fields."""
        method, path, _ = self.operations[operation]
        self.sent.add(operation)
        for part in at:
            path = re.sub(r"\{[^}]*\}", part, path, count=1)
        body = self.body(operation, text, **given)
        media_types = self.operations[operation][2]["requestBody"]["content"]
        if FORM in media_types and JSON not in media_types:
            form, media_type = multipart(body)
            return send(method, path, form, token=token, content_type=media_type)
        return send(method, path, body, token=token)

    def taking_text(self):
        """Operations with free text fields."""
        found = set()
        for operation, (_, _, details) in self.operations.items():
            for media_type, content in details.get("requestBody", {}).get("content", {}).items():
                if media_type in ("application/json", FORM) and self.takes_text(self.schema(content["schema"])):
                    found.add(operation)
        return found

    def takes_text(self, schema):
        inside = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
        inside += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
        is_text = "string" in schema.get("type", []) and "enum" not in schema
        return is_text or any(self.takes_text(self.schema(it)) for it in inside)


# Operations covered by others in `fill`, or without a result: the text of a node picture is its bytes or the URL of a file.
SAME_FIELDS = {"updateUser", "updatePublisher", "updateNode", "updateVersion", "unbanUser", "unbanPublisher", "unbanNode", "getVersions",
               "updatePublisherWebhook", "redeliverPublisherWebhook", "setNodeIcon", "setNodeBanner"}
IMAGE_JOBS = ["upscaleImage", "upscaleImagePrecisely", "transferStyle", "enhanceSkinCreatively", "enhanceSkinFaithfully", "enhanceSkinFlexibly", "relightImage"]
# Additional pictures per job; a reference and a light map exclude each other.
PICTURES = {"transferStyle": ["reference_image"], "relightImage": ["transfer_light_from_reference_image"]}
VIDEO_JOBS = ["startEndToVideo", "referenceToVideo", "extendVideo", "multiframeToVideo"]


class Untrusted(BrowserTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.forms = Forms()
        # Accepts webhooks and returns 404 for pictures.
        cls.elsewhere = Receiver()

    def fill(self, payload):
        """Creates every kind of resource with payloads; returns the pages that show them."""
        forms, publisher, node = self.forms, name("xss"), name("xss")
        owner = forms.submit("createUser", payload, email=f"{payload.replace(' ', '')[:60]}@x.example")
        token = forms.submit("createUserToken", payload, at=[owner["id"]])["token"]
        forms.submit("createOwnToken", payload)
        forms.submit("createPublisher", payload, token=token, id=publisher)
        forms.submit("createNode", payload, token=token, at=[publisher], id=node, latest_version=None)
        for version in ("1.0.0", "1.1.0"):
            made = forms.submit("publishVersion", payload, token=token, at=[publisher, node], personal_access_token=None, node={"id": None}, node_version={"version": version})
            send("PUT", made["signedUrl"], archive(), token=None, content_type="application/zip")
        forms.submit("translateNode", payload, token=token, at=[node])
        forms.submit("createPublisherToken", payload, token=token, at=[publisher])
        forms.submit("createPublisherWebhook", payload, token=token, at=[publisher], url=address(payload, self.elsewhere.base))
        forms.submit("administerNode", payload, at=[node], id=None)
        forms.submit("administerVersion", payload, at=[node, "1.0.0"], status="NodeVersionStatusFlagged")
        forms.submit("createFile", payload, bytes=7)
        tasks = self.jobs(payload)
        music = forms.submit("generateMusic", payload, prompt=payload, duration=1)[-1]["task_id"]
        forms.submit("banNode", payload, at=[node])
        forms.submit("banPublisher", payload, at=[publisher])
        forms.submit("banUser", payload, at=[owner["id"]])
        return [
            f"/nodes/{node}", f"/nodes/{node}/about", f"/nodes/{node}/install", f"/publishers/{publisher}", f"/publishers/{publisher}/members",
            f"/publishers/{publisher}/tokens", f"/publishers/{publisher}/webhooks", *[f"/tasks/{task}" for task in (tasks[0], tasks[-1], music)], f"/audit/node/{node}", f"/audit/publisher/{publisher}",
            f"/audit/user/{owner['id']}", *[f"/audit/task/{task}" for task in tasks[-2:]], f"/audit?stream=node/{node}",
        ]

    def film(self):
        """Id of a video that can be extended, created once."""
        if not hasattr(type(self), "made_film"):
            job = {"prompt": "a calm sea", "model": "vq1", "duration": 1, "resolution": "360p"}
            task = send("POST", "/proxy/videovendor/start-end2video", job)["task_id"]
            creations = lambda: send("GET", f"/proxy/videovendor/tasks/{task}/creations")["creations"]
            wait_until(creations)
            type(self).made_film = creations()[0]["id"]
        return self.made_film

    def jobs(self, payload):
        """Submits a task of every job; they fail because their pictures are missing."""
        forms, picture = self.forms, address(payload, self.elsewhere.base)
        made = []
        for job in IMAGE_JOBS:
            second = {field: picture for field in PICTURES.get(job, [])}
            rest = {"transfer_light_from_lightmap": None} if job == "relightImage" else {}
            answer = forms.submit(job, payload, image=picture, webhook_url=picture, **second, **rest)
            made.append(answer.get("data", answer)["task_id"])
        for job in VIDEO_JOBS:
            own = {"image_settings": [{"key_image": picture, "prompt": payload}] * 2, "start_image": picture} if job == "multiframeToVideo" else {"images": [picture]}
            if job == "extendVideo":
                own |= {"model": "vq2-turbo", "video_url": picture, "video_creation_id": self.film()}
            elif job != "multiframeToVideo":
                own |= {"aspect_ratio": None, "wm_url": picture}
            answer = forms.submit(job, payload, callback_url=picture, payload=payload, meta_data=json.dumps({payload: payload}), **own)
            made.append(answer["task_id"])
        return made

    def holds(self, page, path, payload=None):
        self.show(page, path)
        self.harmless(page, path)
        if payload:
            self.assertIn("".join(payload.split()), "".join(page.evaluate("document.body.innerText").split()), f"{path} does not show it")

    def harmless(self, page, path):
        """Asserts that nothing was executed and no active element exists."""
        page.evaluate("document.querySelectorAll('details').forEach(it => { it.open = true })")
        # Collapsed parts are rendered when opened.
        page.wait_for_timeout(30)
        odd = page.evaluate("""() => [...document.querySelectorAll('#app *')].filter(it => /^(SCRIPT|IFRAME|OBJECT|EMBED|MATH|STYLE|BASE|META)$/i.test(it.tagName)
            || [...it.attributes].some(({ name, value }) => name.startsWith('on') || /^(href|src|srcdoc|srcset|data|action|formaction|poster|xlink:href)$/.test(name) && /^javascript:/i.test(value.replace(/[\\u0000-\\u0020]/g, '')))
            || (it.tagName === 'IMG' && !/^(blob:|data:|http:..127)/.test(it.src))).map(it => it.outerHTML.slice(0, 200))""")
        self.assertEqual(odd, [], path)
        self.assertIsNone(page.evaluate("window.ran ?? null"), path)

    def test_payloads_in_every_field_are_text(self):
        page = self.page("/nodes", token=ADMIN, bypass_csp=True, allowed=(404,))
        for payload in PAYLOADS:
            paths = self.fill(payload)
            # Markdown changes payloads that contain markup.
            shown = None if "`" in payload else payload
            for path in paths:
                self.holds(page, path, shown if path.count("/") == 2 and path.startswith("/nodes") else None)
        # Every text operation was used.
        self.assertEqual(self.forms.taking_text() - self.forms.sent - SAME_FIELDS, set())
        for path in ("/nodes?banned=true", "/publishers", "/users", "/audit", "/moderation", "/tasks", "/account/tokens"):
            self.holds(page, path)
            links = page.evaluate("[...document.querySelectorAll('a[target]')].map(it => it.rel)")
            self.assertTrue(all(rel == "noopener noreferrer" for rel in links), links)

    def test_payloads_in_the_address_are_text(self):
        page = self.page("/nodes", token=ADMIN, bypass_csp=True, allowed=(400, 404))
        for payload in PAYLOADS:
            part = re.sub(r"[^A-Za-z0-9]", lambda letter: "".join(f"%{byte:02X}" for byte in letter[0].encode()), payload)
            for path in (f"/nodes?search={part}&os={part}", f"/nodes/{part}", f"/publishers/{part}", f"/tasks/{part}", f"/{part}", f"/audit/node/{part}",
                         f"/audit?actor={part}&stream={part}", f"/docs/{part}", f"/studio/{part}", f"/moderation?list={part}"):
                self.holds(page, path)

    def test_form_input_is_rendered_as_text(self):
        """Payloads in form fields and file names, as shown in the form, the curl command and the errors."""
        page = self.page("/studio/relightImage", token=ADMIN, bypass_csp=True, allowed=(400,))
        page.locator("form details").first.wait_for(state="attached")
        page.evaluate("document.querySelectorAll('details').forEach(it => { it.open = true })")
        page.get_by_label("Prompt").wait_for()
        for payload in PAYLOADS:
            page.get_by_role("button", name="Reset").click()
            page.locator("input[type=file]").first.set_input_files({"name": payload, "mimeType": "image/png", "buffer": b"no picture"})
            # Browsers normalize file names.
            expect(page.locator(".given strong")).to_have_text(re.compile(re.escape(payload[:6])))
            for field in page.locator("form :is(input[type=text], input[type=url], textarea)").all():
                field.fill(payload)
            expect(page.locator(".files button")).to_have_count(1)
            page.get_by_role("button", name="Generate").click()
            expect(page.get_by_role("alert").first).to_contain_text(re.compile("invalid fields?"))
            self.harmless(page, payload)

    def test_vendor_messages_are_rendered_as_text(self):
        """Titles, tags and messages of a malicious vendor."""
        page = self.page("/studio/generateMusic", token=ADMIN, bypass_csp=True)
        for payload in PAYLOADS:
            lines = [
                {"type": "title", "title": payload, "display_tags": [payload], "copy_index": 0, "prompt_index": 0, "stream_index": 0},
                {"type": "audio_chunk", "stream_index": 0, "encoding": payload, "data": ""},
                {"type": "error", "code": payload, "message": payload},
            ]
            page.unroute_all()
            page.route("**/t2m/generate", lambda route: route.fulfill(status=200, content_type="application/x-ndjson", body="\n".join(map(json.dumps, lines))))
            page.get_by_label("Prompt").fill(payload)
            page.get_by_role("button", name="Generate").click()
            expect(page.locator(".result-panel .trouble p")).to_have_text(payload)
            expect(page.locator(".music strong")).to_have_text(payload)
            self.harmless(page, payload)

    def test_task_messages_are_rendered_as_text(self):
        page = self.page("/nodes", token=ADMIN, bypass_csp=True, allowed=(404,))
        now = "2026-01-01T00:00:00.000000Z"
        for payload in PAYLOADS:
            task = {"task_id": str(uuid.uuid4()), "kind": payload, "state": "FAILED", "created_at": now, "updated_at": now, "progress": 1, "cost": 1,
                    "generated": [payload, address(payload), f"{payload}.mp4"], "error": {"code": payload, "message": payload},
                    "history": [{"state": payload, "at": now}, {"state": "FAILED", "at": now}]}
            delivery = {"id": payload, "task_id": task["task_id"], "state": "dead", "status": payload, "url": payload,
                        "attempts": [{"number": 1, "at": now, "reason": payload}]}
            page.unroute_all()
            event = f"id: 1\nevent: snapshot\ndata: {json.dumps(task)}\n\n"
            page.route("**/tasks/*/events", lambda route: route.fulfill(status=200, content_type="text/event-stream", body=event))
            page.route("**/tasks/*/deliveries", lambda route: route.fulfill(status=200, content_type="application/json", body=json.dumps({"deliveries": [delivery]})))
            self.show(page, f"/tasks/{task['task_id']}")
            expect(page.locator(".trouble p").first).to_have_text(payload)
            expect(page.locator(".deliveries code").first).to_have_text(payload)
            self.harmless(page, payload)

    def test_the_policy_blocks_injected_scripts(self):
        page = self.page("/nodes")
        tried = page.evaluate("""() => new Promise((resolve) => {
            const found = [];
            document.addEventListener('securitypolicyviolation', (event) => found.push(event.effectiveDirective));
            try { document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.ran=1">'); } catch (error) { found.push(error.name); }
            const script = document.createElement('script');
            try { script.textContent = 'window.ran=1'; document.body.append(script); } catch (error) { found.push(error.name); }
            fetch('http://127.0.0.2:9/').catch(() => {});
            const image = new Image(); image.src = 'http://127.0.0.2:9/a.png';
            setTimeout(() => resolve(found), 300);
        })""")
        self.assertIsNone(page.evaluate("window.ran ?? null"))
        for directive in ("TypeError", "connect-src", "img-src"):
            self.assertIn(directive, tried)
        # These violations are expected and logged on the console.
        self.seen.clear()


if __name__ == "__main__":
    unittest.main()
