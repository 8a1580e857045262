"""API reference: the list, fields in order, the request as a program, and sending it from the page."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from playwright.sync_api import expect

from support import ADMIN, BASE, NARROW, TIMEOUT_S, WIDE, BrowserTest, document, name, registry, send, user

# File name and command of the program in each language that needs no compiler.
PROGRAMS = {"curl": ("request.sh", ["sh"]), "Python": ("request.py", [sys.executable]), "JavaScript": ("request.mjs", ["node"])}
LANGUAGES = (*PROGRAMS, "Rust")


class Reference(BrowserTest):
    def operation(self, operation, **options):
        page = self.page(f"/docs/{operation}", **options)
        expect(page.get_by_role("heading", name="Request", exact=True)).to_be_visible()
        return page

    def form(self, page):
        """Opens the form; returns it."""
        page.get_by_text("Try it", exact=True).click()
        return page.get_by_role("form", name="Try it")

    def programs(self, page):
        texts = {}
        for language in LANGUAGES:
            page.get_by_role("tab", name=language, exact=True).click()
            texts[language] = page.get_by_label(f"{language} code", exact=True).inner_text()
        return texts

    def run_programs(self, page, token):
        """Runs the programs; returns the output of each."""
        outputs = {}
        for language, text in self.programs(page).items():
            self.assertNotIn(token, text)
            if language not in PROGRAMS or not shutil.which(PROGRAMS[language][1][0]):
                continue
            file, command = PROGRAMS[language]
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, file).write_text(text)
                done = subprocess.run([*command, file], cwd=folder, env={**os.environ, "TOKEN": token}, capture_output=True, text=True, timeout=TIMEOUT_S)
            self.assertEqual(done.returncode, 0, f"{language}: {done.stderr}\n{text}")
            outputs[language] = done.stdout
        self.assertLessEqual({"curl", "Python"}, set(outputs))
        return outputs

    def test_the_reference_is_at_docs_and_lists_every_operation_with_its_path(self):
        page = self.page()
        page.goto(f"{BASE}/docs")
        expect(page.get_by_role("heading", name="API reference")).to_be_visible()
        operations = [(path, method) for path, item in document()["paths"].items() for method in item]
        expect(page.locator(".index li a")).to_have_count(len(operations))
        paths = page.locator(".index .path").all_inner_texts()
        self.assertEqual(sorted(paths), sorted(path for path, _ in operations))
        page.get_by_label("Search operations").fill("upscale an image")
        page.get_by_role("link", name="Upscale an image", exact=False).first.click()
        page.reload()
        for text in ("/proxy/imagevendor/v1/ai/image-upscaler", "-10 to 10", "premium_sharpy", "Token required", "too_many_submissions"):
            expect(page.locator("article")).to_contain_text(text)

    def test_the_introduction_tells_base_url_authentication_and_errors(self):
        page = self.page("/docs")
        for text in (f"Base URL: {BASE}/", "Authorization: Bearer", "application/problem+json"):
            expect(page.locator(".lead")).to_contain_text(text)

    def test_the_whole_document_is_not_loaded(self):
        page = self.page("/nodes", token=ADMIN)
        loaded = []
        page.on("request", lambda request: loaded.append(request.url))
        for path in ("/docs", "/docs/upscaleImage", "/audit", "/studio"):
            self.show(page, path)
        page.wait_for_load_state("networkidle")
        self.assertIn(f"{BASE}/console/reference/upscaleImage.json", loaded)
        self.assertEqual([url for url in loaded if url.endswith("openapi.json")], [])

    def test_the_operation_list_keeps_its_scroll_position(self):
        for size in (WIDE, NARROW):
            page = self.page("/docs", size=size)
            index = page.locator(".index")
            index.get_by_role("link").nth(40).scroll_into_view_if_needed()
            scrolled = index.evaluate("it => it.scrollTop")
            self.assertGreater(scrolled, 0)
            index.get_by_role("link").nth(40).click()
            expect(page.locator("article h2")).to_be_in_viewport()
            expect(page.locator("article")).to_be_focused()
            self.assertEqual(index.evaluate("it => it.scrollTop"), scrolled)
            search = page.get_by_label("Search operations")
            search.fill("upscale")
            index.get_by_role("link").first.click()
            expect(search).to_have_value("upscale")

    def test_required_fields_come_first_and_the_others_in_the_documented_order(self):
        for operation, first in (("transferStyle", ["image", "reference_image", "engine", "fixed_generation"]),
                                 ("multiframeToVideo", ["image_settings", "model", "start_image", "callback_url"]),
                                 ("extendVideo", ["model", "video_creation_id", "video_url", "callback_url"])):
            page = self.operation(operation)
            names = page.locator("article .schema").first.locator(":scope > li > .row > code").all_inner_texts()
            self.assertEqual(names[:4], first, operation)

    def test_a_read_is_sent_with_its_parameters(self):
        publisher, nodes = registry(2)
        page = self.operation("listNodes")
        form = self.form(page)
        form.get_by_label("Limit").fill("1")
        form.get_by_label("Node id").fill("\n".join(nodes))
        form.get_by_role("button", name="Send request").click()
        answer = page.get_by_role("region", name="Response")
        expect(answer.locator("h4")).to_contain_text("200")
        body = json.loads(answer.get_by_label("Response body", exact=True).inner_text())
        self.assertEqual((body["limit"], body["total"], len(body["nodes"])), (1, 2, 1))
        answer.get_by_text("Response headers").click()
        expect(answer.get_by_label("Response headers", exact=True)).to_contain_text("content-type: application/json")
        # The programs send the same request, and need no token.
        for language, output in self.run_programs(page, "no-token-is-needed").items():
            self.assertEqual(json.loads(output)["nodes"], body["nodes"], language)
        for language, text in self.programs(page).items():
            self.assertNotIn("TOKEN", text, language)

    def test_a_write_is_sent_only_after_a_confirmation(self):
        token = user(name("Ada"))["token"]
        publisher = name("publisher")
        page = self.operation("createPublisher", token=token, allowed=(400,))
        form = self.form(page)
        form.get_by_label("Body").fill(json.dumps({"id": publisher, "name": "It's \"quoted\" $HOME"}))
        form.get_by_role("button", name="Send request").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("POST /publishers")
        dialog.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("region", name="Response")).to_have_count(0)
        self.assertTrue(send("GET", f"/publishers/validate?username={publisher}")["isAvailable"])
        form.get_by_role("button", name="Send request").click()
        dialog.get_by_role("button", name="Send", exact=True).click()
        answer = page.get_by_role("region", name="Response")
        expect(answer.locator("h4")).to_contain_text("20")
        self.assertEqual(send("GET", f"/publishers/{publisher}")["name"], "It's \"quoted\" $HOME")
        # The error of a second request is shown as the service sent it.
        form.get_by_label("Body").fill("{}")
        form.get_by_role("button", name="Send request").click()
        dialog.get_by_role("button", name="Send", exact=True).click()
        expect(answer.locator("h4")).to_contain_text("400")
        expect(answer.get_by_label("Response body", exact=True)).to_contain_text("invalid_input")

    def test_a_request_with_a_method_a_path_and_a_body_is_a_program(self):
        publisher, (node,) = registry(1)
        page = self.operation("updateNode", token=ADMIN)
        form = self.form(page)
        expect(page.get_by_label("curl code", exact=True)).to_contain_text("{publisherId}")
        form.get_by_label("Publisher id").fill(publisher)
        form.get_by_label("Node id").fill(node)
        text = "it's $HOME `id` \\ \"quoted\" é 雨"
        form.get_by_label("Body").fill(json.dumps({"name": "Faces", "description": text}))
        for language, output in self.run_programs(page, ADMIN).items():
            self.assertEqual(json.loads(output)["description"], text, language)
        self.assertIn(".put(", self.programs(page)["Rust"])

    def test_missing_and_malformed_input_is_not_sent(self):
        page = self.operation("updateNode", token=ADMIN)
        form = self.form(page)
        form.get_by_label("Body").fill("{")
        form.get_by_role("button", name="Send request").click()
        expect(form.locator(".fault")).to_have_count(3)
        expect(page.get_by_role("alert")).to_contain_text("is not JSON")
        expect(page.get_by_role("dialog")).to_have_count(0)

    def test_without_a_token_the_form_asks_to_sign_in(self):
        page = self.operation("getOwnUser")
        form = self.form(page)
        form.get_by_role("button", name="Sign in and send").click()
        expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()

    def test_a_stream_is_shown_while_it_arrives_and_can_be_stopped(self):
        page = self.operation("streamEvents", token=ADMIN)
        form = self.form(page)
        form.get_by_role("button", name="Send request").click()
        answer = page.get_by_role("region", name="Response")
        expect(answer.get_by_label("Response body", exact=True)).to_contain_text("the events after position")
        form.get_by_role("button", name="Stop").click()
        expect(form.get_by_role("button", name="Send request")).to_be_enabled()


if __name__ == "__main__":
    unittest.main()
