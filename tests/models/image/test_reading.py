"""Pictures: anything a person may hand over is read or refused in one line, and geometry loses nothing."""

from __future__ import annotations

import math
import sys
import warnings
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rationales.errors import InputError, ModelError, OptionError
from rationales.models.image import reading
from rationales.models.image.baselines import baseline, blur
from rationales.models.image.reading import Fit, ImageInput, fit_image, read_image, scores_at_image_size

Image = pytest.importorskip("PIL.Image")

KINDS = st.sampled_from(["squash", "crop", "pad"])
SIDES = st.integers(16, 300)
RED, GREEN = (255, 0, 0), (0, 128, 0)


def picture(height, width, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return ImageInput(pixels, "test")


def halves(mode="RGB", size=(20, 10)):
    """Left half red, right half green, 20 wide and 10 high."""
    image = Image.new("RGB", size, RED)
    image.paste(GREEN, (size[0] // 2, 0, *size))
    return image.convert(mode, palette=Image.Palette.ADAPTIVE)


def refusal(source, **options):
    with pytest.raises(InputError) as caught:
        read_image(source, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


class TestRead:
    def test_a_file_is_read_as_it_is(self, tmp_path):
        halves().save(tmp_path / "a.png")
        result = read_image(tmp_path / "a.png")
        assert result.size == (10, 20)
        assert result.name == str(tmp_path / "a.png")
        assert result.reduced_from is None
        assert np.array_equal(result.pixels, np.asarray(halves()))

    def test_path_image_and_array_are_the_same_picture(self, tmp_path):
        halves().save(tmp_path / "a.png")
        array = np.asarray(halves())
        for source in (str(tmp_path / "a.png"), halves(), array, array.astype(np.float32) / 255, array / 255.0):
            assert np.array_equal(read_image(source).pixels, array)

    def test_the_name_may_be_given(self):
        assert read_image(halves(), name="halves").name == "halves"

    def test_pixels_cannot_be_changed_by_accident(self):
        with pytest.raises(ValueError, match="read-only"):
            read_image(halves()).pixels[0, 0] = 0

    def test_an_array_of_the_user_is_not_shared(self):
        array = np.zeros((8, 8, 3), np.uint8)
        result = read_image(array)
        array[:] = 9
        assert not result.pixels.any()

    @pytest.mark.parametrize("mode", ["RGB", "RGBA", "CMYK", "YCbCr", "P", "RGBX"])
    def test_colours_survive_every_mode(self, mode):
        assert np.abs(read_image(halves(mode)).pixels.astype(int) - np.asarray(halves()).astype(int)).max() <= 3

    @pytest.mark.parametrize("mode", ["1", "L", "LA", "F", "I", "I;16", "I;16B"])
    def test_gray_of_any_depth_becomes_three_equal_colours(self, mode):
        step = np.zeros((8, 10), bool)
        step[:, 5:] = True
        if mode in ("1", "L", "LA"):
            image = Image.fromarray(step.astype(np.uint8) * 255).convert(mode)
        elif mode == "F":
            image = Image.fromarray(step.astype(np.float32))
        elif mode == "I":
            image = Image.fromarray(step.astype(np.int32) * 65535)
        else:
            image = Image.fromarray((step * 65535).astype(">u2" if mode == "I;16B" else "<u2"))
        assert image.mode == mode
        assert np.array_equal(read_image(image).pixels, np.repeat(step[..., None] * 255, 3, axis=2))

    def test_sixteen_bits_are_scaled_and_not_cut(self, tmp_path):
        values = np.linspace(0, 65535, 64).reshape(8, 8).astype(np.uint16)
        Image.fromarray(values).save(tmp_path / "deep.png")
        assert np.array_equal(read_image(tmp_path / "deep.png").pixels[..., 0], np.round(values / 257).astype(np.uint8))

    def test_transparent_becomes_white(self, tmp_path):
        image = halves("RGBA")
        image.putalpha(0)
        assert (read_image(image).pixels == 255).all()
        image = halves("P")
        image.save(tmp_path / "a.png", transparency=image.getpixel((0, 0)))  # a palette with one clear colour
        result = read_image(tmp_path / "a.png").pixels
        assert (result[:, :10] == 255).all()
        assert not (result[:, 10:] == 255).any()

    def test_half_transparent_is_half_white(self):
        array = np.zeros((4, 4, 4), np.uint8)
        array[..., 3] = 128
        expected = round(255 * (1 - 128 / 255))
        assert (read_image(array).pixels == expected).all()
        assert np.abs(read_image(Image.fromarray(array)).pixels.astype(int) - expected).max() <= 1

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_every_exif_orientation_is_turned_upright(self, orientation, tmp_path):
        ops = pytest.importorskip("PIL.ImageOps")
        image = Image.fromarray(picture(6, 9).pixels)
        exif = Image.Exif()
        exif[0x0112] = orientation
        image.save(tmp_path / "turned.png", exif=exif)
        expected = np.asarray(ops.exif_transpose(Image.open(tmp_path / "turned.png")))
        assert np.array_equal(read_image(tmp_path / "turned.png").pixels, expected)

    def test_exif_that_cannot_be_read_turns_nothing(self, tmp_path):
        halves().save(tmp_path / "odd.jpg", exif=b"Exif\x00\x00MM\x00\x2a\xff\xff\xff\xff")
        assert read_image(tmp_path / "odd.jpg").size == (10, 20)

    def test_a_users_image_is_left_as_it_is(self):
        image = halves("P")
        before = image.tobytes(), image.mode, image.size
        read_image(image)
        assert (image.tobytes(), image.mode, image.size) == before

    def test_a_photograph_with_a_preview_is_one_picture(self, tmp_path):
        halves().save(tmp_path / "a.mpo", save_all=True, append_images=[halves()])
        assert read_image(tmp_path / "a.mpo").size == (10, 20)


class TestSizes:
    def test_a_large_picture_is_reduced_and_says_so(self, monkeypatch):
        monkeypatch.setattr(reading, "MAX_SIDE", 10)
        result = read_image(halves(size=(40, 20)))
        assert result.size == (5, 10)
        assert result.reduced_from == (20, 40)
        assert np.abs(result.pixels[:, 0].astype(int) - RED).max() <= 30

    def test_a_large_turned_jpeg_is_reduced_upright(self, tmp_path, monkeypatch):
        monkeypatch.setattr(reading, "MAX_SIDE", 64)
        exif = Image.Exif()
        exif[0x0112] = 6  # stored lying on its side
        halves(size=(512, 256)).save(tmp_path / "large.jpg", exif=exif)
        result = read_image(tmp_path / "large.jpg")
        assert result.size == (64, 32)
        assert result.reduced_from == (512, 256)
        assert result.pixels[8, 16, 0] > 200  # red was on the left and is now above
        assert result.pixels[56, 16, 0] < 50

    @pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "CMYK", "P", "1"])
    def test_every_mode_is_reduced(self, mode, monkeypatch):
        original = read_image(halves(mode, (40, 20))).pixels.astype(int)
        monkeypatch.setattr(reading, "MAX_SIDE", 10)
        result = read_image(halves(mode, (40, 20)))
        assert result.size == (5, 10)
        assert np.abs(result.pixels.astype(int).mean((0, 1)) - original.mean((0, 1))).max() < 3

    def test_the_stated_limits(self):
        assert (reading.MIN_SIDE, reading.MAX_SIDE, reading.MAX_PIXELS) == (4, 4096, 100_000_000)

    def test_a_long_thin_picture_keeps_at_least_a_row(self, monkeypatch):
        monkeypatch.setattr(reading, "MAX_SIDE", 10)
        assert read_image(np.zeros((4, 1000), np.uint8)).size == (1, 10)

    @pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 100), (100, 3)])
    def test_too_small_is_refused_with_the_minimum(self, height, width):
        message = refusal(np.zeros((height, width, 3), np.uint8))
        assert f"{width} × {height}" in message
        assert "at least 4 × 4" in message

    @pytest.mark.parametrize("side", [10_001, 14_000, 30_000])  # the last two: where Pillow warns, where it refuses
    def test_too_large_is_refused_by_its_header(self, side, tmp_path):
        path = tmp_path / "bomb.png"
        Image.new("1", (1, 1)).save(path)
        raw = bytearray(path.read_bytes())
        raw[16:24] = side.to_bytes(4, "big") * 2
        raw[29:33] = zlib.crc32(bytes(raw[12:29])).to_bytes(4, "big")
        path.write_bytes(bytes(raw))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert "the limit is 100 million" in refusal(path)

    def test_a_large_array_is_refused_before_it_is_copied(self):
        array = np.broadcast_to(np.zeros((1, 1, 3), np.uint8), (20_000, 20_000, 3))
        assert "20000 × 20000" in refusal(array)


