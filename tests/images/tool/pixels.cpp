// usage: image_pixels CONFIG IMAGE...
// Prints for each image the size and the SHA-256 of the values [3, height, width] that the steps of a
// preprocessor_config.json give.
#include <cstdio>
#include <filesystem>

#include "base/sha256.h"
#include "images/processor.h"

using namespace makar;

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: image_pixels CONFIG IMAGE...\n"), 2;
  const std::filesystem::path path = argv[1];
  const auto config = Config::read(path.parent_path().string(), path.filename().string());
  const auto processor =
      config.ok() ? ImageProcessor::parse(*config) : Result<ImageProcessor>(config.error());
  if (!processor.ok()) return std::fprintf(stderr, "%s\n", processor.error().text().c_str()), 1;
  for (int i = 2; i < argc; ++i) {
    const auto image = read_image(argv[i]);
    const auto pixels = image.ok() ? (*processor)(*image, argv[i]) : Result<Tensor>(image.error());
    if (!pixels.ok()) {
      std::printf("%s\n", pixels.error().text().c_str());
      continue;
    }
    const std::string_view bytes(reinterpret_cast<const char*>(pixels->f32()), pixels->bytes());
    std::printf("%dx%d %s\n", static_cast<int>(pixels->dim(2)), static_cast<int>(pixels->dim(1)),
                sha256_of(bytes).c_str());
  }
}
