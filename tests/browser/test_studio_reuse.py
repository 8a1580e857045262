"""Studio: price and budget before a submission, and what can be done with results afterwards."""

import base64
import re
import socketserver
import unittest

from playwright.sync_api import expect

from support import ADMIN, NARROW, TIMEOUT_S, BrowserTest, Receiver, name, png, send, user, wait_until

IMAGE = {"name": "gradient.png", "mimeType": "image/png", "buffer": png(120, 80)}
UPSCALE = "/proxy/imagevendor/v1/ai/image-upscaler"
FILM = {"prompt": "rain", "model": "vq2-pro-fast", "resolution": "360p", "duration": 1}


def upscaled(person, **fields):
    """Id of a completed task with a picture of 240 by 160 pixels."""
    body = {"image": base64.b64encode(IMAGE["buffer"]).decode(), **fields}
    task = send("POST", UPSCALE, body, token=person["token"])["data"]["task_id"]
    wait_until(lambda: send("GET", f"/tasks/{task}")["state"] == "COMPLETED")
    return task


def filmed(person):
    """Id of a completed video task."""
    task = send("POST", "/proxy/videovendor/start-end2video", FILM, token=person["token"])["task_id"]
    wait_until(lambda: send("GET", f"/tasks/{task}")["state"] == "success", seconds=3 * TIMEOUT_S)
    return task


class Price(BrowserTest):
    def test_the_price_is_shown_before_the_submission(self):
        ada = user(name("Ada"))
        page = self.page("/studio/startEndToVideo", token=ada["token"])
        price = page.locator(".price")
        estimate = lambda job, body: send("POST", f"/proxy/videovendor/{job}?estimate=true", body, token=ada["token"])["credits"]
        # The price does not depend on the inputs, so it is there before them
        expect(price.locator("strong")).to_have_text(f"{estimate('start-end2video', {'prompt': 'rain'})} credits")
        # When the form changes, then the price is the one of the service
        prices = []
        for duration in (1, 4):
            page.get_by_label("Prompt", exact=True).fill("rain")
            page.get_by_label("Duration, as a number", exact=True).fill(str(duration))
            prices.append(estimate("start-end2video", {"prompt": "rain", "duration": duration}))
            expect(price.locator("strong")).to_have_text(f"{prices[-1]} credits")
        self.assertGreater(prices[1], prices[0])
        # And nothing was submitted or charged
        self.assertEqual(send("GET", "/tasks", token=ada["token"])["tasks"], [])
        # And a value that is out of range has no price
        page.get_by_label("Duration, as a number", exact=True).fill("99")
        expect(price).to_have_text("")
        # And the other jobs have one too, except an extension without a model
        self.show(page, "/studio/multiframeToVideo")
        frames = [{"key_image": base64.b64encode(png(8, 8)).decode()}] * 2
        expect(price.locator("strong")).to_have_text(f"{estimate('multiframe', {'image_settings': frames})} credits")

    def test_a_free_job_says_so(self):
        page = self.page("/studio/upscaleImage", token=user(name("Ada"))["token"])
        page.get_by_role("button", name="Use sample").click()
        expect(page.locator(".price")).to_have_text("Free")

    def test_visitors_see_the_prices_of_the_public_list(self):
        listed = {model["path"]: model["price"] for model in send("GET", "/models", token=None)["models"]}
        self.assertEqual(listed["/proxy/imagevendor/v1/ai/image-upscaler"]["credits"], 0)
        # Given prices of images and of music
        prices = {"/proxy/imagevendor/v1/ai/image-upscaler": {"credits": 3}, "/proxy/musicvendor/t2m/generate": {"credits": 2, "credits_per_second": 4}}
        page = self.page("/nothing", allowed=(404,))
        models = {"models": [{"path": path, "price": price} for path, price in prices.items()]}
        page.route("**/models", lambda route: route.fulfill(json=models))
        submitted = []
        page.on("request", lambda request: submitted.append(request.url) if request.method == "POST" else None)
        # When a visitor who is not signed in opens them, then there are their prices, without a request for an estimate
        self.show(page, "/studio/upscaleImage")
        price = page.locator(".price")
        expect(price).to_have_text("3 credits")
        self.show(page, "/studio/generateMusic")
        expect(price).to_have_text("2 credits and 4 credits per second")
        page.get_by_label("Duration", exact=True).fill("10")
        expect(price).to_have_text("42 credits")
        self.assertEqual(submitted, [])
        # And a video has the price of its estimate
        self.show(page, "/studio/startEndToVideo")
        expect(price.locator("strong")).to_contain_text("credits")

    def test_a_budget_that_does_not_cover_the_job_is_explained(self):
        ada = user(name("Ada"))
        send("PUT", f"/admin/budgets/user/{ada['id']}", {"credits": 1, "period": "day"})
        page = self.page("/studio/startEndToVideo", token=ada["token"], allowed=(402,))
        page.get_by_label("Prompt", exact=True).fill("rain")
        with page.expect_response("**/start-end2video") as response:
            page.get_by_role("button", name="Generate").click()
        self.assertEqual(response.value.status, 402)
        alert = page.get_by_role("alert")
        for text in ("The budget does not cover this job", "daily budget of your account is 1 credit", "0 spent, 0 held by running tasks, 1 left", "resets on", "Nothing was charged"):
            expect(alert).to_contain_text(text)
        self.assertEqual(send("GET", "/tasks", token=ada["token"])["tasks"], [])
        # And with more budget the same form succeeds
        send("PUT", f"/admin/budgets/user/{ada['id']}", {"credits": 1000, "period": "day"})
        page.get_by_role("button", name="Generate").click()
        expect(page.locator(".task-state")).to_be_visible()
        expect(page.get_by_text("The budget does not cover this job")).to_have_count(0)


