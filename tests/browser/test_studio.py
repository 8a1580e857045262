"""Studio: generated forms, decoded results, live tasks."""

import base64
import json
import os
import re
import socketserver
import subprocess
import tempfile
import threading
import unittest
from datetime import datetime, timedelta, timezone
from pathlib import Path

from playwright.sync_api import expect

from support import ADMIN, NARROW, TIMEOUT_S, WIDE, BrowserTest, Receiver, decode_sound, document, name, png, registry, send, submissions, user, wait_until

IMAGE = {"name": "gradient.png", "mimeType": "image/png", "buffer": png(120, 80)}
UPSCALE = "/proxy/imagevendor/v1/ai/image-upscaler"


class NoPicture(socketserver.BaseRequestHandler):
    """Serves content that is not a picture."""

    def handle(self):
        self.request.recv(65536)
        self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnone")


class LatePicture(socketserver.ThreadingTCPServer):
    """Serves a picture as soon as it has arrived."""

    daemon_threads = True

    def __init__(self, content):
        arrived = self.arrived = threading.Event()

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                self.request.recv(65536)
                if arrived.wait(TIMEOUT_S):
                    self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(content) + content)

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def picture(page, label="Image"):
    return page.get_by_label(label, exact=True).first


class Studio(BrowserTest):
    def test_every_job_is_a_form_with_the_fields_ranges_and_defaults_of_the_document(self):
        known = document()
        jobs = [item["post"] for path, item in known["paths"].items() if path.startswith("/proxy/") and "{" not in path and "post" in item]
        self.assertGreaterEqual(len(jobs), 7)
        page = self.page("/studio")
        expect(page.locator(".job-card a")).to_have_count(len(jobs))
        self.until(page, "[...document.querySelectorAll('.job-card img')].every(it => { it.loading = 'eager'; return it.naturalWidth > 0 })")
        self.assertEqual(page.locator(".job-card img").count(), len(jobs))
        for job in jobs:
            content = next(iter(job["requestBody"]["content"].values()))
            schema = content["schema"]
            schema = known["components"]["schemas"][schema["$ref"].split("/")[-1]] if "$ref" in schema else schema
            self.show(page, f"/studio/{job['operationId']}")
            expect(page.locator("h1")).to_have_text(job["summary"])
            # Collapsed groups count as one field.
            fields = page.locator("form .field:not(:is(.group, .groups) .field)")
            expect(fields).to_have_count(len(schema["properties"]))

        self.show(page, "/studio/upscaleImage")
        creativity = page.get_by_label("Creativity", exact=True)
        range_and_default = [creativity.get_attribute(name) for name in ("min", "max")] + [creativity.input_value()]
        self.assertEqual(range_and_default, ["-10", "10", "0"])
        factors = page.get_by_label("Scale factor")
        self.assertEqual(factors.locator("option").evaluate_all("all => all.map(it => it.value)"), ["2x", "4x", "8x", "16x"])
        self.assertEqual(factors.input_value(), "2x")

    def test_an_image_result_is_compared_with_its_input(self):
        page = self.page("/studio/upscaleImage", token=ADMIN)
        picture(page).set_input_files(IMAGE)
        page.get_by_role("button", name="Generate").click()
        result = page.locator("img[data-result]")
        result.wait_for()
        self.until(page, "document.querySelector('img[data-result]').naturalWidth > 0")
        self.assertEqual(result.evaluate("it => [it.naturalWidth, it.naturalHeight]"), [240, 160])
        expect(page.locator(".result-panel")).to_contain_text("Completed")
        expect(page.locator(".compare")).to_contain_text("120 × 80")

        slider = page.get_by_label("Compare before and after")
        at = lambda: page.locator(".compare").evaluate("it => it.style.getPropertyValue('--at')")
        self.assertEqual(at(), "50%")
        slider.focus()
        page.keyboard.press("ArrowRight")
        self.assertEqual(at(), "51%")

        page.get_by_role("link", name="Task details").click()
        expect(page.get_by_role("heading", name="Upscale an image")).to_be_visible()
        expect(page.locator(".course .state")).to_have_text(["Created", "In progress", "Completed"])
        # The studio keeps the result, and the page of the task compares it after a reload.
        page.go_back()
        expect(page.locator("img[data-result]")).to_be_visible()
        page.go_forward()
        page.reload()
        self.until(page, "document.querySelector('img[data-result]')?.naturalWidth === 240")
        expect(page.locator(".compare")).to_contain_text("120 × 80")

    def test_the_number_of_picture_inputs_matches_the_limit(self):
        # Given services that accept one picture and two pictures
        page = self.page("/studio/startEndToVideo", token=ADMIN)
        places = page.locator(".pictures > *")
        page.get_by_role("button", name="Use sample").click()
        expect(page.locator(".given")).to_have_count(1)
        expect(places).to_have_count(1)
        expect(page.get_by_text("at most 1 picture")).to_be_visible()
        other = document()
        other["components"]["schemas"]["StartEndVideoBody"]["properties"]["images"]["maxItems"] = 2
        page.route("**/console/jobs.json", lambda route: route.fulfill(json=other))
        page.reload()
        page.get_by_role("button", name="Use sample").click()
        expect(places).to_have_count(2)
        expect(page.get_by_text("at most 2 pictures")).to_be_visible()
        # And options have the exact API values
        expect(page.get_by_label("Model").locator("option")).to_contain_text(["vq3-pro (default)", "vq2-pro-fast"])

    def test_on_a_phone_a_job_is_chosen_from_a_list_and_its_result_comes_into_view(self):
        page = self.page("/studio/upscaleImage", token=ADMIN, size={"width": 360, "height": 740})
        page.get_by_role("combobox", name="Job").select_option("relightImage")
        expect(page.locator("h1")).to_have_text("Relight an image")
        page.get_by_role("combobox", name="Job").select_option("upscaleImage")
        page.get_by_role("button", name="Use sample").click()
        expect(page.locator(".given")).to_be_visible()
        page.get_by_role("button", name="Generate").click()
        expect(page.locator("img[data-result]")).to_be_in_viewport(ratio=1)
        self.until(page, "document.querySelector('.result-panel').getBoundingClientRect().top < innerHeight / 4")

    def test_parameters_are_sent_and_change_the_result(self):
        page = self.page("/studio/upscaleImage", token=ADMIN)
        page.get_by_role("button", name="Use sample").click()
        page.get_by_label("Scale factor").select_option("4x")
        page.get_by_text("Advanced", exact=True).click()
        page.get_by_label("Creativity", exact=True).fill("7")
        page.get_by_label("Prompt").fill("hills")
        with page.expect_request("**" + UPSCALE) as sent:
            page.get_by_role("button", name="Generate").click()
        body = sent.value.post_data_json
        self.assertEqual({**body, "image": ""}, {"image": "", "scale_factor": "4x", "creativity": 7, "prompt": "hills"})
        self.until(page, "document.querySelector('img[data-result]')?.naturalWidth === 1920", seconds=2 * TIMEOUT_S)

    def test_focused_fields_are_not_covered_by_sticky_buttons(self):
        for size in (WIDE, NARROW):
            page = self.page("/studio/upscaleImage", token=ADMIN, size=size)
            make = page.get_by_role("button", name="Generate")
            page.get_by_text("Advanced", exact=True).click()
            expect(page.locator("input[type=url]").and_(page.get_by_label("Webhook URL"))).to_be_visible()
            for field in page.locator("form").locator("input[type=text]:visible, input[type=url]:visible, textarea:visible, select:visible").all():
                field.focus()
                middle = field.evaluate("it => { const { top, bottom } = it.getBoundingClientRect(); return (top + bottom) / 2; }")
                self.assertLess(middle, make.bounding_box()["y"], field.get_attribute("id"))

    def test_pictures_are_dropped_and_pasted(self):
        page = self.page("/studio/relightImage", token=ADMIN)
        give = """([kind, bytes]) => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], `${kind}.png`, { type: 'image/png' }));
            const event = kind === 'drop' ? new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })
                : new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true });
            document.querySelector('.drop').dispatchEvent(event);
        }"""
        expect(page.locator(".drop").first).to_be_visible()
        page.evaluate(give, ["drop", list(png(8, 8))])
        expect(page.locator(".given")).to_have_text([re.compile("drop.png")])
        page.get_by_role("button", name="Remove drop.png").click()
        expect(page.locator(".given")).to_have_count(0)
        # A paste at the moment the dropped picture appears goes to the next input.
        page.evaluate('''() => new MutationObserver((_, observer) => {
            if (!document.querySelector('.given')) return;
            observer.disconnect();
            window.pasteNow();
        }).observe(document.body, { childList: true, subtree: true })''')
        page.evaluate(f"(bytes) => {{ window.pasteNow = () => ({give})(['paste', bytes]) }}", list(png(8, 8)))
        page.evaluate(give, ["drop", list(png(8, 8))])
        expect(page.locator(".given")).to_have_count(2)
        page.get_by_role("button", name="Remove drop.png").click()
        expect(page.locator(".given")).to_have_count(1)

    def test_rich_text_is_pasted_as_text_and_stray_drops_are_ignored(self):
        page = self.page("/studio/upscaleImage", token=ADMIN)
        page.locator(".drop").first.wait_for()
        page.get_by_label("Prompt").focus()
        # Given the clipboard of a word processor: text and a picture of it
        prevented = page.evaluate("""() => {
            const data = new DataTransfer();
            data.setData('text/plain', 'hills');
            data.items.add(new File([new Uint8Array(1)], 'text.png', { type: 'image/png' }));
            const event = new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true });
            document.activeElement.dispatchEvent(event);
            return event.defaultPrevented;
        }""")
        self.assertFalse(prevented)
        # And a file dropped outside the input, or an unreadable one
        drop = """([where, name, type]) => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(1)], name, { type }));
            const event = new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true });
            document.querySelector(where).dispatchEvent(event);
            return event.defaultPrevented;
        }"""
        self.assertTrue(page.evaluate(drop, ["h1", "beside.png", "image/png"]))
        expect(page.locator(".given")).to_have_count(0)
        page.evaluate("FileReader.prototype.readAsDataURL = function () { this.dispatchEvent(new Event('error')); }")
        self.assertTrue(page.evaluate(drop, [".drop", "gone.png", "image/png"]))
        expect(page.locator(".notes .warn")).to_have_text(re.compile("gone.png cannot be read"))
        self.assertTrue(page.evaluate(drop, [".drop", "letter.txt", "text/plain"]))
        expect(page.locator(".notes .warn").last).to_have_text(re.compile("letter.txt is not a picture"))

    def test_a_picture_that_is_dropped_on_another_takes_its_place(self):
        page = self.page("/studio/upscaleImage", token=ADMIN)
        picture(page).set_input_files(IMAGE)
        expect(page.locator(".given")).to_contain_text(IMAGE["name"])
        page.evaluate("""(bytes) => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], 'other.png', { type: 'image/png' }));
            document.querySelector('.given').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
        }""", list(png(8, 8)))
        expect(page.locator(".given strong")).to_have_text("other.png")
        self.until(page, "document.querySelector('.given img').naturalWidth === 8")

    def test_object_urls_are_revoked(self):
        page = self.page("/studio/upscaleImage", token=ADMIN)
        page.evaluate("""() => {
            window.held = new Set();
            const { createObjectURL, revokeObjectURL } = URL;
            URL.createObjectURL = (file) => { const address = createObjectURL(file); window.held.add(address); return address; };
            URL.revokeObjectURL = (address) => { window.held.delete(address); revokeObjectURL(address); };
        }""")
        picture(page).set_input_files(IMAGE)
        page.get_by_role("button", name="Generate").click()
        expect(page.locator("img[data-result]")).to_be_visible()
        # Given a picture shown in the form and beside its result
        self.assertEqual(page.evaluate("window.held.size"), 2)
        page.get_by_role("button", name="Reset").click()
        self.until(page, "window.held.size === 0")

    def test_a_job_continues_while_another_page_is_open(self):
        # Given a slow submission, and a user who leaves the studio
        page = self.page("/studio/upscaleImage", token=ADMIN)
        held = []
        page.route("**" + UPSCALE, lambda route: held.append(route))
        picture(page).set_input_files(IMAGE)
        page.get_by_role("button", name="Generate").click()
        self.show(page, "/nodes")
        expect(page.get_by_role("heading", name="Nodes")).to_be_visible()
        wait_until(lambda: (page.wait_for_timeout(20), held)[1])
        with page.expect_response("**" + UPSCALE):
            held[0].continue_()
        # Then the result is there when they return
        self.show(page, "/studio/upscaleImage")
        expect(page.locator("img[data-result]")).to_be_visible()
        expect(page.get_by_role("button", name="Generate")).to_be_enabled()

    def test_a_retry_reuses_the_idempotency_key(self):
        page = self.page("/studio/upscaleImage", token=ADMIN, allowed=(503,))
        busy = json.dumps({"title": "Busy", "status": 503, "error": "overloaded"})
        keys = []

        def refuse(route):
            keys.append(route.request.headers["idempotency-key"])
            if len(keys) in (3, 4):
                return route.continue_()
            return route.fulfill(status=503, content_type="application/problem+json", body=busy)

        page.route("**" + UPSCALE, refuse)
        picture(page).set_input_files(IMAGE)
        make = page.get_by_role("button", name="Generate")
        # When it is sent with a lost first response, resent, changed, and sent again
        for number, prompt in enumerate((None, None, "hills", None), start=1):
            if prompt:
                page.get_by_label("Prompt").fill(prompt)
            with page.expect_response("**" + UPSCALE):
                make.click()
            expect(make).to_be_enabled()
            self.assertEqual(len(keys), number)
        # Then only requests with an unknown outcome reuse the key
        self.assertEqual(keys[0], keys[1])
        self.assertEqual(len(set(keys)), 3)

    def test_a_change_of_user_clears_the_studio(self):
        # Given a filled form and a running task
        silent = socketserver.TCPServer(("127.0.0.1", 0), None, bind_and_activate=True)
        ada, bob = user("Ada of the studio"), user("Bob of the studio")
        page = self.page("/studio/upscaleImage", token=ada["token"])
        page.get_by_label("Image: URL").first.fill(f"http://127.0.0.1:{silent.server_address[1]}/a.png")
        page.get_by_label("Prompt").fill("of Ada")
        ended = []
        for event in ("requestfailed", "requestfinished"):
            page.on(event, lambda request: ended.append(request.url) if request.url.endswith("/events") else None)
        page.get_by_role("button", name="Generate").click()
        expect(page.locator(".task-state .state")).to_have_text("Created")
        self.assertEqual(ended, [])
        # When another user signs in
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Prompt")).to_have_value("")
        wait_until(lambda: (page.wait_for_timeout(20), ended)[1])
        page.get_by_label("Prompt").fill("of nobody yet")
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.get_by_label("Token", exact=True).fill(bob["token"])
        page.keyboard.press("Enter")
        expect(page.locator(".who")).to_contain_text("Bob")
        # Then only their own values are shown
        expect(page.locator(".task-state")).to_have_count(0)
        expect(page.get_by_label("Image: URL").first).to_have_value("")
        expect(page.get_by_label("Prompt")).to_have_value("of nobody yet")
        silent.server_close()

    def test_errors_are_shown_at_their_fields(self):
        page = self.page("/studio/relightImage", token=ADMIN, allowed=(400,))
        page.get_by_role("button", name="Generate").click()
        expect(page.locator(".field.faulty")).to_have_count(1)
        expect(page.locator(".field.faulty").first).to_contain_text("Image")
        picture(page).set_input_files({"name": "text.png", "mimeType": "image/png", "buffer": b"no picture"})
        page.get_by_text("Advanced", exact=True).click()
        page.get_by_text("Advanced settings").click()
        page.get_by_label("Whites, as a number").fill("101")
        page.get_by_text("Advanced settings").click()
        page.get_by_role("button", name="Generate").click()
        expect(page.get_by_label("Whites", exact=True)).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_role("alert").first).to_contain_text("2 invalid fields")
        expect(page.get_by_label("Whites", exact=True)).to_be_visible()

    def test_the_curl_command_works_in_a_shell(self):
        page = self.page("/studio/upscaleImage", token=ADMIN)
        picture(page).set_input_files(IMAGE)
        prompt = "it's $HOME `id` \\ \"quoted\"\n$(id)"
        page.get_by_label("Prompt").fill(prompt)
        page.get_by_text("As code").click()
        line = page.locator(".curl pre code").inner_text()
        self.assertIn("Bearer $TOKEN", line)
        self.assertNotIn(ADMIN, page.content())
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, IMAGE["name"]), "wb") as file:
                file.write(IMAGE["buffer"])
            environment = {**os.environ, "TOKEN": ADMIN}
            answer = subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, check=True, timeout=TIMEOUT_S)
        task = json.loads(answer.stdout)["data"]["task_id"]
        submitted = send("GET", f"/admin/events?stream=task/{task}&type=TaskSubmitted")["events"][0]["data"]
        self.assertIn(prompt, flat(submitted))

    def test_the_curl_command_reads_only_saved_files(self):
        # Given two pictures that are in no folder, and words that look like marks
        page = self.page("/studio/transferStyle", token=ADMIN)
        prompt = "\\u0001secret\\u0001 $(cat secret)"
        page.get_by_label("Prompt").fill(prompt)
        page.get_by_role("button", name="Use sample").first.click()
        expect(page.locator(".given")).to_have_count(1)
        page.get_by_role("button", name="Use sample").first.click()
        expect(page.locator(".given")).to_have_count(2)
        page.get_by_text("As code").click()
        line = page.locator(".curl pre code").inner_text()
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "secret").write_text("not to be read")
            for number, button in enumerate(page.locator(".files button").all(), start=1):
                with page.expect_download() as download:
                    button.click()
                self.assertEqual(download.value.suggested_filename, "portrait.webp" if number == 1 else "landscape.webp")
                download.value.save_as(Path(folder, download.value.suggested_filename))
            # When the line is run where they were saved
            environment = {**os.environ, "TOKEN": ADMIN}
            answer = subprocess.run(["sh", "-c", line], cwd=folder, env=environment, capture_output=True, check=True, timeout=TIMEOUT_S)
        # Then it does the job with them
        task = json.loads(answer.stdout)["task_id"]
        submitted = flat(send("GET", f"/admin/events?stream=task/{task}&type=TaskSubmitted")["events"][0]["data"])
        self.assertIn(prompt, submitted)
        self.assertNotIn(base64.b64encode(b"not to be read").decode(), submitted)

    def test_the_copy_button_does_not_cover_long_lines(self):
        for size in (WIDE, NARROW):
            page = self.page("/studio/upscaleImage", token=ADMIN, size=size)
            page.get_by_label("Prompt").fill("a long prompt without an end " * 8)
            page.get_by_text("As code").click()
            text, button = page.locator(".curl pre").bounding_box(), page.locator(".curl .copy").bounding_box()
            self.assertGreater(page.locator(".curl pre").evaluate("(pre) => pre.scrollWidth - pre.clientWidth"), 0)
            self.assertLessEqual(text["x"] + text["width"], button["x"])
            self.assertLessEqual(button["x"] + button["width"], size["width"])


