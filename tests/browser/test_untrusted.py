"""Untrusted text never runs: payloads in every field of every resource, with the policy of the page switched off, so that it is
the pages that are proven and not the policy."""

import base64
import re
import unittest

from support import ADMIN, BASE, BrowserTest, archive, name, png, publish, send, user

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
# What payloads are written into: everything that takes text. Addresses must begin with http(s); the rest of them is free.
ADDRESS = "https://x.example/"
PUBLISHER = {"name": "text", "description": "text", "support": "text", "website": "address", "source_code_repo": "address", "logo": "address"}
NODE = {
    "name": "text", "description": "text", "author": "text", "category": "text", "license": "text", "repository": "address", "icon": "address",
    "banner_url": "address", "tags": "list", "supported_os": "list", "supported_accelerators": "list", "supported_host_version": "text",
    "supported_host_frontend_version": "text", "preempted_host_node_names": "list",
}
VERSION = {
    "changelog": "text", "dependencies": "list", "tags": "list", "supported_os": "list", "supported_accelerators": "list",
    "supported_host_version": "text", "supported_host_frontend_version": "text",
}


def filled(fields, payload):
    ways = {"text": payload, "list": [payload], "address": ADDRESS + re.sub(r"[^!-~]", "+", payload)}
    return {field: ways[way] for field, way in fields.items()}


class Untrusted(BrowserTest):
    def fill(self, payload):
        """Everything that there can be, with the payload in every field; gives the pages that show it."""
        publisher, node = name("xss"), name("xss")
        owner = user(payload, email=f"{payload.replace(' ', '')[:60]}@x.example")
        send("POST", "/publishers", {"id": publisher, **filled(PUBLISHER, payload)}, token=owner["token"])
        send("POST", f"/publishers/{publisher}/nodes", {"id": node, **filled(NODE, payload)}, token=owner["token"])
        publish(publisher, node, "1.0.0", token=owner["token"], **filled(VERSION, payload))
        send("POST", f"/nodes/{node}/translations", {"de": {"name": payload, "description": payload}}, token=owner["token"])
        send("POST", f"/publishers/{publisher}/tokens", {"name": payload, "description": payload}, token=owner["token"])
        send("PUT", f"/admin/nodes/{node}", {"tags_admin": [payload]})
        reason = {"status": "NodeVersionStatusFlagged", "status_reason": payload}
        send("PUT", f"/admin/nodes/{node}/versions/1.0.0", reason)
        publish(publisher, node, "1.1.0", token=owner["token"], **filled(VERSION, payload))
        hook = "http://127.0.0.1:9/" + re.sub(r"[^!-~]", "+", payload)
        image = base64.b64encode(png(2, 2)).decode()
        body = {"image": image, "prompt": payload, "webhook_url": hook}
        task = send("POST", "/proxy/imagevendor/v1/ai/image-upscaler", body)["data"]["task_id"]
        send("POST", f"/admin/nodes/{node}/ban", {"reason": payload})
        send("POST", f"/admin/publishers/{publisher}/ban", {"reason": payload})
        send("POST", f"/admin/users/{owner['id']}/ban", {"reason": payload})
        return [
            f"/nodes/{node}", f"/nodes/{node}/about", f"/nodes/{node}/install", f"/publishers/{publisher}", f"/publishers/{publisher}/members",
            f"/publishers/{publisher}/tokens", f"/tasks/{task}", f"/audit/node/{node}", f"/audit/publisher/{publisher}", f"/audit/task/{task}",
            f"/audit?stream=node/{node}",
        ]

    def holds(self, page, path, payload=None):
        self.show(page, path)
        page.evaluate("document.querySelectorAll('details').forEach(it => { it.open = true })")
        # What is inside is made once it is open.
        page.wait_for_timeout(30)
        odd = page.evaluate("""() => [...document.querySelectorAll('#app *')].filter(it => /^(SCRIPT|IFRAME|OBJECT|EMBED|MATH|STYLE|BASE|META)$/i.test(it.tagName)
            || [...it.attributes].some(({ name, value }) => name.startsWith('on') || /^\\s*javascript:/i.test(value))
            || (it.tagName === 'IMG' && !/^(blob:|data:|http:..127)/.test(it.src))).map(it => it.outerHTML.slice(0, 200))""")
        self.assertEqual(odd, [], path)
        self.assertIsNone(page.evaluate("window.ran ?? null"), path)
        if payload:
            self.assertIn("".join(payload.split()), "".join(page.evaluate("document.body.innerText").split()), f"{path} does not show it")

    def test_payloads_in_every_field_are_text(self):
        page = self.page("/nodes", token=ADMIN, bypass_csp=True, allowed=(404,))
        for payload in PAYLOADS:
            paths = self.fill(payload)
            # Where prose gives text a form, the payload with marks of its own does not read as it was written.
            shown = None if "`" in payload else payload
            for path in paths:
                self.holds(page, path, shown if path.count("/") == 2 and path.startswith("/nodes") else None)
        for path in ("/nodes?banned=true", "/publishers", "/users", "/audit", "/moderation", "/tasks"):
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

    def test_the_policy_would_stop_what_the_pages_let_through(self):
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
        # All of this was meant, and is told on the console.
        self.seen.clear()


if __name__ == "__main__":
    unittest.main()