class Gallery(BrowserTest):
    def test_results_are_still_there_after_a_reload(self):
        ada = user(name("Ada"))
        page = self.page("/studio/upscaleImage", token=ada["token"])
        expect(page.get_by_text("No results yet")).to_be_visible()
        page.locator("input[type=file]").first.set_input_files(IMAGE)
        page.get_by_label("Prompt").fill("hills in the morning")
        page.get_by_role("button", name="Generate").click()
        page.locator("img[data-result]").wait_for()
        # The result is in the gallery of the job and of the studio, beside its input.
        shot = page.locator(".shot")
        for path in ("/studio/upscaleImage", "/studio"):
            self.show(page, path)
            for _ in range(2):
                expect(shot).to_have_count(1)
                expect(shot).to_contain_text("hills in the morning")
                self.until(page, "[120, 240].every((width, at) => [...document.querySelectorAll('.shot img')][at]?.naturalWidth === width)")
                page.reload()
        # Other users do not see it.
        other = self.page("/studio", token=user(name("Bob"))["token"])
        expect(other.get_by_text("No results yet")).to_be_visible()

    def test_the_gallery_loads_small_pictures_when_they_come_into_view(self):
        # Given many large results
        ada = user(name("Ada"))
        picture = base64.b64encode(png(1200, 800)).decode()
        made = [send("POST", "/proxy/imagevendor/v1/ai/image-upscaler", {"image": picture}, token=ada["token"])["data"]["task_id"] for _ in range(12)]
        wait_until(lambda: all(send("GET", f"/tasks/{task}")["state"] == "COMPLETED" for task in made), seconds=3 * TIMEOUT_S)
        # When the studio is opened, then no picture is loaded whole, and not all of them
        page = self.page("/nothing", token=ada["token"], size=NARROW, allowed=(404,))
        loaded = []
        page.on("response", lambda response: loaded.append(response) if "/media/" in response.url else None)
        for path in ("/studio", "/studio/upscaleImage", "/tasks"):
            loaded.clear()
            self.show(page, path)
            page.locator(".shot img, .task-cell img").first.scroll_into_view_if_needed()
            self.until(page, "document.querySelector('.shot img, .task-cell img')?.naturalWidth > 0")
            self.assertTrue(all("thumbnail=" in response.url for response in loaded), [response.url for response in loaded])
            self.assertLess(sum(len(response.body()) for response in loaded), 300_000)

    def test_results_without_a_token_belong_to_the_browser(self):
        page = self.page("/studio/startEndToVideo")
        page.get_by_label("Prompt", exact=True).fill("rain over hills")
        page.get_by_text("Advanced", exact=True).click()
        page.get_by_label("Model", exact=True).select_option("vq2-pro-fast")
        page.get_by_label("Resolution", exact=True).select_option("360p")
        page.get_by_label("Duration, as a number", exact=True).fill("1")
        page.get_by_role("button", name="Generate").click()
        page.locator("video").wait_for(timeout=3 * TIMEOUT_S * 1000)
        page.reload()
        expect(page.locator(".shot")).to_contain_text("rain over hills")
        page.get_by_role("button", name="Forget them").click()
        expect(page.locator(".shot")).to_have_count(0)
        page.reload()
        expect(page.get_by_text("No results yet")).to_be_visible()

    def test_a_task_runs_again_with_the_same_request(self):
        ada = user(name("Ada"))
        first = upscaled(ada, prompt="hills", creativity=7, scale_factor="4x")
        page = self.page("/studio", token=ada["token"])
        page.locator(".shot").get_by_role("button", name="Run again").click()
        expect(page.locator("h1")).to_have_text("Upscale an image")
        expect(page.locator(".result-panel")).to_contain_text("Completed")
        tasks = send("GET", "/tasks?details=true", token=ada["token"])["tasks"]
        self.assertEqual(len(tasks), 2)
        self.assertIn(first, [task["task_id"] for task in tasks])
        requests = [{field: value for field, value in task["request"].items() if field != "image"} for task in tasks]
        self.assertEqual(requests[0], requests[1])
        self.assertEqual(*(task["request"]["image"]["digest"] for task in tasks))

    def test_the_settings_of_a_task_are_changed_in_the_form(self):
        ada = user(name("Ada"))
        task = upscaled(ada, prompt="hills", creativity=7, scale_factor="4x")
        # From the gallery and from the page of the task
        for path in ("/studio", f"/tasks/{task}"):
            page = self.page(path, token=ada["token"])
            page.get_by_role("button", name="Tweak").click()
            expect(page.locator("h1")).to_have_text("Upscale an image")
            expect(page.get_by_label("Prompt")).to_have_value("hills")
            expect(page.get_by_label("Scale factor")).to_have_value("4x")
            expect(page.get_by_label("Creativity", exact=True)).to_have_value("7")
            expect(page.locator(".given")).to_contain_text("input.png")
        # Nothing is submitted before the button is pressed.
        self.assertEqual(len(send("GET", "/tasks", token=ada["token"])["tasks"]), 1)

    def test_a_result_is_sent_to_another_job(self):
        ada = user(name("Ada"))
        upscaled(ada)
        page = self.page("/studio", token=ada["token"])
        page.locator(".shot summary").click()
        page.locator(".send-to").get_by_role("button", name="Relight an image").click()
        expect(page.locator("h1")).to_have_text("Relight an image")
        # Then its picture is the input
        self.until(page, "document.querySelector('.given img')?.naturalWidth === 240")
        page.get_by_label("Prompt").fill("warm sun from the left")
        page.get_by_role("button", name="Generate").click()
        expect(page.locator(".result-panel")).to_contain_text("Completed")

    def test_the_menu_of_receivers_closes_without_a_choice(self):
        ada = user(name("Ada"))
        upscaled(ada)
        page = self.page("/studio", token=ada["token"], size=NARROW)
        menu = page.locator(".send-to ul")
        page.locator(".shot summary").click()
        expect(menu).to_be_visible()
        page.keyboard.press("Escape")
        expect(menu).to_be_hidden()
        expect(page.locator(".shot summary")).to_be_focused()