def flat(value):
    """Yields all strings in a value."""
    if isinstance(value, dict):
        return "\0".join(flat(inner) for inner in value.values())
    return "\0".join(map(flat, value)) if isinstance(value, list) else str(value)


class Tasks(BrowserTest):
    def submit(self, size=(64, 64), token=ADMIN, **fields):
        body = {"image": base64.b64encode(png(*size)).decode(), **fields}
        return send("POST", UPSCALE, body, token=token)["data"]["task_id"]

    def test_a_task_is_followed_live(self):
        # An input server that never responds keeps the task running until it is cancelled.
        silent = socketserver.TCPServer(("127.0.0.1", 0), None, bind_and_activate=True)
        task = send("POST", UPSCALE, {"image": f"http://127.0.0.1:{silent.server_address[1]}/a.png"})["data"]["task_id"]
        page = self.page(f"/tasks/{task}", token=ADMIN)
        expect(page.locator(".task-state .state")).to_have_text("Created")
        send("POST", f"/tasks/{task}/cancel", {})
        expect(page.locator(".task-state .state")).to_have_text("Failed")
        expect(page.get_by_role("alert")).to_contain_text("Cancelled")
        silent.server_close()

    def test_cancelling_asks_for_confirmation(self):
        # Given a video that waits for its picture and holds credits
        silent = socketserver.TCPServer(("127.0.0.1", 0), None, bind_and_activate=True)
        film = {"images": [f"http://127.0.0.1:{silent.server_address[1]}/a.png"], "model": "vq2-turbo", "duration": 1}
        made = send("POST", "/proxy/videovendor/start-end2video", film)
        state = lambda: send("GET", f"/tasks/{made['task_id']}")["state"]
        page = self.page(f"/tasks/{made['task_id']}", token=ADMIN)
        dialog = page.get_by_role("dialog")
        # When the user opens the confirmation by keyboard, then nothing is cancelled yet, and the loss is stated
        page.get_by_role("button", name="Cancel task").focus()
        page.keyboard.press("Enter")
        for said in ("cannot be resumed", f"{made['credits']} credits", "may still charge for it"):
            expect(dialog).to_contain_text(said)
        expect(dialog.get_by_role("button", name="Keep running")).to_be_focused()
        # And Enter and Escape keep it running
        for key in ("Enter", "Escape"):
            page.keyboard.press(key)
            expect(dialog).to_have_count(0)
            self.assertEqual(state(), "created")
            page.get_by_role("button", name="Cancel task").click()
            expect(dialog.get_by_role("button", name="Keep running")).to_be_focused()
        # And confirming cancels it
        dialog.get_by_role("button", name="Cancel task").click()
        expect(dialog).to_have_count(0)
        expect(page.locator(".task-state .state")).to_have_text("Failed")
        expect(page.get_by_role("button", name="Cancel task")).to_have_count(0)
        self.assertEqual(state(), "failed")
        silent.server_close()

    def test_a_task_that_ended_during_the_confirmation_is_not_cancelled(self):
        silent = socketserver.TCPServer(("127.0.0.1", 0), None, bind_and_activate=True)
        task = send("POST", UPSCALE, {"image": f"http://127.0.0.1:{silent.server_address[1]}/a.png"})["data"]["task_id"]
        page = self.page(f"/tasks/{task}", token=ADMIN)
        page.get_by_role("button", name="Cancel task").click()
        # An invalid picture ends the task.
        silent.RequestHandlerClass = NoPicture
        threading.Thread(target=silent.serve_forever, daemon=True).start()
        expect(page.get_by_role("dialog")).to_contain_text("Task already ended")
        page.get_by_role("button", name="Close", exact=True).last.click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        silent.shutdown()
        silent.server_close()

    def test_a_cancelled_video_shows_its_refund(self):
        silent = socketserver.TCPServer(("127.0.0.1", 0), None, bind_and_activate=True)
        film = {"images": [f"http://127.0.0.1:{silent.server_address[1]}/a.png"], "model": "vq2-turbo", "duration": 1}
        made = send("POST", "/proxy/videovendor/start-end2video", film)
        task, credits = made["task_id"], made["credits"]
        self.assertGreater(credits, 0)
        page = self.page("/tasks", token=ADMIN)
        row = page.get_by_role("row").filter(has_text=task)
        expect(row.locator("[data-label=Price]")).to_have_text(f"{credits} credits")
        send("POST", f"/tasks/{task}/cancel", {})
        page.reload()
        expect(row.locator("[data-label=Price]")).to_have_text(f"{credits} credits, refunded")
        self.show(page, f"/tasks/{task}")
        expect(page.get_by_text(f"{credits} credits, refunded")).to_be_visible()
        silent.server_close()

    def test_a_lost_event_stream_resumes(self):
        silent = socketserver.TCPServer(("127.0.0.1", 0), None, bind_and_activate=True)
        task = send("POST", UPSCALE, {"image": f"http://127.0.0.1:{silent.server_address[1]}/a.png"})["data"]["task_id"]
        page = self.page("/nodes", token=ADMIN, allowed=("failed",))
        asked = []

        def break_once(route):
            asked.append(route.request.headers.get("last-event-id"))
            if len(asked) > 1:
                return route.continue_()
            shown = json.dumps(send("GET", f"/tasks/{task}"))
            return route.fulfill(status=200, content_type="text/event-stream", body=f"retry: 10\n\nid: 7\nevent: snapshot\ndata: {shown}\n\n")

        page.route("**/events", break_once)
        self.show(page, f"/tasks/{task}")
        self.until(page, "document.querySelector('.task-state')")
        wait_until(lambda: (page.wait_for_timeout(50), len(asked) > 1)[1])
        self.assertEqual(asked[:2], [None, "7"])
        send("POST", f"/tasks/{task}/cancel", {})
        expect(page.locator(".task-state .state")).to_have_text("Failed")
        silent.server_close()

    def test_deliveries_are_listed_and_redelivered(self):
        # A receiver that fails once: the first delivery is retried after five seconds, and the second waits for it.
        receiver = Receiver(500)
        task = self.submit(webhook_url=receiver.url)
        page = self.page(f"/tasks/{task}", token=ADMIN)
        first = page.locator(".deliveries > li").first
        again = first.get_by_role("button", name="Redeliver")
        attempts = first.locator("tbody tr")
        expect(first).to_contain_text("500")
        expect(attempts).to_have_count(2)
        expect(first.locator(".state")).to_have_text("Delivered")
        expect(page.locator(".deliveries > li .state")).to_have_text(["Delivered", "Delivered"])
        before = len(receiver.taken)
        again.click()
        expect(page.get_by_text("Queued again")).to_be_visible()
        expect(attempts).to_have_count(3)
        expect(first.locator(".state")).to_have_text("Delivered")
        self.assertEqual(len(receiver.taken), before + 1)
        self.assertEqual(receiver.taken[-1], receiver.taken[0])

    def test_pending_deliveries_cannot_be_redelivered(self):
        gone = Receiver(500)
        task = self.submit(webhook_url=gone.url)
        page = self.page(f"/tasks/{task}", token=ADMIN, allowed=(409,))
        first = page.locator(".deliveries > li").first
        expect(first.locator(".state")).to_have_text("Pending")
        expect(first.get_by_role("button", name="Redeliver")).to_have_count(0)
        # When it was already redelivered, then the page says so without an error.
        expect(first.locator(".state")).to_have_text("Delivered")
        refused = {"type": "about:blank", "title": "Conflict", "status": 409, "error": "delivery_pending", "detail": "It is still to be made."}
        page.route("**/redeliver", lambda route: route.fulfill(status=409, content_type="application/problem+json", body=json.dumps(refused)))
        first.get_by_role("button", name="Redeliver").click()
        expect(page.get_by_text("Already queued")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)

    def test_relative_times_fit_their_sentences_and_stay_correct(self):
        # Given a blocked task, an open page, and a clock that can be moved
        silent = socketserver.TCPServer(("127.0.0.1", 0), None, bind_and_activate=True)
        task = send("POST", UPSCALE, {"image": f"http://127.0.0.1:{silent.server_address[1]}/a.png"})["data"]["task_id"]
        at = lambda **delta: (datetime.now(timezone.utc) + timedelta(**delta)).isoformat(timespec="microseconds").replace("+00:00", "Z")
        blocked = {"code": "vendor_unreachable", "message": "no response", "since": at(hours=-3), "next_attempt_at": at(hours=5)}
        answer = {**send("GET", f"/tasks/{task}"), "blocked_by": blocked}
        page = self.page("/nodes", token=ADMIN)
        asked = []

        def answer_once(route):
            asked.append(route)
            # Without further responses, only the passing of time changes the page.
            if len(asked) == 1:
                route.fulfill(status=200, content_type="text/event-stream", body=f"id: 7\nevent: snapshot\ndata: {json.dumps(answer)}\n\n")

        page.route("**/events", answer_once)
        page.clock.install()
        self.show(page, f"/tasks/{task}")
        state = page.locator(".task-state")
        # Then the sentence names the last and the next attempt, and follows the time
        expect(state).to_contain_text("Last attempt 3 hours ago, the next attempt is in 5 hours.")
        page.clock.fast_forward("01:00:00")
        expect(state).to_contain_text("Last attempt 4 hours ago, the next attempt is in 4 hours.")
        page.clock.fast_forward("05:00:00")
        expect(state).to_contain_text("Last attempt 9 hours ago, the next attempt is due now.")
        send("POST", f"/tasks/{task}/cancel", {})
        silent.server_close()

    def test_times_fit_their_labels(self):
        publisher, (node,) = registry()
        task = self.submit()
        wait_until(lambda: send("GET", f"/tasks/{task}")["state"] == "COMPLETED")
        # Given a browser whose clock is behind the service's by an hour
        page = self.page("/nodes", token=ADMIN)
        page.clock.install(time=datetime.now(timezone.utc) - timedelta(hours=1))
        for path, label, time in ((f"/publishers/{publisher}", "Created", "just now"), (f"/nodes/{node}/about", "Created", "just now"),
                                  (f"/tasks/{task}", "Submitted", "just now"), (f"/tasks/{task}", "Results deleted", r"(in \d+ days|next week|in \d+ weeks|next month)")):
            # Then a past moment is not in the future, and a future one is
            self.show(page, path)
            entry = page.locator(".facts > div").filter(has=page.get_by_text(label, exact=True))
            expect(entry.locator("time")).to_have_text(re.compile(f"^{time}$"))

    def test_tasks_are_listed_filtered_and_paged(self):
        ada = user("Ada of the tasks")
        for _ in range(27):
            self.submit(size=(2, 2), token=ada["token"])
        page = self.page("/tasks", token=ada["token"])
        rows = page.locator(".tasks tbody tr")
        expect(rows).to_have_count(25)
        page.get_by_role("button", name="Older tasks").click()
        expect(rows).to_have_count(27)
        page.get_by_label("Kind").select_option("image-relight")
        expect(page.get_by_role("heading", name="No matching tasks")).to_be_visible()
        page.get_by_label("Kind").select_option("image-upscaler")
        page.get_by_label("State").select_option("COMPLETED")
        page.reload()
        expect(rows.first).to_contain_text("Completed")
        rows.first.get_by_role("link").click()
        expect(page.get_by_role("heading", name="Timeline", exact=True)).to_be_visible()


