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

struct EmbedCommand {
  ModelOptions model;
  std::vector<std::string> texts, files, images;
  std::string pooling, price_file;
  bool no_normalize = false, json = false;
};

void declare_embed(Options& options, EmbedCommand& c) {
  c.model.declare(options);
  declare_device(options, c.model.device);
  options.group("Text");
  options.positional("TEXT", &c.texts, "one or more texts; lines of standard input if there is none")
      .required = false;
  options.add("-f --file", &c.files, "read one text per line from a file", "FILE");
  options.add("--image", &c.images,
              "embed an image (CLIP, ViT) instead of texts; may be repeated. CLIP's vectors of images "
              "and texts can be compared",
              "FILE");
  options.group("Output");
  options.add("--pooling", &c.pooling, "mean, cls or last; the setting of the model's folder if not set",
              "KIND");
  options.add("--no-normalize", &c.no_normalize, "do not scale the vectors to unit length");
  options.add(
      "--prices", &c.price_file,
      "price table (JSON: currency, input, hour, watts, kwh): print tokens and cost to standard error",
      "FILE");
  options.add("--json --jsonl", &c.json, "print one {\"embedding\"} object per line");
}

// One vector per text of the arguments, or per line of the input. Adds the tokens to `tokens`, if it is set.
Status print_text_vectors(const EmbedCommand& c, Engine& engine, const LanguageModel& language,
                          const EmbedOptions& o, int64_t* tokens) {
  const auto print = [&](const std::vector<std::string>& batch) -> Status {
    MAKAR_TRY(const Tensor vectors, embed(engine, language, batch, o));
    for (size_t i = 0; tokens && i < batch.size(); ++i) {
      MAKAR_TRY(const auto ids, embed_tokens(language, batch[i], o));
      *tokens += static_cast<int64_t>(ids.size());
    }
    for (int64_t i = 0; i < vectors.dim(0); ++i)
      if (!print_out(vector_line(vectors.f32() + i * vectors.dim(1), vectors.dim(1), c.json))) break;
    return Done{};
  };
  if (!c.texts.empty()) return print(c.texts);
  Status batch_status = Done{};
  MAKAR_RETURN_IF_ERROR(each_line_batch(c.files, [&](const std::vector<std::string_view>& lines, size_t) {
    batch_status = print({lines.begin(), lines.end()});
    return batch_status.ok();
  }));
  return batch_status;
}

}  // namespace

int run_embed(const std::vector<std::string>& arguments) {
  EmbedCommand c;
  Options options("embed", "Embed texts or images: one vector per line, for search and comparison.",
                  "makar embed -m MODEL \"hello world\"");
  declare_embed(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  std::optional<PriceTable> prices;
  if (!c.price_file.empty()) {
    const auto table = read_price_table(c.price_file);
    if (!table.ok()) return report(table.error()), 2;
    prices = *table;
  }
  const auto opened = open_on_device(c.model);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel& language = opened->language;
  if (!c.images.empty()) {
    if (!c.texts.empty() || !c.files.empty())
      return report(error_at("--image", "give images or texts, not both")), 2;
    const Status done = print_image_vectors(language, device, c.images, c.json);
    return done.ok() ? 0 : report(done.error());
  }
  if (!language.has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, c.model.model, "has no tokenizer"));
  auto o = embed_options(resolve_model(c.model.model), language);
  if (!o.ok()) return report(o.error());
  if (!c.pooling.empty()) {
    const auto kind = parse_pooling(c.pooling);
    if (!kind.ok()) return report(kind.error()), 2;
    o->pooling = *kind;
  }
  o->normalize = !c.no_normalize;
  Engine engine(language.model(), device, Embedder::engine_options());
  int64_t tokens = 0;
  const auto began = std::chrono::steady_clock::now();
  const Status printed = print_text_vectors(c, engine, language, *o, prices ? &tokens : nullptr);
  if (!printed.ok()) return report(printed.error());
  if (prices) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    fmt::print(stderr, "{} tokens, {:.2f} s: {}\n", tokens, seconds,
               cost_text(*prices, cost_of(*prices, tokens, 0, seconds)));
  }
  return 0;
}

}  // namespace makar