class TestRefusals:
    def test_missing_file(self, tmp_path):
        assert refusal(tmp_path / "none.png").startswith("there is no file")

    def test_a_name_no_file_can_have(self):
        assert "null" in refusal("a\x00b.png")
        assert "too long" in refusal("a" * 300)

    def test_folder(self, tmp_path):
        assert "is a folder" in refusal(tmp_path)

    def test_text(self, tmp_path):
        path = tmp_path / "a.jpg"
        path.write_text("ä" * 2047 + "xäää", encoding="utf-8")  # what is looked at ends in half a character
        assert "is a text, not an image" in refusal(path)

    def test_binary(self, tmp_path):
        path = tmp_path / "a.jpg"
        for content in (b"\x00\x01\x02" * 50, b"\xff\xfe\xfd" * 50):
            path.write_bytes(content)
            assert "no image that Pillow can read" in refusal(path)

    def test_empty_file(self, tmp_path):
        (tmp_path / "a.jpg").touch()
        assert "is empty" in refusal(tmp_path / "a.jpg")

    @pytest.mark.parametrize("kind", ["jpg", "png", "webp", "gif"])
    def test_cut_off_file(self, kind, tmp_path):
        path = tmp_path / f"a.{kind}"
        Image.fromarray(picture(64, 64).pixels).save(path)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        message = refusal(path)
        assert "damaged, cut off" in message or "no image that Pillow can read" in message

    @pytest.mark.parametrize("kind", ["gif", "png", "webp", "tiff"])
    def test_several_frames(self, kind, tmp_path):
        frames = [Image.fromarray(picture(8, 8, seed).pixels) for seed in range(3)]
        frames[0].save(tmp_path / f"a.{kind}", save_all=True, append_images=frames[1:])
        assert "3 frames" in refusal(tmp_path / f"a.{kind}")
        with Image.open(tmp_path / f"a.{kind}") as image:
            assert "3 frames" in refusal(image)
            image.seek(1)
            assert read_image(image.convert("RGB")).size == (8, 8)  # one frame is a picture

    def test_gif_with_one_frame_is_a_picture(self, tmp_path):
        halves().save(tmp_path / "a.gif")
        assert read_image(tmp_path / "a.gif").size == (10, 20)

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            (np.full((8, 8), np.nan), "NaN"),
            (np.full((8, 8), np.inf), "infinite"),
            (np.full((8, 8, 3), 1.5), "from 1.5 to 1.5"),
            (np.full((8, 8, 3), -0.1), "floats in [0, 1]"),
            (np.zeros((8, 8, 3), np.int64), "holds int64"),
            (np.zeros((8, 8, 3), bool), "holds bool"),
            (np.zeros((8, 8, 2), np.uint8), "(h, w, 3)"),
            (np.zeros((2, 8, 8, 3), np.uint8), "(h, w, 3)"),
            (np.zeros(8, np.uint8), "(h, w, 3)"),
            (np.zeros((3, 8, 8), np.uint8), "transpose(1, 2, 0)"),
            (np.zeros((0, 8, 3), np.uint8), "is empty"),
        ],
    )
    def test_arrays_that_are_no_picture(self, array, message):
        assert message in refusal(array)

    def test_numbers_beyond_sixteen_bits(self):
        assert "0 to 65535" in refusal(Image.fromarray(np.full((8, 8), 70_000, np.int32)))

    def test_empty_image(self):
        assert "at least 4 × 4" in refusal(Image.new("RGB", (0, 5)))

    def test_something_else(self):
        assert "not list" in refusal([[0, 1]])

    def test_without_pillow(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "PIL", None)
        with pytest.raises(ModelError, match=r"pip install 'rationales\[images\]'"):
            read_image("a.png")