class Video(BrowserTest):
    def test_a_film_is_made_and_plays(self):
        page = self.page("/studio/startEndToVideo", token=ADMIN)
        page.locator("input[type=file]").first.set_input_files(IMAGE)
        page.get_by_text("Advanced", exact=True).click()
        page.get_by_label("Model", exact=True).select_option("vq2-pro-fast")
        page.get_by_label("Resolution", exact=True).select_option("360p")
        page.get_by_label("Duration, as a number", exact=True).fill("1")
        page.evaluate("""() => {
            window.progress = [];
            const note = () => window.progress.push(...[...document.querySelectorAll('.result-panel [role=progressbar]')].map(it => Number(it.ariaValueNow)));
            new MutationObserver(note).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ['aria-valuenow'] });
        }""")
        page.get_by_role("button", name="Generate").click()
        film = page.locator("video")
        film.wait_for(timeout=3 * TIMEOUT_S * 1000)
        film.evaluate("it => { it.muted = true; return it.play() }")
        # The progress bar was shown and never went back.
        progress = page.evaluate("window.progress")
        self.assertTrue(progress)
        self.assertEqual(progress, sorted(progress))
        self.until(page, "document.querySelector('video').getVideoPlaybackQuality().totalVideoFrames > 5")
        film_state = film.evaluate("it => ({ width: it.videoWidth, seconds: it.duration, error: it.error })")
        self.assertGreater(film_state["width"], 0)
        self.assertAlmostEqual(film_state["seconds"], 1, delta=0.2)
        self.assertIsNone(film_state["error"])
        # The video shows the input picture: the corners have its colours.
        corners = film.evaluate("""it => {
            const canvas = Object.assign(document.createElement('canvas'), { width: it.videoWidth, height: it.videoHeight });
            const draw = canvas.getContext('2d', { willReadFrequently: true });
            draw.drawImage(it, 0, 0);
            const at = (x, y) => [...draw.getImageData(Math.floor(x * (canvas.width - 1)), Math.floor(y * (canvas.height - 1)), 1, 1).data];
            return [at(0.3, 0.3), at(0.7, 0.7)];
        }""")
        self.assertGreater(corners[1][0], corners[0][0] + 30)
        self.assertGreater(corners[1][1], corners[0][1] + 30)


    def test_progress_begins_at_zero_and_never_decreases(self):
        # Given a video whose picture arrives late
        late = LatePicture(IMAGE["buffer"])
        page = self.page("/studio/startEndToVideo", token=ADMIN)
        page.get_by_label("Images 1: URL").fill(f"http://127.0.0.1:{late.server_address[1]}/a.png")
        page.evaluate("""() => {
            window.progress = [];
            const note = () => {
                const shown = document.querySelector('.result-panel [role=progressbar]')?.ariaValueNow;
                if (shown && Number(shown) !== window.progress.at(-1)) window.progress.push(Number(shown));
            };
            new MutationObserver(note).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ['aria-valuenow'] });
        }""")
        page.get_by_role("button", name="Generate").click()
        expect(page.get_by_role("progressbar", name="Task progress")).to_have_attribute("aria-valuenow", "0")
        # When it arrives and the video is made
        late.arrived.set()
        page.locator("video").wait_for(timeout=3 * TIMEOUT_S * 1000)
        # Then progress began at 0, rose while the video was made, and was complete only with the result
        progress = page.evaluate("window.progress")
        self.assertEqual(progress[0], 0)
        self.assertEqual(progress, sorted(progress))
        self.assertTrue([value for value in progress if 10 < value < 100], progress)
        self.assertLess(progress[-1], 100)
        late.shutdown()
        late.server_close()

    def film(self, page, prompt):
        """Fills in a short video from text."""
        page.get_by_label("Prompt", exact=True).fill(prompt)
        page.get_by_text("Advanced", exact=True).click()
        page.get_by_label("Model", exact=True).select_option("vq2-pro-fast")
        page.get_by_label("Resolution", exact=True).select_option("360p")
        page.get_by_label("Duration, as a number", exact=True).fill("1")

    def test_a_video_has_its_cover_as_poster(self):
        page = self.page("/studio/startEndToVideo", token=ADMIN)
        self.film(page, "rain")
        with page.expect_response("**/start-end2video") as answer:
            page.get_by_role("button", name="Generate").click()
        task = answer.value.json()["task_id"]
        page.locator("video").wait_for(timeout=3 * TIMEOUT_S * 1000)
        cover = send("GET", f"/tasks/{task}")["cover_url"]
        # In the studio and on the page of the task
        for path in ("/studio/startEndToVideo", f"/tasks/{task}"):
            self.show(page, path)
            expect(page.locator("video")).to_have_attribute("poster", cover)
            width = page.evaluate("""async () => {
                const poster = Object.assign(new Image(), { src: document.querySelector('video').poster });
                await poster.decode();
                return poster.naturalWidth;
            }""")
            # The video itself is not loaded before it is played.
            expect(page.locator("video")).to_have_attribute("preload", "none")
            page.evaluate("document.querySelector('video').preload = 'metadata'")
            self.until(page, f"document.querySelector('video').videoWidth === {width}")

    def test_understood_and_ignored_words_of_a_prompt_are_shown(self):
        page = self.page("/studio/startEndToVideo", token=ADMIN)
        self.film(page, "a purple elephant in the rain at night")
        page.get_by_role("button", name="Generate").click()
        # Then they are shown with the result, and on the page of the task
        page.locator("video").wait_for(timeout=3 * TIMEOUT_S * 1000)
        expect(page.locator(".task-state")).to_contain_text("Understood: rain, night. Ignored: purple, elephant.")
        page.get_by_role("link", name="Task details").click()
        expect(page.get_by_role("heading", name="Timeline", exact=True)).to_be_visible()
        expect(page.locator(".task-state")).to_contain_text("Understood: rain, night. Ignored: purple, elephant.")

    def test_a_prompt_that_is_not_understood_is_refused_and_not_charged(self):
        ada = user(name("Ada"))
        state = lambda: (send("GET", "/users/credits", token=ada["token"]), send("GET", "/tasks", token=ada["token"])["tasks"])
        before = state()
        page = self.page("/studio/startEndToVideo", token=ada["token"], allowed=(400,))
        self.film(page, "a purple elephant")
        page.get_by_role("button", name="Generate").click()
        # Then the field names the words and what is allowed, and nothing was charged
        field = page.locator(".field.faulty")
        expect(field).to_have_count(1)
        expect(field.get_by_label("Prompt", exact=True)).to_have_attribute("aria-invalid", "true")
        expect(field.locator(".fault")).to_contain_text("ignored: purple, elephant")
        expect(field.locator(".fault")).to_contain_text("name a place, weather, light or a camera move, or give a picture")
        expect(page.locator(".task-state")).to_have_count(0)
        self.assertEqual(state(), before)
        self.assertEqual(before[1], [])
        # And one understood word is enough
        page.get_by_label("Prompt", exact=True).fill("a purple elephant in the snow")
        page.get_by_role("button", name="Generate").click()
        expect(page.locator(".result-panel")).to_contain_text("Understood: snow. Ignored: purple, elephant.")
        expect(page.locator(".fault")).to_have_count(0)
        self.assertNotEqual(state()[0], before[0])


