#include "llm/image_inputs.h"

#include <algorithm>

#include "llm/embed.h"

namespace makar {
namespace {

constexpr size_t kMaxImages = 64;
constexpr int64_t kImagesPerPass = 8;

// The text of the image token, such as <image>.
Result<std::string> image_token(const LanguageModel& language) {
  const int64_t id = language.spec().image_input->token;
  if (language.has_tokenizer() && id < static_cast<int64_t>(language.tokenizer().vocab_size()))
    if (auto text = language.tokenizer().token(static_cast<uint32_t>(id)); text && !text->empty())
      return *text;
  return error_of(Error::Kind::kNotFound, "tokenizer", "has no image token: id {} is unknown", id);
}

bool has_text(const Json& messages) {
  const auto nonempty = [](const Json& text) {
    return text.is_string() &&
           text.get_ref<const std::string&>().find_first_not_of(" \t\r\n") != std::string::npos;
  };
  return std::any_of(messages.begin(), messages.end(), [&](const Json& message) {
    const auto content = message.find("content");
    if (content == message.end()) return false;
    if (!content->is_array()) return nonempty(*content);
    return std::any_of(content->begin(), content->end(),
                       [&](const Json& part) { return part.contains("text") && nonempty(part["text"]); });
  });
}

Tensor slice_of(const Tensor& pixels, int64_t from) {
  return pixels.slice(from, std::min(from + kImagesPerPass, pixels.dim(0)));
}

// The rows of all images, computed in forward passes of kImagesPerPass images.
template <class Rows>
Tensor in_groups(const Tensor& pixels, const Rows& rows) {
  std::vector<float> all;
  for (int64_t i = 0; i < pixels.dim(0); i += kImagesPerPass) {
    const Tensor group = rows(slice_of(pixels, i)).host();
    all.insert(all.end(), group.span().begin(), group.span().end());
  }
  const auto width = static_cast<int64_t>(all.size()) / pixels.dim(0);
  return Tensor::from({pixels.dim(0), width}, all);
}

}  // namespace

Result<Tensor> model_pixels(const LanguageModel& language, const Image& image, const std::string& name) {
  const ModelSpec& spec = language.spec();
  if (!spec.reads_images())
    return error_of(Error::Kind::kUnsupported, name, "a {} reads only text", spec.architecture);
  const PatchSpec& p = *spec.encoder->embedding.patches;
  if (!language.image_processor())
    return error_of(Error::Kind::kUnsupported, name, "this {} reads images with {} channels, not RGB",
                    spec.architecture, p.channels);
  MAKAR_TRY(const Tensor pixels, (*language.image_processor())(image, name));
  if (pixels.dim(1) != p.image_height || pixels.dim(2) != p.image_width)
    return error_at(name, "preprocessor_config.json makes it {} x {} pixels, but the model takes {} x {}",
                    pixels.dim(2), pixels.dim(1), p.image_width, p.image_height);
  return pixels.reshape({1, 3, p.image_height, p.image_width});
}

std::shared_ptr<ImageInputs> join_images(const LanguageModel& language, const std::vector<Tensor>& pixels) {
  check(!pixels.empty(), "join_images needs at least one image");
  const Shape& one = pixels[0].shape();
  Tensor all = Tensor::empty({static_cast<int64_t>(pixels.size()), one[1], one[2], one[3]});
  float* to = all.f32();
  for (const Tensor& image : pixels) to = std::copy_n(image.f32(), image.count(), to);
  return std::make_shared<ImageInputs>(language.spec(), all);
}

Result<std::shared_ptr<ImageInputs>> read_image_inputs(const LanguageModel& language,
                                                       const std::vector<std::string>& paths) {
  if (paths.empty() || paths.size() > kMaxImages)
    return error_at("image", "expected 1 to {} images, got {}", kMaxImages, paths.size());
  std::vector<Tensor> pixels;
  for (const std::string& path : paths) {
    MAKAR_TRY(const Image image, read_image(path));
    MAKAR_TRY(Tensor one, model_pixels(language, image, path));
    pixels.push_back(std::move(one));
  }
  return join_images(language, pixels);
}

Result<std::vector<int64_t>> encode_with_images(const LanguageModel& language, const std::string& text,
                                                ImageInputs& images) {
  std::vector<int64_t> ids;
  if (!language.spec().image_input) {
    if (!text.empty())
      return error_of(Error::Kind::kUnsupported, "prompt", "a {} reads no text, only images",
                      language.spec().architecture);
    return ids;
  }
  MAKAR_TRY(const std::string token, image_token(language));
  std::vector<ChatSegment> segments;
  const auto add_segment = [&](const std::string& part, bool content) {
    if (!part.empty()) segments.push_back({part, content});
  };
  if (text.find(token) == std::string::npos)
    for (int64_t i = 0; i < images.pixels.dim(0); ++i) add_segment(token, false), add_segment("\n", true);
  size_t from = 0;
  for (size_t at; (at = text.find(token, from)) != std::string::npos; from = at + token.size())
    add_segment(text.substr(from, at - from), true), add_segment(token, false);
  add_segment(text.substr(from), true);
  // The start token that the tokenizer adds before a text.
  MAKAR_TRY(const auto empty_text, language.encode(""));
  if (!empty_text.empty() && empty_text.front() == language.spec().bos) ids.push_back(empty_text.front());
  MAKAR_TRY(const auto body, language.encode_segments({std::move(segments)}));
  ids.insert(ids.end(), body.begin(), body.end());
  MAKAR_RETURN_IF_ERROR(images.expand_tokens(language.spec(), ids));
  return ids;
}

Result<std::vector<int64_t>> encode_chat_with_images(const LanguageModel& language, const ChatInput& input,
                                                     ImageInputs& images) {
  if (!language.spec().image_input) {
    if (!language.spec().is_encoder_decoder())
      return error_of(Error::Kind::kUnsupported, "messages", "a {} cannot chat about images",
                      language.spec().architecture);
    if (has_text(input.messages))
      return error_of(
          Error::Kind::kUnsupported, "messages",
          "a {} describes an image and reads no text; send one message with one image and no text",
          language.spec().architecture);
    return std::vector<int64_t>();
  }
  if (language.chat_template() && !language.places_images())
    return error_of(
        Error::Kind::kUnsupported, "chat template",
        "does not support images; give another with `program.chat_template`, or continue text with "
        "makar generate --image");
  MAKAR_TRY(auto ids, language.encode_chat(input));
  MAKAR_RETURN_IF_ERROR(images.expand_tokens(language.spec(), ids));
  return ids;
}

Json image_message(size_t images, const std::string& text) {
  Json parts = Json::array();
  for (size_t i = 0; i < images; ++i) parts.push_back({{"type", "image"}});
  parts.push_back({{"type", "text"}, {"text", text}});
  return {{"role", "user"}, {"content", std::move(parts)}};
}

Result<Tensor> image_vectors(const LanguageModel& language, Device& device, const ImageInputs& images) {
  const ModelSpec& spec = language.spec();
  const Model& model = language.model();
  const bool contrastive = spec.head.kind == HeadKind::kContrastive;
  if (!contrastive && spec.decoder)
    return error_of(Error::Kind::kUnsupported, "embed", "a {} has no image embeddings; CLIP and ViT do",
                    spec.architecture);
  Context ctx{device};
  ForwardContext f{ctx};
  return in_groups(images.pixels, [&](const Tensor& pixels) {
    const Batch batch = pixel_batch(spec, pixels);
    if (contrastive) return model.image_vectors(f, batch);
    const Tensor states = model.encode(f, batch).host();
    std::vector<float> rows;
    for (const Sequence& s : batch.sequences) {
      const auto row = pool_states(states.slice(s.start, s.start + 1), {.pooling = Pooling::kFirst});
      rows.insert(rows.end(), row.begin(), row.end());
    }
    return Tensor::from({pixels.dim(0), states.dim(1)}, rows);
  });
}

Result<Tensor> image_logits(const LanguageModel& language, Device& device, const ImageInputs& images) {
  const ModelSpec& spec = language.spec();
  if (spec.head.kind != HeadKind::kImageClass && spec.head.kind != HeadKind::kImageClassTeacher)
    return error_of(Error::Kind::kUnsupported, "classify",
                    "a {} has no labels for images; give labels to a CLIP model, or use an image classifier",
                    spec.architecture);
  Context ctx{device};
  ForwardContext f{ctx};
  return in_groups(images.pixels, [&](const Tensor& pixels) {
    const Batch batch = pixel_batch(spec, pixels);
    return language.model().outputs(ctx, language.model().encode(f, batch), batch).at("logits");
  });
}

}  // namespace makar
