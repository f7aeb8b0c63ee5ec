#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "images/image.h"
#include "images/processor.h"
#include "scratch_folder.h"

namespace makar {
namespace {

const std::string kFixtures = std::string(MAKAR_TEST_GOLDEN) + "/../images/fixtures/";

const Json& expected() {
  static const Json json = *read_json(kFixtures + "expected.json");
  return json;
}

std::string sha(const std::vector<uint8_t>& bytes) {
  return sha256_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::span<const std::byte> bytes_of(const std::string& s) {
  return std::as_bytes(std::span(s.data(), s.size()));
}

void expect_error(const std::string& bytes, const std::string& expected_text,
                  const ImageLimits& limits = {}) {
  const auto image = decode_image(bytes_of(bytes), "a.img", limits);
  ASSERT_FALSE(image.ok()) << expected_text;
  EXPECT_NE(image.error().text().find(expected_text), std::string::npos) << image.error().text();
  EXPECT_EQ(image.error().place, "a.img");
}

// fixtures/ is made by make_fixtures.py with Pillow.
TEST(Images, PixelsMatchPillow) {
  for (const auto& [name, entry] : expected().items()) {
    const auto image = read_image(kFixtures + name);
    ASSERT_TRUE(image.ok()) << image.error().text();
    EXPECT_EQ(image->width, entry["size"][0]) << name;
    EXPECT_EQ(image->height, entry["size"][1]) << name;
    EXPECT_EQ(sha(image->rgb), entry["rgb"]) << name;
  }
}

TEST(Images, ResizedImagesMatchPillow) {
  constexpr std::pair<int64_t, int64_t> kSizes[] = {{10, 10}, {40, 9}, {7, 33}, {23, 17}};
  for (const auto& [name, entry] : expected().items()) {
    const auto image = read_image(kFixtures + name);
    ASSERT_TRUE(image.ok());
    for (int filter = 0; filter < 6; ++filter) {
      std::vector<uint8_t> all;
      for (const auto& [width, height] : kSizes) {
        const Image small = resized(*image, width, height, static_cast<ResizeFilter>(filter));
        all.insert(all.end(), small.rgb.begin(), small.rgb.end());
      }
      EXPECT_EQ(sha(all), entry["resized"][static_cast<size_t>(filter)]) << name << ", filter " << filter;
    }
  }
}

TEST(Images, ErrorsNameTheFileAndTheCause) {
  expect_error("", "is not a JPEG, PNG or WebP image");
  expect_error("GIF89a and so on", "convert it to one of them");
  expect_error("\xff\xd8\xff\xe0", "the JPEG image cannot be read");
  const std::string png = *read_file(kFixtures + "rgb.png");
  expect_error(png.substr(0, png.size() / 2), "the file ends too early");
  expect_error(png, "at most 390 are allowed", {.pixels = 390});
  expect_error(png, "at most 100 are allowed", {.bytes = 100});
  const std::string jpeg = *read_file(kFixtures + "subsampled.jpg");
  expect_error(jpeg.substr(0, jpeg.size() * 2 / 3), "Premature end of JPEG file");
  expect_error(jpeg, "50 x 37 pixels", {.pixels = 100});
  const std::string webp = *read_file(kFixtures + "rgb.webp");
  expect_error(webp.substr(0, webp.size() - 40), "the WebP image cannot be read");
  expect_error(webp, "23 x 17 pixels", {.pixels = 100});
  EXPECT_EQ(read_image("/nowhere/x.png").error().kind, Error::Kind::kNotFound);
}

// The header of a PNG states 2^31-1 x 2^31-1 pixels: an error before memory is allocated.
TEST(Images, HugeSizesInAHeaderAreErrors) {
  std::string png = *read_file(kFixtures + "rgb.png");
  const auto put = [&](size_t at, uint32_t value) {
    for (size_t i = 0; i < 4; ++i) png[at + i] = static_cast<char>(value >> (24 - 8 * i));
  };
  put(16, 0x7fffffff), put(20, 0x7fffffff);
  uint32_t crc = 0xffffffff;
  for (size_t i = 12; i < 29; ++i) {
    crc ^= static_cast<uint8_t>(png[i]);
    for (int k = 0; k < 8; ++k) crc = crc & 1 ? 0xedb88320 ^ (crc >> 1) : crc >> 1;
  }
  put(29, ~crc);
  expect_error(png, "2147483647 x 2147483647 pixels");
}

// 30 mutations of each of 19 files: an error or an image, never a crash.
TEST(Images, MutatedFilesGiveErrorsOrImages) {
  const ImageLimits limits{.pixels = 1 << 20};
  int errors = 0, images = 0;
  uint64_t draw = 0;
  for (const auto& [name, entry] : expected().items()) {
    const std::string original = *read_file(kFixtures + name);
    for (int round = 0; round < 30; ++round) {
      std::string bytes = original;
      const auto random = [&](size_t below) { return Rng(7, Purpose::kSynthetic).bits(draw++)[0] % below; };
      for (size_t edits = 1 + random(4); edits > 0; --edits) {
        const size_t at = random(bytes.size());
        switch (random(4)) {
          case 0:
            bytes[at] = static_cast<char>(random(256));
            break;
          case 1:
            bytes[at] = static_cast<char>(bytes[at] ^ (1 << random(8)));
            break;
          case 2:
            bytes.insert(at, bytes.substr(random(bytes.size()), random(40)));
            break;
          default:
            bytes.erase(at, 1 + random(20));
        }
        if (bytes.empty()) bytes = "x";
      }
      const auto image = decode_image(bytes_of(bytes), name, limits);
      (image.ok() ? images : errors) += 1;
      if (!image.ok()) EXPECT_FALSE(image.error().message.empty());
      if (image.ok()) EXPECT_EQ(image->rgb.size(), static_cast<size_t>(image->pixels() * 3));
    }
  }
  EXPECT_GT(errors, 200);
  EXPECT_GT(images, 50);
}

TEST(ImageProcessor, ReadsTheFilesOfOlderAndNewerVersions) {
  const auto parse = [](const char* text) { return ImageProcessor::parse(*Config::parse(text, "p.json")); };
  const auto clip =
      parse(R"({"feature_extractor_type": "CLIPFeatureExtractor", "size": 224, "crop_size": 224})");
  ASSERT_TRUE(clip.ok());
  EXPECT_EQ(clip->shortest, 224);
  EXPECT_TRUE(clip->crop);
  EXPECT_EQ(clip->filter, ResizeFilter::kBicubic);
  EXPECT_FLOAT_EQ(static_cast<float>(clip->mean[0]), 0.48145466f);
  const auto vit = parse(R"({"size": 96, "resample": 2})");
  ASSERT_TRUE(vit.ok());
  EXPECT_EQ(vit->output_width(), 96);
  EXPECT_FALSE(vit->crop);
  for (const char* wrong :
       {R"({"size": 0})", R"({"size": {"height": 5}})", R"({"resample": 9})", R"({"image_std": [1, 0, 1]})",
        R"({"image_mean": [1, 2]})", R"({"image_processor_type": "LlavaNextImageProcessor"})",
        R"({"image_processor_type": "SamImageProcessor"})"})
    EXPECT_FALSE(parse(wrong).ok()) << wrong;

  const ScratchFolder folder;
  EXPECT_EQ(ImageProcessor::read(folder.path(), ImageProcessor::vit(24, 24))->output_width(), 24);
  folder.write(
      "processor_config.json",
      R"({"image_processor": {"image_processor_type": "CLIPImageProcessorFast", "size": {"shortest_edge": 30},
                  "crop_size": {"height": 28, "width": 29}}})");
  const auto newer = ImageProcessor::read(folder.path(), ImageProcessor::vit(24, 24));
  ASSERT_TRUE(newer.ok()) << newer.error().text();
  EXPECT_EQ(newer->shortest, 30);
  EXPECT_EQ(newer->output_height(), 28);
  folder.write("preprocessor_config.json", R"({"size": "large"})");
  EXPECT_NE(ImageProcessor::read(folder.path(), {}).error().text().find("size"), std::string::npos);
}

TEST(ImageProcessor, CropsFromTheCenterAndPadsWithBlack) {
  Image image{4, 2, {}};
  for (int i = 0; i < 8; ++i) image.rgb.insert(image.rgb.end(), 3, static_cast<uint8_t>(i + 1));
  const Image out = center_cropped(image, 2, 5);
  std::vector<int> red;
  for (size_t i = 0; i < out.rgb.size(); i += 3) red.push_back(out.rgb[i]);
  // transformers pads 3 rows as 2 above and 1 below.
  EXPECT_EQ(red, (std::vector<int>{0, 0, 0, 0, 2, 3, 6, 7, 0, 0}));
}

TEST(ImageProcessor, ALongThinImageIsRefusedBeforeItIsResized) {
  const Image image{1 << 20, 1, std::vector<uint8_t>(3 << 20)};
  const auto pixels = ImageProcessor::clip(224, 224)(image, "thin.png");
  ASSERT_FALSE(pixels.ok());
  EXPECT_NE(pixels.error().text().find("thin.png: an image of 1048576 x 1 pixels"), std::string::npos)
      << pixels.error().text();
}

}  // namespace
}  // namespace makar
