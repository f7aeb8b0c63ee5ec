#include "train/image_text.h"

#include <algorithm>
#include <filesystem>

#include "base/nearest.h"
#include "ops/softmax.h"
#include "train/objective.h"

namespace makar {
namespace {

constexpr const char* kImagePlaceholder = "<image>";
constexpr size_t kMaxImagesPerRecord = 64;

std::string hash_of_pixels(const Tensor& pixels) {
  Sha256 sum;
  sum.add({pixels.raw(), pixels.bytes()});
  return sum.hex();
}

// The files in "images" or "image": a name or a list of names.
Result<std::vector<std::string>> files_of(const Json& record) {
  std::vector<std::string> out;
  const Json* value = field(record, {"images", "image"});
  if (!value || value->is_null()) return out;
  const auto add = [&](const Json& name) {
    if (!name.is_string() || name.get_ref<const std::string&>().empty()) return false;
    out.push_back(name.get<std::string>());
    return true;
  };
  bool valid = true;
  if (value->is_array())
    for (const Json& name : *value) valid = valid && add(name);
  else
    valid = add(*value);
  if (!valid || out.size() > kMaxImagesPerRecord)
    return error_at("", "'images' must be a file name or a list of at most {} file names",
                    kMaxImagesPerRecord);
  return out;
}

// The text under a name; "" if there is none.
std::string text_in(const Json& object, const char* name) {
  if (!object.is_object()) return "";
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

Json text_part(std::string text) { return {{"type", "text"}, {"text", std::move(text)}}; }

// Splits a text at its image placeholders. A line break next to a placeholder is dropped, because the chat
// template adds it.
void add_parts(const std::string& text, Json& parts, size_t& placeholders) {
  size_t from = 0;
  const auto push_text = [&](std::string piece, bool before_image, bool after_image) {
    if (after_image && piece.starts_with('\n')) piece.erase(0, 1);
    if (before_image && piece.ends_with('\n')) piece.pop_back();
    if (!piece.empty()) parts.push_back(text_part(std::move(piece)));
  };
  for (size_t at; (at = text.find(kImagePlaceholder, from)) != std::string::npos;) {
    push_text(text.substr(from, at - from), true, from > 0);
    parts.push_back({{"type", "image"}});
    ++placeholders, from = at + std::string_view(kImagePlaceholder).size();
  }
  push_text(text.substr(from), false, from > 0);
}

// Repeats each image token once per row of its image; truncates longer texts at the end.
Status expand(const ModelSpec& spec, int64_t max_length, ImageText& text) {
  const int64_t token = spec.image_input->token, rows_per_image = spec.image_tokens();
  const auto image_tokens = static_cast<size_t>(std::count(text.ids.begin(), text.ids.end(), token));
  if (image_tokens != text.images.size())
    return error_at("", "the first {} tokens have {} image tokens for {} images", text.ids.size(),
                    image_tokens, text.images.size());
  std::vector<int64_t> ids;
  std::vector<uint8_t> loss_mask;
  size_t images_end = 0;
  for (size_t i = 0; i < text.ids.size(); ++i) {
    const bool image = text.ids[i] == token;
    ids.insert(ids.end(), image ? static_cast<size_t>(rows_per_image) : 1, text.ids[i]);
    loss_mask.resize(ids.size(), image ? 0 : text.loss_mask[i]);
    if (image) images_end = ids.size();
  }
  const auto max = static_cast<size_t>(max_length);
  if (images_end >= max)
    return error_at("", "the images need {} tokens; sequence_len is {}", images_end, max_length);
  if (ids.size() > max) ids.resize(max), loss_mask.resize(max);
  if (std::count(loss_mask.begin() + 1, loss_mask.end(), 1) == 0)
    return error_at("", "the first {} tokens have no assistant turn to train on", max);
  text.ids = std::move(ids), text.loss_mask = std::move(loss_mask);
  return Done{};
}

Result<ImageText> read_record(const DataRecord& record, const std::string& type, const ModelSpec& spec,
                              const ImageTextEncoding& encoding) {
  ImageText out;
  MAKAR_TRY(out.images, files_of(record.value));
  MaskedTokens tokens;
  if (spec.is_encoder_decoder()) {
    const Json* caption = field(record.value, {"caption", "text", "target"});
    if (out.images.size() != 1 || !caption || !caption->is_string())
      return error_at("", "a {} is trained on records with one 'image' and its 'caption'", spec.architecture);
    MAKAR_TRY(tokens, encoding.caption(caption->get<std::string>()));
  } else {
    const auto schema = type.empty() ? detect_schema(record.value) : schema_named(type);
    if (!schema)
      return error_at("", "{}",
                      unexpected_schema_message(record.value, {Schema::kMessages, Schema::kShareGpt}));
    MAKAR_TRY(const Json messages, to_messages(record.value, *schema));
    MAKAR_TRY(const Json parts, messages_in_parts(messages, out.images));
    MAKAR_TRY(tokens, encoding.conversation(parts));
  }
  out.ids = std::move(tokens.ids), out.loss_mask = std::move(tokens.loss_mask);
  if (spec.image_input) MAKAR_RETURN_IF_ERROR(expand(spec, encoding.max_length, out));
  for (std::string& file : out.images) {
    if (std::filesystem::path path = file; path.is_relative())
      file = (std::filesystem::path(record.file).parent_path() / path).string();
    MAKAR_TRY(const Tensor pixels, encoding.pixels(file));
    out.hashes.push_back(hash_of_pixels(pixels));
  }
  return out;
}

Status read_image_text(const DatasetSpec& dataset, const ModelSpec& spec, const ImageTextEncoding& encoding,
                       ValidationSplit& split, ImageTextData& out) {
  if (!dataset.type.empty() && !schema_named(dataset.type))
    return error_at("datasets", "unknown type '{}'{}", dataset.type,
                    did_you_mean(dataset.type, schema_names()));
  MAKAR_TRY(auto reader, RecordReader::open({dataset.data()}));
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    const auto text = read_record(record, dataset.type, spec, encoding);
    if (!text.ok()) {
      reader.bad().add(record.place(), text.error().text());
      continue;
    }
    const bool held_out = split.selects(dump(record.value));
    MAKAR_RETURN_IF_ERROR((held_out ? out.validation : out.train).add(*text));
  }
  out.bad = reader.bad();
  return Done{};
}

// Appends a text to the decoder's batch, and the target of each of its rows.
void add_text(const ModelSpec& spec, const ImageText& text, Batch& batch, std::vector<int64_t>& targets) {
  const auto counted_id = [&](size_t i) { return text.loss_mask[i] ? text.ids[i] : ops::kIgnore; };
  if (spec.is_encoder_decoder()) {  // the decoder reads the start token and ids[..i - 1] and predicts ids[i]
    std::vector<int64_t> shifted = {spec.decoder_start >= 0 ? spec.decoder_start
                                                            : std::max<int64_t>(0, spec.bos)};
    shifted.insert(shifted.end(), text.ids.begin(), text.ids.end() - 1);
    batch.add(shifted);
    for (size_t i = 0; i < text.ids.size(); ++i) targets.push_back(counted_id(i));
    return;
  }
  const int64_t first = batch.rows();
  for (size_t i = 0; i < text.ids.size(); ++i) {
    if (text.ids[i] == spec.image_input->token) batch.feature_rows.push_back(first + static_cast<int64_t>(i));
    targets.push_back(i + 1 < text.ids.size() ? counted_id(i + 1) : ops::kIgnore);
  }
  batch.add(text.ids);
}

// [images, channels, height, width]
Tensor concat_pixels(const std::vector<Tensor>& pixels) {
  const Shape& shape = pixels[0].shape();
  Tensor all = Tensor::empty({static_cast<int64_t>(pixels.size()), shape[1], shape[2], shape[3]});
  float* to = all.f32();
  for (const Tensor& image : pixels) to = std::copy_n(image.f32(), image.count(), to);
  return all;
}

}  // namespace

Result<Json> messages_in_parts(const Json& messages, std::vector<std::string>& images) {
  Json out = messages;
  size_t placeholders = 0;
  std::vector<std::string> part_files;
  for (Json& message : out) {
    Json parts = Json::array();
    const Json& content = message["content"];
    if (content.is_string()) add_parts(content.get_ref<const std::string&>(), parts, placeholders);
    if (content.is_array())
      for (const Json& part : content) {
        const std::string type = text_in(part, "type");
        if (type != "image" && !(type == "text" && part.contains("text") && part["text"].is_string()))
          return error_at("", "a part of a message must have the type 'text', with its 'text', or 'image'");
        if (const Json* file = type == "image" ? field(part, {"image", "path", "url"}) : nullptr;
            file && file->is_string())
          part_files.push_back(file->get<std::string>());
        if (type == "image") ++placeholders;
        parts.push_back(type == "image" ? Json{{"type", "image"}} : part);
      }
    message["content"] = std::move(parts);
  }
  if (!part_files.empty() && !images.empty())
    return error_at("", "has image files both in its messages and in 'images'; use one of them");
  if (!part_files.empty()) images = std::move(part_files);
  if (placeholders == 0 && !images.empty()) {
    const auto user =
        std::find_if(out.begin(), out.end(), [](const Json& m) { return text_in(m, "role") == "user"; });
    if (user == out.end()) return error_at("", "has images but no user message");
    Json parts = Json::array();
    for (size_t i = 0; i < images.size(); ++i) parts.push_back({{"type", "image"}});
    parts.insert(parts.end(), (*user)["content"].begin(), (*user)["content"].end());
    (*user)["content"] = std::move(parts);
  } else if (placeholders != images.size()) {
    return error_at("", "has {} image placeholders (<image>) for {} images", placeholders, images.size());
  }
  return out;
}

Result<Json> messages_without_images(const Json& messages) {
  Json out = messages;
  for (Json& message : out) {
    std::string text;
    for (const Json& part : message["content"]) {
      if (text_in(part, "type") != "text")
        return error_at("", "has an image, but the chat template does not support images; set chat_template");
      text += text_in(part, "text");
    }
    message["content"] = text;
  }
  return out;
}

Result<ImageTextData> open_image_text(const DatasetOptions& options, const ModelSpec& spec,
                                      const ImageTextEncoding& encoding, Json& identity) {
  return read_examples<ImageTextData>(
      options, spec.is_encoder_decoder() ? "captions" : "conversations", identity,
      [&](const DatasetSpec& dataset, ValidationSplit& split, ImageTextData& out) {
        return read_image_text(dataset, spec, encoding, split, out);
      });
}

Result<MicroBatch> ImageTextTask::make(std::span<const size_t> which, bool validation, uint64_t) {
  const ModelSpec& spec = model_.spec();
  LanguageBatch language;
  Batch texts;
  std::vector<Tensor> pixels;
  for (const size_t w : which) {
    MAKAR_TRY(const ImageText text, (validation ? data_.validation : data_.train).read(w));
    for (size_t i = 0; i < text.images.size(); ++i) {
      MAKAR_TRY(Tensor image, encoding_.pixels(text.images[i]));
      if (hash_of_pixels(image) != text.hashes[i])
        return error_at(text.images[i],
                        "has changed since the run began; restore it, or start again with --overwrite");
      pixels.push_back(std::move(image));
    }
    add_text(spec, text, texts, language.targets);
  }
  MicroBatch out;
  out.tokens = texts.rows(), out.squared_lengths = squared_lengths(texts);
  out.weight =
      static_cast<double>(language.targets.size()) -
      static_cast<double>(std::count(language.targets.begin(), language.targets.end(), ops::kIgnore));
  if (pixels.empty()) {
    language.inputs.source = std::move(texts);
  } else {
    language.inputs.source = pixel_batch(spec, concat_pixels(pixels));
    language.inputs.target = std::move(texts);
    out.tokens += language.inputs.source.rows(),
        out.squared_lengths += squared_lengths(language.inputs.source);
  }
  out.language = std::make_shared<const LanguageBatch>(std::move(language));
  out.loss = [this, b = out.language](ForwardContext& f) -> Result<Tensor> {
    return language_loss(f, model_, b->inputs, b->targets, smoothing_);
  };
  return out;
}

}  // namespace makar