class Links(BrowserTest):
    def test_a_link_restores_all_settings(self):
        person = user(name("Ada"))
        page = self.page("/studio/relightImage", token=person["token"])
        page.get_by_role("button", name="Use sample").first.click()
        page.get_by_label("Prompt").fill("it's & = # \"gold\", 50 %")
        page.get_by_label("Style", exact=True).select_option("darker_but_realistic")
        page.get_by_text("Advanced", exact=True).click()
        page.get_by_label("Light transfer strength, as a number").fill("40")
        page.get_by_label("Change background").uncheck()
        page.get_by_label("Interpolate from original").check()
        page.get_by_text("Advanced settings").click()
        page.get_by_label("Whites, as a number").fill("12")
        page.get_by_role("button", name="Copy a link to these settings").click()
        link = page.evaluate("navigator.clipboard.readText()")
        # When another person opens the link, then the form has every setting, and no picture
        other = self.page("/nodes", token=user(name("Bob"))["token"])
        other.goto(link)
        expect(other.locator("h1")).to_have_text("Relight an image")
        expect(other.get_by_label("Prompt")).to_have_value("it's & = # \"gold\", 50 %")
        expect(other.get_by_label("Style", exact=True)).to_have_value("darker_but_realistic")
        expect(other.get_by_label("Light transfer strength", exact=True)).to_have_value("40")
        expect(other.get_by_label("Change background")).not_to_be_checked()
        expect(other.get_by_label("Interpolate from original")).to_be_checked()
        expect(other.get_by_label("Whites, as a number")).to_have_value("12")
        expect(other.locator(".given")).to_have_count(0)
        # And its own link is the same
        other.get_by_role("button", name="Copy a link to these settings").click()
        self.assertEqual(other.evaluate("navigator.clipboard.readText()"), link)

    def test_a_link_with_invalid_settings_is_harmless(self):
        page = self.page("/studio/upscaleImage?prompt=hills&nonsense=1&image=http%3A%2F%2Fexample.org&scale_factor=3x&creativity=x", token=ADMIN)
        expect(page.get_by_label("Prompt")).to_have_value("hills")
        expect(page.locator(".given")).to_have_count(0)
        expect(page.get_by_label("Image: URL").first).to_have_value("")
        expect(page.get_by_label("Scale factor")).to_have_value("2x")
        expect(page.get_by_label("Creativity", exact=True)).to_have_value("0")


