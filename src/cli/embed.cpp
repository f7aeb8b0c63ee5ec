// makar embed: vectors of texts or images.
#include "llm/embed.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "base/price_table.h"
#include "cli/model_options.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "llm/image_inputs.h"

namespace makar {
namespace {

Result<Pooling> parse_pooling(const std::string& name) {
  if (name == "mean") return Pooling::kMean;
  if (name == "cls" || name == "first") return Pooling::kFirst;
  if (name == "last") return Pooling::kLast;
  return error_at("--pooling", "expected mean, cls or last, got '{}'", name);
}

std::string vector_line(const float* row, int64_t width, bool json) {
  std::string out = json ? "{\"embedding\":[" : "";
  for (int64_t i = 0; i < width; ++i) out += fmt::format("{}{}", i ? (json ? "," : " ") : "", row[i]);
  return out + (json ? "]}\n" : "\n");
}

// One vector per image.
Status print_image_vectors(const LanguageModel& language, Device& device,
                           const std::vector<std::string>& paths, bool json) {
  for (const std::string& path : paths) {
    MAKAR_TRY(const auto images, read_image_inputs(language, {path}));
    MAKAR_TRY(const Tensor vectors, image_vectors(language, device, *images));
    if (!print_out(vector_line(vectors.f32(), vectors.dim(1), json))) break;
  }
  return Done{};
}

}  // namespace

int run_embed(const std::vector<std::string>& arguments) {
  ModelOptions model;
  std::vector<std::string> texts, files, images;
  std::string pooling, price_file;
  bool no_normalize = false, json = false;
  Options options("embed", "Embed texts or images: one vector per line, for search and comparison.",
                  "makar embed -m MODEL \"hello world\"");
  model.declare(options);
  declare_device(options, model.device);
  options.group("Text");
  options.positional("TEXT", &texts, "one or more texts; lines of standard input if there is none").required =
      false;
  options.add("-f --file", &files, "read one text per line from a file", "FILE");
  options.add("--image", &images,
              "embed an image (CLIP, ViT) instead of texts; may be repeated. CLIP's vectors of images "
              "and texts can be compared",
              "FILE");
  options.group("Output");
  options.add("--pooling", &pooling, "mean, cls or last; the setting of the model's folder if not set",
              "KIND");
  options.add("--no-normalize", &no_normalize, "do not scale the vectors to unit length");
  options.add(
      "--prices", &price_file,
      "price table (JSON: currency, input, hour, watts, kwh): print tokens and cost to standard error",
      "FILE");
  options.add("--json --jsonl", &json, "print one {\"embedding\"} object per line");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  std::optional<PriceTable> prices;
  if (!price_file.empty()) {
    const auto table = read_price_table(price_file);
    if (!table.ok()) return report(table.error()), 2;
    prices = *table;
  }
  const auto opened = open_on_device(model);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel* language = &opened->language;
  if (!images.empty()) {
    if (!texts.empty() || !files.empty())
      return report(error_at("--image", "give images or texts, not both")), 2;
    const Status done = print_image_vectors(*language, device, images, json);
    return done.ok() ? 0 : report(done.error());
  }
  if (!language->has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, model.model, "has no tokenizer"));
  auto o = embed_options(resolve_model(model.model), *language);
  if (!o.ok()) return report(o.error());
  if (!pooling.empty()) {
    const auto kind = parse_pooling(pooling);
    if (!kind.ok()) return report(kind.error()), 2;
    o->pooling = *kind;
  }
  o->normalize = !no_normalize;
  Engine engine(language->model(), device, Embedder::engine_options());
  int64_t tokens = 0;
  const auto began = std::chrono::steady_clock::now();
  const auto print = [&](const std::vector<std::string>& batch) -> Status {
    MAKAR_TRY(const Tensor vectors, embed(engine, *language, batch, *o));
    for (size_t i = 0; prices && i < batch.size(); ++i) {
      MAKAR_TRY(const auto ids, embed_tokens(*language, batch[i], *o));
      tokens += static_cast<int64_t>(ids.size());
    }
    for (int64_t i = 0; i < vectors.dim(0); ++i)
      if (!print_out(vector_line(vectors.f32() + i * vectors.dim(1), vectors.dim(1), json))) break;
    return Done{};
  };
  Status status = Done{};
  if (!texts.empty()) {
    status = print(texts);
  } else {
    Status batch_status = Done{};
    status = each_line_batch(files, [&](const std::vector<std::string_view>& lines, size_t) {
      batch_status = print({lines.begin(), lines.end()});
      return batch_status.ok();
    });
    if (status.ok()) status = batch_status;
  }
  if (!status.ok()) return report(status.error());
  if (prices) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    fmt::print(stderr, "{} tokens, {:.2f} s: {}\n", tokens, seconds,
               cost_text(*prices, cost_of(*prices, tokens, 0, seconds)));
  }
  return 0;
}

}  // namespace makar
