"""Plants in pictures change what they say they change, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import groundtruth as literal

pytest.importorskip("PIL")

from rationales.errors import DataError, OptionError
from rationales.groundtruth import (
    PLANTS,
    PerClass,
    find_plant,
    image_example,
    modify,
    random_generator,
    uniform_reassignment,
)
from rationales.groundtruth.plants import image_plants
from rationales.groundtruth.plants.bordered import BorderedPlant
from rationales.groundtruth.plants.colour_plants import CORNERS, Brightness, ColourCast, StripedHue
from rationales.groundtruth.plants.image_plants import Blur, ImagePlant, StripedNoise
from rationales.groundtruth.plants.jpeg_blocks import (
    CHROMINANCE_STEPS,
    LUMINANCE_STEPS,
    JpegBlocks,
    compress,
    cosine_matrix,
)
from rationales.groundtruth.plants.watermark import Watermark

# those with a border also change pixels outside of their region, on purpose (test_pair_plants.py)
IMAGE_PLANTS = [
    plant for plant in PLANTS.values() if issubclass(plant, ImagePlant) and not issubclass(plant, BorderedPlant)
]
SMALL = {Watermark: {"top": 4, "left": 4, "height": 200, "width": 216}}  # a box in which letters of any size fit


def picture(height=40, width=48, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def planted(plant, pixels, manipulation=1, seed=0):
    return plant.apply(image_example("one", pixels, "x"), random_generator(seed, "plant", "one"), manipulation)


sizes = st.tuples(st.integers(24, 64), st.integers(24, 64))
kinds = st.sampled_from(IMAGE_PLANTS)


class TestEveryPlant:
    @given(kind=kinds, size=sizes, seed=st.integers(0, 10**6), level=st.integers(1, 5))
    @settings(max_examples=100)
    def test_outside_of_its_region_every_pixel_is_bit_identical(self, kind, size, seed, level):
        """Whatever the size, the place drawn, the visibility and the picture."""
        pixels = picture(*size, seed)
        plant = kind.sample(np.random.default_rng(seed)).at_level(level)
        result = planted(plant, pixels, seed=seed)
        new = result.example.pixels
        assert (new.dtype, new.shape, result.region.shape) == (np.uint8, pixels.shape, pixels.shape[:2])
        assert np.array_equal(new[~result.region], pixels[~result.region])
        assert np.array_equal(result.changed, (new != pixels).any(-1))
        assert not (result.changed & ~result.region).any()
        assert not result.distractors.any()

    @pytest.mark.parametrize("kind", IMAGE_PLANTS)
    def test_the_region_is_no_larger_than_what_can_change(self, kind):
        """Over many pictures and draws every pixel of the region changes, but for a rim that rounds to nothing."""
        height, width, draws = (112, 112, 1500) if kind is Watermark else (36, 44, 400)
        plant = Watermark(10, 10, 40, 80) if kind is Watermark else kind()
        changed = np.zeros((height, width), dtype=bool)
        gray = np.full((height, width, 3), 128, np.uint8)
        for seed in range(draws):
            result = planted(plant, gray if kind is Watermark else picture(height, width, seed), seed=seed)
            changed |= result.changed
        if kind is Brightness:  # at the rim the shift is less than half of one step in 255: 76.5 cos²(x) < 0.5
            down, across = np.indices(changed.shape) + 0.5
            away = np.hypot(down - 18, across - 22) / (75 * 36 / 224)
            rim = 76.5 * np.cos(np.pi / 2 * away) ** 2 < 0.5
            assert np.array_equal(changed | (result.region & rim), result.region)
        else:
            assert np.array_equal(changed, result.region)

    @pytest.mark.parametrize("kind", IMAGE_PLANTS)
    def test_the_other_class_stays_as_it_is_and_has_the_same_joint_region(self, kind):
        pixels = picture()
        plant = kind(**SMALL.get(kind, {}))
        blank, there = planted(plant, pixels, manipulation=0), planted(plant, pixels, manipulation=1)
        assert np.array_equal(blank.example.pixels, pixels)
        assert not blank.changed.any()
        assert np.array_equal(blank.region, there.region)
        with pytest.raises(OptionError, match="manipulations 0 to 1, not 2"):
            planted(plant, pixels, manipulation=2)

    @pytest.mark.parametrize("kind", IMAGE_PLANTS)
    def test_visibility_changes_the_picture_more_and_the_region_not_at_all(self, kind):
        pixels = picture(64, 64)
        results = [planted(kind(**SMALL.get(kind, {})).at_level(level), pixels) for level in range(1, 6)]
        differences = [np.abs(result.example.pixels.astype(int) - pixels).sum() for result in results]
        assert differences == sorted(differences)
        assert differences[0] < differences[4]
        assert all(np.array_equal(result.region, results[0].region) for result in results)
        with pytest.raises(OptionError, match="1 to 5, not 6"):
            kind().at_level(6)

    @pytest.mark.parametrize("kind", IMAGE_PLANTS)
    def test_alone_or_among_others_the_same_bits(self, kind, monkeypatch):
        monkeypatch.setattr(image_plants, "CHUNK", 2)  # more pictures than are changed together
        plant = kind(**SMALL.get(kind, {}))
        examples = [image_example(str(seed), picture(36 + 4 * (seed % 2), 40, seed), "x") for seed in range(7)]
        manipulations = [1, 0, 1, 1, 0, 1, 1]
        together = plant.apply_all(
            examples, [random_generator(3, "plant", example.name) for example in examples], manipulations
        )
        for example, manipulation, batched in zip(examples, manipulations, together, strict=True):
            alone = plant.apply(example, random_generator(3, "plant", example.name), manipulation)
            assert np.array_equal(alone.example.pixels, batched.example.pixels)

    @pytest.mark.parametrize("kind", IMAGE_PLANTS)
    def test_it_scales_with_the_picture(self, kind):
        """The region covers nearly the same share of a picture at half the size."""
        plant = kind()
        assert plant.region(112, 112).mean() == pytest.approx(plant.region(224, 224).mean(), abs=0.01)

    @given(kind=kinds, seed=st.integers(0, 10**6))
    def test_what_is_drawn_lies_in_the_papers_ranges(self, kind, seed):
        plant = kind.sample(np.random.default_rng(seed))
        parameters = {name: getattr(plant, name) for name in vars(plant)}
        ranges = {
            Blur: {"radius": (80, 130), "std": (2, 2)},
            Brightness: {"radius": (40, 112), "shift": (0.3, 0.3)},
            StripedHue: {"shift": (0.05, 0.25)},
            StripedNoise: {"share": (0.02, 0.1)},
            Watermark: {"height": (40, 200), "width": (100, 200), "font": (7, 15)},
            ColourCast: {"radius": (70, 180), "hue": (0, 1), "strength": (0.1, 0.3)},  # ours, not the paper's
            JpegBlocks: {"height": (40, 200), "width": (40, 200), "quality": (2, 14)},
        }[kind]
        assert all(low <= parameters[name] <= high for name, (low, high) in ranges.items())
        if "bottom" in parameters:
            assert 19.99 <= parameters["bottom"] - parameters["top"] <= 224
        assert plant.apply(
            image_example("one", picture(112, 112), "x"), random_generator(seed, "plant", "one")
        ).changed.any()


class TestFormulas:
    def test_blur_is_a_gaussian_outside_of_the_circle(self):
        pixels = picture(30, 26)
        plant = Blur(radius=90, std=12)
        scale = 26 / 224
        result = planted(plant, pixels)
        expected = literal.blurred(pixels, 12 * scale)
        assert np.abs(result.example.pixels[result.region] - expected[result.region]).max() <= 0.5 + 1e-9
        assert not result.region[15, 13]
        assert result.region[0, 0]

    @given(seed=st.integers(0, 1000), radius=st.floats(30, 112), shift=st.floats(0.05, 1))
    @settings(max_examples=15)
    def test_brightness_falls_by_a_squared_cosine(self, seed, radius, shift):
        pixels = picture(22, 20, seed)
        pixels[:3] = 0  # black stays black
        result = planted(Brightness(radius, shift), pixels).example.pixels
        expected = literal.dimmed(pixels, radius * 20 / 224, shift)
        assert np.abs(result - expected).max() <= 0.5 + 1e-9

    @given(seed=st.integers(0, 1000), shift=st.floats(0.01, 0.5))
    @settings(max_examples=15)
    def test_hue_goes_up_and_down_along_a_sine(self, seed, shift):
        pixels = picture(24, 9, seed)
        pixels[:, :2] = pixels[:, :2, :1]  # gray has no hue and stays gray
        result = planted(StripedHue(56, 168, shift), pixels).example.pixels
        expected = literal.with_hue_wave(pixels, 6, 18, shift)
        assert np.abs(result - expected).max() <= 0.5 + 1e-9
        assert np.array_equal(result[:, :2], pixels[:, :2])

    def test_noise_replaces_its_share_of_the_band(self):
        pixels = np.zeros((224, 224, 3), np.uint8)
        result = planted(StripedNoise(0, 112, 0.1), pixels)
        hit, n = result.changed.sum(), 112 * 224
        assert abs(hit - 0.1 * n) < 5 * np.sqrt(n * 0.1 * 0.9)  # a black draw is too rare to matter
        colours = result.example.pixels[result.changed].astype(float)
        assert abs(colours.mean() - 127.5) < 5 * 74 / np.sqrt(colours.size)  # uniform from 0 to 255: deviation 73.9

    def test_watermark_is_white_letters_and_black_digits(self):
        result = planted(Watermark(font=15), np.full((224, 224, 3), 128, np.uint8))
        rows, columns = np.nonzero(result.changed)
        text_pixels = result.example.pixels[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1, 0].astype(
            int
        )
        third = int(text_pixels.shape[1] * 0.4)  # IMG is wider than three digits
        assert (text_pixels[:, :third] >= 128).all()
        assert (text_pixels[:, -third:] <= 128).all()
        assert text_pixels.max() == 255
        assert text_pixels.min() == 0

    def test_watermarks_lie_everywhere_in_the_box_with_all_digits(self):
        plant, gray = Watermark(20, 30, 60, 120, 11), np.full((224, 224, 3), 128, np.uint8)
        results = [planted(plant, gray, seed=seed) for seed in range(60)]
        corners = {tuple(np.argwhere(result.changed).min(0)) for result in results}
        assert len(corners) > 50
        assert len({result.example.pixels.tobytes() for result in results}) == 60

    @given(
        seed=st.integers(0, 1000),
        corner=st.sampled_from(CORNERS),
        radius=st.floats(30, 200),
        hue=st.floats(0, 1),
        strength=st.floats(0.05, 1),
    )
    @settings(max_examples=15)
    def test_a_colour_cast_mixes_its_tint_into_one_corner(self, seed, corner, radius, hue, strength):
        pixels = picture(22, 28, seed)
        result = planted(ColourCast(corner, radius, hue, strength), pixels).example.pixels
        expected = literal.tinted(pixels, corner, radius * 22 / 224, hue, strength)
        assert np.abs(result - expected).max() <= 0.5 + 1e-9

    def test_every_corner_has_its_own_cast(self):
        """Area of a quarter of a disc with half the side as its radius: pi / 16."""
        regions = {corner: ColourCast(corner, radius=112).region(112, 112) for corner in CORNERS}
        assert all(region.mean() == pytest.approx(np.pi / 16, abs=0.002) for region in regions.values())
        assert sum(region.astype(int) for region in regions.values()).max() == 1
        ends = {"top-left": (0, 0), "top-right": (0, -1), "bottom-left": (-1, 0), "bottom-right": (-1, -1)}
        assert all(regions[corner][end] for corner, end in ends.items())

    @pytest.mark.parametrize("quality", [2, 8, 60])
    def test_jpeg_blocks_are_those_of_the_standard(self, quality):
        smooth = np.kron(picture(2, 4), np.ones((8, 4, 1))).astype(np.uint8)  # 16 x 16, edges inside of blocks
        expected = literal.jpeg(smooth, quality, LUMINANCE_STEPS, CHROMINANCE_STEPS)
        assert np.abs(compress(smooth[None], quality)[0] - expected).max() <= 0.5 + 1e-6

    def test_jpeg_blocks_are_those_that_pillow_writes(self):
        """Pillow's integer transforms round differently: a step of the coarse levels here and there, no more."""
        from io import BytesIO

        from PIL import Image

        smooth = np.asarray(Image.fromarray(picture(8, 8)).resize((64, 48), Image.Resampling.BICUBIC))
        for quality in (2, 8, 14):
            Image.fromarray(smooth).save(buffer := BytesIO(), "JPEG", quality=quality, subsampling=0)
            theirs = np.asarray(Image.open(buffer), dtype=int)
            assert np.abs(compress(smooth[None], quality)[0] - theirs).mean() < 1
            assert np.abs(smooth - theirs).mean() > 5  # what the compression itself changes

    def test_blocks_begin_at_the_corner_of_the_box_and_never_look_beyond_it(self):
        """At quality 1 every step is at least 255: a weak pattern loses all but the mean of each block."""
        pixels = np.full((40, 48, 3), 100, np.uint8)
        pixels[::2] = 104
        plant = JpegBlocks(top=28, left=14, height=112, width=112, quality=1)  # rows 5 to 25, columns 3 to 27
        result = planted(plant, pixels)
        assert np.array_equal(np.argwhere(result.region).min(0), [5, 3])
        assert np.array_equal(np.argwhere(result.region).max(0), [24, 26])
        blocks = result.example.pixels[5:21, 3:27].reshape(2, 8, 3, 8, 3)
        assert (blocks == blocks[:, :1, :, :1]).all()
        surroundings = pixels.copy()
        surroundings[~result.region] = 255 - surroundings[~result.region]
        inside = planted(plant, surroundings).example.pixels[result.region]
        assert np.array_equal(inside, result.example.pixels[result.region])

    def test_the_cosine_transform_is_orthonormal(self):
        assert np.allclose(cosine_matrix() @ cosine_matrix().T, np.eye(8))


