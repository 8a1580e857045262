"""Studio: the request of a form as a program. Each program is run against the service, and makes the same task."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from playwright.sync_api import expect

from support import TIMEOUT_S, BrowserTest, name, png, send, user

IMAGE = {"name": "it's a $picture.png", "mimeType": "image/png", "buffer": png(120, 80)}
PROMPT = "it's $HOME `id` ${id} \\ \"quoted\"\n%s {x} é 雨 rain"
# File name and command of the program in each language.
PROGRAMS = {"curl": ("request.sh", ["sh"]), "Python": ("request.py", [sys.executable]), "JavaScript": ("request.mjs", ["node"])}


def without_urls(value):
    """Returns a request without the URLs of its pictures, which are signed for each task."""
    if isinstance(value, dict):
        return {field: without_urls(inner) for field, inner in value.items() if field != "url"}
    return [without_urls(inner) for inner in value] if isinstance(value, list) else value


def cancel(task):
    """Cancels a task if it is still running."""
    try:
        send("POST", f"/tasks/{task}/cancel", {})
    except AssertionError as refusal:
        if " 409 " not in str(refusal):
            raise


class Code(BrowserTest):
    def programs(self, page):
        """Text of the program in each language."""
        code = page.locator(".curl")
        if not code.evaluate("it => it.open"):
            page.get_by_text("As code", exact=True).click()
        texts = {}
        for language in (*PROGRAMS, "Rust"):
            code.get_by_role("tab", name=language, exact=True).click()
            expect(code.get_by_role("tabpanel")).to_have_attribute("aria-labelledby", re.compile(f"-{language}$"))
            texts[language] = code.locator("pre code").inner_text()
        return texts

    def run_programs(self, page, token, files=()):
        """Runs the programs in a folder with the files; returns the output of each."""
        outputs = {}
        for language, text in self.programs(page).items():
            self.assertNotIn(token, text)
            if language not in PROGRAMS or not shutil.which(PROGRAMS[language][1][0]):
                continue
            file, command = PROGRAMS[language]
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, file).write_text(text)
                for name, content in files:
                    Path(folder, name).write_bytes(content)
                done = subprocess.run([*command, file], cwd=folder, env={**os.environ, "TOKEN": token}, capture_output=True, text=True, timeout=TIMEOUT_S)
            self.assertEqual(done.returncode, 0, f"{language}: {done.stderr}\n{text}")
            outputs[language] = done.stdout
        self.assertLessEqual({"curl", "Python"}, set(outputs))
        return outputs

    def check_requests(self, page, token, files=(), **expected):
        """Runs the programs; they must make tasks with the same request, which has the expected fields."""
        outputs = self.run_programs(page, token, files)
        requests = {}
        for language, output in outputs.items():
            answer = json.loads(output)
            task = answer["data"]["task_id"] if "data" in answer else answer["task_id"]
            requests[language] = without_urls(send("GET", f"/tasks/{task}", token=token)["request"])
            cancel(task)
        for language, request in requests.items():
            self.assertEqual(request, requests["curl"], language)
        self.assertEqual({field: requests["curl"].get(field) for field in expected}, expected)
        return requests["curl"]

    def test_a_request_with_a_picture_and_difficult_text(self):
        token = user(name("Ada"))["token"]
        page = self.page("/studio/upscaleImage", token=token)
        page.locator("input[type=file]").first.set_input_files(IMAGE)
        page.get_by_label("Prompt").fill(PROMPT)
        page.get_by_label("Scale factor").select_option("4x")
        request = self.check_requests(page, token, [(IMAGE["name"], IMAGE["buffer"])], prompt=PROMPT, scale_factor="4x")
        self.assertEqual(request["image"]["bytes"], len(IMAGE["buffer"]))

    def test_a_request_with_objects_booleans_and_numbers(self):
        token = user(name("Ada"))["token"]
        page = self.page("/studio/relightImage", token=token)
        page.locator("input[type=file]").first.set_input_files(IMAGE)
        page.get_by_text("Advanced", exact=True).click()
        page.get_by_label("Change background").uncheck()
        page.get_by_label("Light transfer strength, as a number").fill("40")
        page.get_by_text("Advanced settings").click()
        page.get_by_label("Whites, as a number").fill("12")
        request = self.check_requests(page, token, [(IMAGE["name"], IMAGE["buffer"])], change_background=False, light_transfer_strength=40)
        self.assertEqual(request["advanced_settings"]["whites"], 12)

    def test_a_request_with_a_list_of_pictures(self):
        token = user(name("Ada"))["token"]
        page = self.page("/studio/multiframeToVideo", token=token)
        pictures = page.get_by_label("Key image", exact=True)
        for number in range(2):
            pictures.nth(0).set_input_files({**IMAGE, "name": "frame.png", "buffer": png(96 + number, 64)})
            expect(page.locator(".given")).to_have_count(number + 1)
        page.get_by_label("Resolution").select_option("540p")
        # Pictures of the same name have different file names in the program.
        files = [("frame.png", png(96, 64)), ("frame-2.png", png(97, 64))]
        request = self.check_requests(page, token, files)
        self.assertEqual([picture["key_image"]["width"] for picture in request["image_settings"]], [96, 97])

    def test_a_request_without_a_picture(self):
        token = user(name("Ada"))["token"]
        page = self.page("/studio/startEndToVideo", token=token)
        page.get_by_label("Prompt", exact=True).fill(PROMPT)
        page.get_by_label("Duration, as a number", exact=True).fill("1")
        page.get_by_text("Advanced", exact=True).click()
        page.get_by_label("Seed").fill("7")
        self.check_requests(page, token, prompt=PROMPT, duration=1, seed=7)

    def test_a_form_whose_response_is_a_stream(self):
        token = user(name("Ada"))["token"]
        page = self.page("/studio/generateMusic", token=token)
        page.get_by_label("Prompt").fill("@calm piano, it's \"late\" and quiet")
        page.get_by_label("Duration", exact=True).fill("2")
        for language, output in self.run_programs(page, token).items():
            lines = [json.loads(line) for line in output.splitlines() if line.strip()]
            self.assertEqual(lines[-1]["type"], "complete", language)
        tasks = send("GET", "/tasks?kind=music&details=true", token=token)["tasks"]
        self.assertEqual({task["request"]["prompt"] for task in tasks}, {"@calm piano, it's \"late\" and quiet"})

    def test_the_rust_program_is_valid(self):
        if not shutil.which("rustfmt"):
            self.skipTest("there is no rustfmt here")
        page = self.page("/studio/upscaleImage", token=user(name("Ada"))["token"])
        page.locator("input[type=file]").first.set_input_files(IMAGE)
        page.get_by_label("Prompt").fill(PROMPT)
        text = self.programs(page)["Rust"]
        parsed = subprocess.run(["rustfmt", "--edition", "2021", "--emit", "stdout"], input=text, capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual((parsed.returncode, parsed.stderr), (0, ""))
        for part in (json.dumps(IMAGE["name"]), "reqwest::blocking", 'std::env::var("TOKEN")'):
            self.assertIn(part, text)

    def test_the_languages_are_tabs(self):
        page = self.page("/studio/upscaleImage", token=user(name("Ada"))["token"])
        page.get_by_text("As code", exact=True).click()
        tabs = page.get_by_role("tablist", name="Language").get_by_role("tab")
        expect(tabs).to_have_text([*PROGRAMS, "Rust"])
        code = page.locator(".curl pre code")
        tabs.first.focus()
        # The arrow keys choose, and wrap around.
        for key, chosen, text in (("ArrowRight", "Python", "urllib.request"), ("ArrowRight", "JavaScript", "await fetch"), ("ArrowLeft", "Python", "urllib.request"),
                                  ("ArrowLeft", "curl", "curl -sN"), ("ArrowLeft", "Rust", "fn main()")):
            page.keyboard.press(key)
            expect(page.get_by_role("tab", name=chosen, exact=True)).to_be_focused()
            expect(page.get_by_role("tab", selected=True)).to_have_text(chosen)
            expect(code).to_contain_text(text)
        # The program follows the form, in the chosen language, and is copied as shown.
        page.get_by_label("Prompt").fill("hills")
        expect(code).to_contain_text('"hills"')
        page.get_by_role("button", name="Copy: Rust code").click()
        self.assertEqual(page.evaluate("navigator.clipboard.readText()"), code.text_content())


if __name__ == "__main__":
    unittest.main()