class TestPlace:
    def test_squash_is_a_plain_resize(self):
        source = picture(37, 53)
        pixels, real = fit_image(source, Fit("squash", 24, 16))
        expected = Image.fromarray(source.pixels).resize((16, 24), Image.Resampling.BILINEAR)
        assert torch.equal(pixels, torch.from_numpy(np.asarray(expected) / np.float32(255)).permute(2, 0, 1))
        assert real.all()

    @pytest.mark.parametrize("resample", ["bilinear", "bicubic", "lanczos"])
    @pytest.mark.parametrize(("height", "width"), [(300, 451), (120, 77), (20, 33)])
    def test_crop_is_resizing_the_short_side_and_cutting_the_middle(self, height, width, resample):
        source = picture(height, width)
        pixels, real = fit_image(source, Fit("crop", 48, 40, resize=56, resample=resample))
        rows, columns = (56, 56 * width // height) if height < width else (56 * height // width, 56)
        image = Image.fromarray(source.pixels).resize((columns, rows), Image.Resampling[resample.upper()])
        top, left = (rows - 48) // 2, (columns - 40) // 2
        expected = torch.tensor(np.asarray(image)[top : top + 48, left : left + 40] / np.float32(255)).permute(2, 0, 1)
        assert (pixels - expected).abs().max() <= 1.01 / 255  # box edges are rounded; one step of 8 bits at most
        assert real.all()

    def test_crop_after_a_resize_of_both_sides(self):
        source = picture(60, 90)
        image = Image.fromarray(source.pixels).resize((32, 32), Image.Resampling.BILINEAR)
        expected = torch.tensor(np.asarray(image)[4:28, 4:28] / np.float32(255)).permute(2, 0, 1)
        pixels, _ = fit_image(source, Fit("crop", 24, 24, resize=(32, 32)))
        assert (pixels - expected).abs().max() <= 1.01 / 255

    def test_crop_larger_than_the_resized_picture_is_filled_up(self):
        pixels, real = fit_image(picture(40, 40), Fit("crop", 30, 30, resize=20, fill=(0.0, 0.25, 1.0)))
        assert int(real.sum()) == 20 * 20
        assert real[5:25, 5:25].all()
        assert torch.equal(pixels[:, 0, 0], torch.tensor([0.0, 0.25, 1.0]))

    @given(KINDS, SIDES, SIDES, st.integers(8, 64), st.integers(8, 64))
    @settings(max_examples=50, deadline=None)
    def test_only_padding_is_not_real(self, kind, height, width, rows, columns):
        pixels, real = fit_image(picture(height, width), Fit(kind, rows, columns, fill=(0.5, 0.5, 0.5)))
        assert pixels.shape == (3, rows, columns)
        assert pixels.dtype == torch.float32
        assert bool(((pixels >= 0) & (pixels <= 1)).all())
        assert (pixels[:, ~real] == 0.5).all()
        if kind != "pad":
            assert real.all()
        else:  # one side is full, the other follows the picture's shape
            scale = min(rows / height, columns / width)
            assert int(real.any(1).sum()) == max(1, round(height * scale))
            assert int(real.any(0).sum()) == max(1, round(width * scale))

    def test_a_very_long_picture_is_cut_before_it_grows(self):
        pixels, _ = fit_image(picture(4, 4096), Fit("crop", 224, 224, resize=256))  # resized whole: 200 megabytes
        assert pixels.shape == (3, 224, 224)

    @pytest.mark.parametrize(
        "options",
        [("fold", 8, 8), ("squash", 0, 8), ("crop", 8, 8, 0), ("crop", 8, 8, (9, 0)), ("pad", 8, 8, 9)],
    )
    def test_fits_that_cannot_be(self, options):
        with pytest.raises(OptionError):
            Fit(*options)

    def test_unknown_filter(self):
        with pytest.raises(OptionError, match="bicubic"):
            fit_image(picture(8, 8), Fit("squash", 8, 8, resample="best"))


class TestBack:
    @given(KINDS, SIDES, SIDES, st.integers(8, 64), st.integers(8, 64), st.floats(-5, 5, width=32))
    @settings(max_examples=60, deadline=None)
    def test_a_constant_map_comes_back_constant(self, kind, height, width, rows, columns, value):
        source, fit = picture(height, width), Fit(kind, rows, columns)
        _, real = fit_image(source, fit)
        scores = torch.where(real, value, math.nan).nan_to_num(1e6)  # padding must have no part in it
        result = scores_at_image_size(scores, fit, source)
        assert result.shape == (height, width)
        assert result.dtype == torch.float32
        covered = scores_at_image_size(torch.ones(rows, columns), fit, source) > 0.5
        assert torch.allclose(result[covered], torch.full((), value), atol=1e-5)
        assert (result[~covered] == 0).all()
        if kind != "crop":
            assert covered.all()
        else:  # what is cut off stays outside: as much as the shapes differ, to a pixel of the input
            scale = max(rows / height, columns / width)
            share = (rows / scale / height) * (columns / scale / width)
            assert float(covered.float().mean()) == pytest.approx(share, abs=2 / min(height, width, rows, columns))

    @given(KINDS, SIDES, SIDES, st.integers(24, 96), st.integers(24, 96), st.data())
    @settings(max_examples=100, deadline=None)
    def test_a_bright_square_comes_back_where_it_was(self, kind, height, width, rows, columns, data):
        fit = Fit(kind, rows, columns)
        blank = ImageInput(np.zeros((height, width, 3), np.uint8), "blank")
        covered = scores_at_image_size(torch.ones(rows, columns), fit, blank) > 0.5
        ys, xs = covered.any(1).nonzero().flatten(), covered.any(0).nonzero().flatten()
        # Away from the border, by what one pixel of the input may spread, so that nothing of the square is cut off.
        resized_rows, resized_columns, _, _ = fit.layout(height, width)
        margins = [math.ceil(2 * max(1, s / r)) for s, r in ((height, resized_rows), (width, resized_columns))]
        low = [int(ys[0]) + margins[0], int(xs[0]) + margins[1]]
        high = [int(ys[-1]) + 1 - margins[0], int(xs[-1]) + 1 - margins[1]]
        if min(high[0] - low[0], high[1] - low[1]) < 2:
            return
        top, left = (data.draw(st.integers(a, b - 2)) for a, b in zip(low, high, strict=True))
        bottom, right = data.draw(st.integers(top + 2, high[0])), data.draw(st.integers(left + 2, high[1]))
        pixels = np.zeros((height, width, 3), np.uint8)
        pixels[top:bottom, left:right] = 255
        placed, real = fit_image(ImageInput(pixels, "square"), Fit(kind, rows, columns, fill=(0.0, 0.0, 0.0)))
        result = scores_at_image_size(placed.mean(0) * real, fit, blank)
        y = float((result.sum(1) * (torch.arange(height) + 0.5)).sum() / result.sum())
        x = float((result.sum(0) * (torch.arange(width) + 0.5)).sum() / result.sum())
        # To a pixel, or to a third of the picture's pixels that one pixel of the input stands for.
        assert y == pytest.approx((top + bottom) / 2, abs=max(1, height / resized_rows / 3))
        assert x == pytest.approx((left + right) / 2, abs=max(1, width / resized_columns / 3))

    @given(st.integers(8, 40), st.integers(8, 40), st.floats(1, 4))
    @settings(max_examples=30, deadline=None)
    def test_bilinear_as_torch_does_it(self, rows, columns, scale):
        height, width = math.ceil(rows * scale), math.ceil(columns * scale)
        scores = torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows))
        expected = torch.nn.functional.interpolate(scores[None, None], (height, width), mode="bilinear")[0, 0]
        assert torch.allclose(
            scores_at_image_size(scores, Fit("squash", rows, columns), picture(height, width)), expected, atol=1e-4
        )

    def test_same_size_changes_nothing(self):
        scores = torch.randn(24, 24, generator=torch.Generator().manual_seed(0))
        for kind in ("squash", "crop", "pad"):
            assert torch.equal(scores_at_image_size(scores, Fit(kind, 24, 24), picture(24, 24)), scores)

    def test_many_maps_at_once_are_each_alone(self):
        scores = torch.randn(2, 3, 24, 16, generator=torch.Generator().manual_seed(0))
        fit, source = Fit("pad", 24, 16), picture(30, 50)
        result = scores_at_image_size(scores, fit, source)
        assert result.shape == (2, 3, 30, 50)
        assert torch.allclose(result[1, 2], scores_at_image_size(scores[1, 2], fit, source), atol=1e-6)

    def test_other_shape(self):
        with pytest.raises(InputError, match="24 × 16"):
            scores_at_image_size(torch.zeros(16, 24), Fit("pad", 24, 16), picture(8, 8))


