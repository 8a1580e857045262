"""Closest Pillow equivalent of each engine job: `pillow.py JOB PICTURE ROUNDS` prints seconds, peak KiB and pixels.

Pillow uses one thread. Reading and writing files is not measured, as in the benchmark that calls this script.
"""

import resource
import sys
import time

from PIL import Image, ImageChops, ImageEnhance, ImageFilter, ImageOps


def enlarge(picture, factor):
    size = (picture.width * factor, picture.height * factor)
    return picture.resize(size, Image.Resampling.LANCZOS).filter(ImageFilter.UnsharpMask(2, 60, 2))


def enhance_skin(picture):
    soft = picture.filter(ImageFilter.GaussianBlur(4))
    red, green, blue = picture.split()
    mask = ImageChops.subtract(red, blue).filter(ImageFilter.GaussianBlur(6))
    picture = Image.composite(soft, picture, mask).filter(ImageFilter.UnsharpMask(2, 60, 2))
    return ImageEnhance.Color(picture).enhance(1.1)


def relight(picture):
    light = ImageOps.grayscale(picture).filter(ImageFilter.GaussianBlur(40))
    lit = ImageChops.multiply(picture, Image.merge("RGB", (light, light, light)))
    picture = Image.blend(picture, lit, 0.5)
    for kind in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        picture = kind(picture).enhance(1.15)
    return picture


def paint(picture):
    picture = picture.filter(ImageFilter.MedianFilter(5)).filter(ImageFilter.SMOOTH_MORE)
    picture = ImageOps.posterize(picture, 5)
    return ImageEnhance.Color(picture.filter(ImageFilter.EDGE_ENHANCE)).enhance(1.3)


JOBS = {
    "upscale 2x": lambda picture: enlarge(picture, 2),
    "upscale 4x": lambda picture: enlarge(picture, 4),
    "precision 2x": lambda picture: enlarge(picture, 2),
    "precision 4x": lambda picture: enlarge(picture, 4),
    "precision 2x, photo_denoiser": lambda picture: enlarge(picture.filter(ImageFilter.MedianFilter(5)), 2),
    "skin, creative": enhance_skin,
    "relight": relight,
    "style, balanced": paint,
    "style, colorful_anime": paint,
}

job, path, rounds = JOBS[sys.argv[1]], sys.argv[2], int(sys.argv[3])
picture = Image.open(path).convert("RGB")
picture.load()
times = []
for _ in range(rounds):
    started = time.perf_counter()
    result = job(picture)
    times.append(time.perf_counter() - started)
print(min(times), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, result.width * result.height)