class TestPerClass:
    """Another manipulation for each class: the joint region is the union (the paper's remark in section 4)."""

    two = PerClass((Watermark(0, 0, 60, 200), Watermark(160, 0, 60, 200), None))

    def test_the_region_of_every_class_is_the_union(self):
        top, bottom = (plant.region(112, 112) for plant in self.two.plants[:2])
        for manipulation in range(3):
            result = planted(self.two, picture(112, 112), manipulation)
            assert np.array_equal(result.region, top | bottom)
            assert not (result.changed & ~[top, bottom, top & bottom][manipulation]).any()

    def test_what_tells_no_classes_apart_is_refused(self):
        with pytest.raises(OptionError, match="two of these are the same"):
            PerClass((Blur(), Blur()))
        with pytest.raises(OptionError, match="two manipulations or more"):
            PerClass((None, None))

    def test_three_classes_can_be_planted(self):
        examples = [image_example(str(index), picture(112, 112, index), "abc"[index % 3]) for index in range(12)]
        modified = modify(examples, self.two, reassignment=uniform_reassignment("abc", "xyz"))
        assert {planted_example.manipulation for planted_example in modified.planted} <= {0, 1, 2}
        assert modified.labels == ("x", "y", "z")


class TestMistakes:
    @pytest.mark.parametrize(
        ("name", "options", "message"),
        [
            ("blur", {"std": 0}, "std must be greater than 0"),
            ("blur", {"radius": float("nan")}, "radius must be greater than 0"),
            ("brightness", {"shift": 2}, "between 0 and 1"),
            ("hue", {"shift": 0.7}, "half of the circle"),
            ("hue", {"top": 100, "bottom": 90}, "top < bottom"),
            ("noise", {"share": 1.5}, "between 0 and 1"),
            ("watermark", {"left": 200}, "must lie within 224"),
            ("colour-cast", {"corner": "middle"}, "one of top-left, top-right"),
            ("colour-cast", {"strength": 2}, "between 0 and 1"),
            ("jpeg-blocks", {"quality": 0.5}, "between 1 and 100"),
            ("jpeg-blocks", {"top": 200}, "jpeg-blocks: the box must lie within 224"),
            ("watermark", {"size": 3}, "no parameter 'size'.*top, left, height, width, font"),
            ("watermark", {"font": "large"}, "wrong type"),
            ("glitter", {}, "no plant 'glitter'; there are: blur, "),
        ],
    )
    def test_parameters_are_checked(self, name, options, message):
        with pytest.raises(OptionError, match=message):
            find_plant(name, options)

    def test_letters_must_fit_their_box(self):
        with pytest.raises(OptionError, match="make the box larger or the font smaller"):
            planted(Watermark(0, 0, 10, 30, font=15), picture(112, 112))

    def test_a_plant_that_touches_nothing_is_told(self):
        with pytest.raises(DataError, match="touches no pixel"):
            planted(Blur(radius=200), picture(40, 40))

    def test_a_plant_that_covers_everything_is_refused(self):
        examples = [image_example(str(index), picture(seed=index), "ab"[index % 2]) for index in range(4)]
        with pytest.raises(DataError, match=r"covers 100% of the inputs.*by chance"):
            modify(examples, StripedNoise(0, 224))
        assert modify(examples, StripedNoise(0, 224), max_area=1.0).area == 1.0  # who insists gets it