def literal_blur(pixels, radius):
    """Each pixel by itself: a sum over a mirrored neighbourhood."""
    height, width = pixels.shape

    def mirrored(index, size):
        while not 0 <= index < size:
            index = -index if index < 0 else 2 * (size - 1) - index
            if size == 1:
                return 0
        return index

    reach = math.ceil(4 * radius)
    result = np.zeros((height, width))
    weights = {d: math.exp(-d * d / (2 * radius**2)) for d in range(-reach, reach + 1)}
    for y in range(height):
        for x in range(width):
            for dy, wy in weights.items():
                for dx, wx in weights.items():
                    result[y, x] += wy * wx * pixels[mirrored(y + dy, height), mirrored(x + dx, width)]
    return result / sum(weights.values()) ** 2


class TestBaselines:
    pixels = torch.rand(3, 12, 17, generator=torch.Generator().manual_seed(0))
    mean = (0.1, 0.2, 0.3)

    @pytest.mark.parametrize("name", ["black", "white", "mean", "noise", "blur-3", "blur-20", "blur-0.5", "blur-300"])
    def test_every_baseline_is_an_input_of_the_same_kind(self, name):
        result = baseline(name, self.pixels, self.mean, key=1)
        assert result.shape == self.pixels.shape
        assert result.dtype == self.pixels.dtype
        assert bool(((result >= 0) & (result <= 1 + 1e-6)).all())

    def test_colours(self):
        assert (baseline("black", self.pixels, self.mean, 0) == 0).all()
        assert (baseline("white", self.pixels, self.mean, 0) == 1).all()
        result = baseline("mean", self.pixels, self.mean, 0)
        assert torch.equal(result[:, 3, 4], torch.tensor(self.mean))
        assert (result == result[:, :1, :1]).all()

    def test_noise_is_its_key_alone(self):
        first = baseline("noise", self.pixels, self.mean, key=1)
        assert torch.equal(first, baseline("noise", torch.zeros(3, 12, 17), self.mean, key=1))
        assert not torch.equal(first, baseline("noise", self.pixels, self.mean, key=2))
        large = baseline("noise", torch.zeros(3, 100, 100), self.mean, key=-5)
        # 30,000 uniform numbers: mean 1/2, variance 1/12; four standard errors.
        assert float(large.mean()) == pytest.approx(0.5, abs=4 * math.sqrt(1 / 12 / 30_000))
        assert float(large.var()) == pytest.approx(1 / 12, abs=0.002)

    @given(st.integers(1, 7), st.integers(1, 7), st.sampled_from([0.3, 1.0, 2.5]))
    @settings(max_examples=20, deadline=None)
    def test_blur_equals_the_literal_sum_even_where_the_kernel_is_larger_than_the_picture(self, height, width, radius):
        pixels = torch.rand(height, width, dtype=torch.float64, generator=torch.Generator().manual_seed(height))
        assert np.allclose(blur(pixels, radius), literal_blur(pixels.numpy(), radius), atol=1e-12)

    def test_blur_leaves_a_plain_colour_as_it_is(self):
        plain = torch.full((3, 9, 30), 0.7)
        assert torch.allclose(blur(plain, 20), plain, atol=1e-6)

    def test_blur_takes_in_no_padding(self):
        real = torch.zeros(12, 17, dtype=torch.bool)
        real[3:9] = True
        pixels = torch.where(real, 0.7, 0.0).expand(3, -1, -1)
        result = baseline("blur-20", pixels, self.mean, 0, real=real)
        assert torch.allclose(result[:, real], torch.tensor(0.7), atol=1e-5)
        assert (result[:, ~real] == 0).all()

    def test_a_picture_of_the_user(self):
        custom = torch.rand(3, 12, 17)
        assert torch.equal(baseline(custom, self.pixels, self.mean, 0), custom)

    @pytest.mark.parametrize(
        "custom", [torch.zeros(3, 5, 5), torch.full((3, 12, 17), 2.0), torch.full((3, 12, 17), math.nan)]
    )
    def test_pictures_that_cannot_be_a_baseline(self, custom):
        with pytest.raises(OptionError, match="baseline"):
            baseline(custom, self.pixels, self.mean, 0)

    @pytest.mark.parametrize("name", ["grey", "blur", "blur-", "blur--3", "blur-0", "blur-501", "blur-nan", "Black"])
    def test_names_that_are_no_baseline(self, name):
        with pytest.raises(OptionError, match="blur-"):
            baseline(name, self.pixels, self.mean, 0)


class TestSeveralAtOnce:
    def test_threads_keep_order_names_and_pixels(self):
        arrays = [np.full((20 + number, 30, 3), number, dtype=np.uint8) for number in range(12)]
        names = [None if number % 2 else f"picture {number}" for number in range(12)]
        alone, together = (reading.read_images(arrays, names, threads) for threads in (1, 4))
        assert [image.name for image in together] == [image.name for image in alone]
        assert all(np.array_equal(image.pixels, array) for image, array in zip(together, arrays, strict=True))

    def test_the_first_that_cannot_be_read_is_told_and_warnings_stay_as_they_were(self, tmp_path):
        before = list(warnings.filters)
        sources = [np.zeros((20, 20, 3), dtype=np.uint8), tmp_path / "first.png", tmp_path / "second.png"] * 4
        with pytest.raises(InputError, match=r"first\.png"):
            reading.read_images(sources, [None] * len(sources), 8)
        assert list(warnings.filters) == before