class Videos(BrowserTest):
    def test_one_of_the_own_videos_is_extended(self):
        ada = user(name("Ada"))
        task = filmed(ada)
        page = self.page("/studio/extendVideo", token=ada["token"])
        choice = page.get_by_role("radio", name=re.compile("Video made"))
        expect(choice).to_have_count(1)
        choice.check()
        expect(page.get_by_label("Video creation ID")).to_have_value(task)
        expect(page.get_by_label("Video creation ID")).to_be_hidden()
        page.get_by_label("Model").select_option("vq2-turbo")
        with page.expect_request("**/videovendor/extend") as request:
            page.get_by_role("button", name="Generate").click()
        sent = request.value.post_data_json
        film = send("GET", f"/tasks/{task}")["generated"][0]
        self.assertEqual((sent["video_creation_id"], sent["video_url"].split("?")[0]), (task, film.split("?")[0]))
        expect(page.locator(".task-state")).to_be_visible()
        # Other users are offered their own videos only.
        other = self.page("/studio/extendVideo", token=user(name("Bob"))["token"], allowed=(400,))
        expect(other.get_by_text("No videos yet")).to_be_visible()
        # Without a video, the fields that need one open.
        other.get_by_role("button", name="Generate").click()
        expect(other.get_by_label("Video creation ID")).to_be_visible()

    def test_a_video_is_sent_to_the_job_that_extends_it(self):
        ada = user(name("Ada"))
        task = filmed(ada)
        page = self.page(f"/tasks/{task}", token=ada["token"])
        page.locator(".send-to summary").click()
        page.locator(".send-to").get_by_role("button", name="Extend a video").click()
        expect(page.get_by_label("Video creation ID")).to_have_value(task)
        expect(page.get_by_role("radio", name=re.compile("Video made"))).to_be_checked()


class Timeline(BrowserTest):
    def test_the_timeline_names_each_step_and_its_length(self):
        receiver = Receiver()
        task = upscaled({"token": ADMIN}, webhook_url=receiver.url)
        wait_until(lambda: len(receiver.taken) >= 2)
        page = self.page(f"/tasks/{task}", token=ADMIN)
        steps = page.locator(".course > li")
        expect(steps.locator("strong")).to_have_text(["Submitted", re.compile("At the vendor: .+"), "Results stored", "Webhook delivered"])
        for step, during in enumerate(("queued for", "running for", "delivering for")):
            expect(steps.nth(step)).to_contain_text(re.compile(rf"{during} [\d.]+ (s|min)"))
        expect(page.locator(".spans .span")).to_have_count(3)

    def test_a_running_task_has_an_open_end(self):
        silent = socketserver.TCPServer(("127.0.0.1", 0), None, bind_and_activate=True)
        film = {**FILM, "images": [f"http://127.0.0.1:{silent.server_address[1]}/a.png"], "model": "vq2-turbo"}
        task = send("POST", "/proxy/videovendor/start-end2video", film)["task_id"]
        page = self.page(f"/tasks/{task}", token=ADMIN)
        expect(page.locator(".course > li strong")).to_have_text(["Submitted"])
        expect(page.locator(".spans")).to_have_count(0)
        # When it is cancelled
        send("POST", f"/tasks/{task}/cancel", {})
        expect(page.locator(".course > li strong")).to_have_text(["Submitted", "Failed"])
        silent.server_close()


if __name__ == "__main__":
    unittest.main()
