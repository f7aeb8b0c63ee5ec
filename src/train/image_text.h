// Conversations about images, and captions of images. Records name image files, which are read again for
// every batch: memory use does not grow with the dataset.
#pragma once
#include "data/datasets.h"
#include "data/spool.h"
#include "train/conversation.h"
#include "train/examples.h"

namespace makar {

struct ImageText {
  std::vector<int64_t> ids;  // an image token is repeated once per row of its image
  std::vector<uint8_t> loss_mask;
  std::vector<std::string> images, hashes;  // files, and the SHA-256 of their pixels
  static constexpr auto fields() {
    using T = ImageText;
    return std::tuple(&T::ids, &T::loss_mask, &T::images, &T::hashes);
  }
};

// Stored in temporary files in `folder`.
struct ImageTextData {
  explicit ImageTextData(const std::string& folder) : train(folder), validation(folder) {}
  SpoolOf<ImageText> train, validation;
  BadRecords bad;  // of the file read last
};

// How texts and images become inputs of the model.
struct ImageTextEncoding {
  // A conversation whose contents are lists of parts; encoder-decoders are trained on captions instead.
  std::function<Result<MaskedTokens>(const Json& messages)> conversation;
  std::function<Result<MaskedTokens>(const std::string& caption)> caption;
  std::function<Result<Tensor>(const std::string& file)> pixels;  // [1, channels, height, width]
  int64_t max_length = 1024;                                      // in tokens, including image tokens
};

// Contents as lists of parts {"type": "text" or "image"}. "<image>" in a text is a placeholder for an
// image; without placeholders the images come before the first text of the user. Files named by parts are
// added to `images`.
Result<Json> messages_in_parts(const Json& messages, std::vector<std::string>& images);

// Such messages with texts as contents, for templates that do not support images; fails if a message has an
// image.
Result<Json> messages_without_images(const Json& messages);

// Reads the conversations or captions of all datasets; relative image paths are resolved against the folder
// of the record's file. Records with an image that cannot be read are reported and left out.
Result<ImageTextData> open_image_text(const DatasetOptions& options, const ModelSpec& spec,
                                      const ImageTextEncoding& encoding, Json& identity);

class ImageTextTask : public ExampleTask {
 public:
  ImageTextTask(Model& model, ImageTextData data, ImageTextEncoding encoding, int64_t batch, uint64_t seed,
                float smoothing)
      : ExampleTask(data.train.size(), data.validation.size(), batch, seed),
        model_(model),
        data_(std::move(data)),
        encoding_(std::move(encoding)),
        smoothing_(smoothing) {}

 protected:
  Result<MicroBatch> make(std::span<const size_t> which, bool validation, uint64_t draw) override;

 private:
  Model& model_;
  ImageTextData data_;
  ImageTextEncoding encoding_;
  float smoothing_;
};

}  // namespace makar