class Music(BrowserTest):
    def test_a_piece_is_made_and_plays(self):
        page = self.page("/studio/generateMusic", token=ADMIN)
        page.get_by_label("Prompt").fill("calm piano in the evening")
        page.get_by_label("Duration", exact=True).fill("4")
        page.get_by_role("button", name="Generate").click()
        expect(page.locator(".result-panel .state").first).to_have_text("Completed", timeout=3 * TIMEOUT_S * 1000)
        sound = page.locator("audio")
        self.until(page, "document.querySelector('audio').duration > 3")
        sound.evaluate("it => { it.muted = true; return it.play() }")
        self.until(page, "document.querySelector('audio').currentTime > 0.2")
        self.assertIsNone(sound.evaluate("it => it.error"))
        # A browser decodes four seconds of audible sound.
        with page.expect_download() as download:
            page.get_by_role("link", name="Download").click()
        with open(download.value.path(), "rb") as file:
            decoded = decode_sound(self.browser, file.read())
        self.assertAlmostEqual(decoded["seconds"], 4, delta=0.5)
        self.assertGreater(decoded["loudness"], 0.005)

    def test_music_is_followed_in_the_background_and_cancelled(self):
        # Given a long piece of music
        page = self.page("/studio/generateMusic", token=ADMIN)
        page.get_by_label("Prompt").fill("epic orchestral battle")
        page.get_by_label("Duration", exact=True).fill("300")
        page.get_by_role("button", name="Generate").click()
        come = page.locator(".music figcaption span")
        expect(come).to_have_text(re.compile(r"^[1-9]\d* of 300 s, "))
        # Then progress is shown, and the player only once there is audio
        expect(page.locator("audio")).to_have_count(0)
        expect(page.get_by_role("progressbar", name="Task progress")).to_be_visible()
        # And it continues while another page is open
        before = come.inner_text()
        self.show(page, "/nodes")
        self.show(page, "/studio/generateMusic")
        expect(come).not_to_have_text(before)
        expect(page.get_by_role("button", name="Generating")).to_be_disabled()
        # And it can be cancelled
        page.get_by_role("button", name="Cancel task").click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel task").click()
        expect(page.locator(".result-panel .state").first).to_have_text("Failed")
        expect(page.locator(".result-panel .trouble strong")).to_have_text("Cancelled")
        expect(page.get_by_role("button", name="Generate")).to_be_enabled()

    def test_reset_stops_the_music(self):
        page = self.page("/studio/generateMusic", token=ADMIN)
        page.get_by_label("Prompt").fill("calm piano")
        page.get_by_label("Duration", exact=True).fill("300")
        with page.expect_response("**/t2m/generate") as answer:
            page.get_by_role("button", name="Generate").click()
        task = answer.value.headers["x-task-id"]
        expect(page.locator(".music")).to_be_visible()
        page.get_by_role("button", name="Reset").click()
        expect(page.locator(".music")).to_have_count(0)
        expect(page.get_by_role("button", name="Generate")).to_be_enabled()
        wait_until(lambda: send("GET", f"/tasks/{task}")["state"] == "failed")
        self.assertEqual(send("GET", f"/tasks/{task}")["error"]["code"], "client_gone")

    def test_music_without_its_last_line_is_incomplete(self):
        chunk = lambda data: {"type": "audio_chunk", "stream_index": 0, "encoding": "mp3", "data": base64.b64encode(data).decode()}
        title, end = {"type": "title", "title": "Song", "display_tags": []}, {"type": "complete", "task_id": "1"}
        page = self.page("/studio/generateMusic", token=ADMIN, allowed=(404,))
        page.get_by_label("Prompt").fill("calm piano")

        def make(body):
            page.unroute_all()
            page.route("**/t2m/generate", lambda route: route.fulfill(status=200, content_type="application/x-ndjson", body=body))
            page.get_by_role("button", name="Generate").click()
            expect(page.get_by_role("button", name="Generate")).to_be_enabled()
            expect(page.locator(".music strong")).to_have_text("Song")
            return page.locator(".result-panel .state").first, page.locator(".result-panel .trouble strong")

        lines = lambda *events: "\n".join(map(json.dumps, events))
        # A stream without `complete`, a truncated line, an invalid line, and invalid audio
        for body in (lines(title, chunk(b"one")), lines(title, chunk(b"one")) + '\n{"type": "compl', lines(title) + "\n<html>\n", lines(title, {**chunk(b""), "data": "?"}, end)):
            state, trouble = make(body)
            expect(state).to_have_text("Failed")
            expect(trouble).to_have_text("Broken off")
        # And a second piece replaces the first
        downloads = []
        for data in (b"one", b"other"):
            state, trouble = make(lines(title, chunk(data), end))
            expect(state).to_have_text("Completed")
            expect(trouble).to_have_count(0)
            with page.expect_download() as download:
                page.get_by_role("link", name="Download").click()
            downloads.append(Path(download.value.path()).read_bytes())
        self.assertEqual(downloads, [b"one", b"other"])


if __name__ == "__main__":
    unittest.main()
